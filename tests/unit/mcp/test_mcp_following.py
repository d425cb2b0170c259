"""Following a Run: what is shown while it moves, when it is asked about, and when following ends."""

from __future__ import annotations

import datetime as dt
import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.core.management import call_command
from rich.console import Console

from apps.core import clock
from apps.core.errors import ErrorCode, LoomError
from apps.mcp import commands, following, views
from apps.mcp.client import AnswerLost

BEGIN = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)
#: What moves a terminal's cursor or changes its style.
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
RUN_ID = "01a22c7e-2f63-749f-84f7-a6800ea255ac"
ACTION = {
    "id": "01a22c7e-2f63-749f-84f7-a6800ea255ad",
    "kind": "questions",
    "request": [{"id": "q", "question": "Go on?", "isSkippable": False}],
    "onlyPerson": False,
    "createdAt": clock.to_wire(BEGIN),
}


def at(seconds: float) -> str:
    return clock.to_wire(BEGIN + dt.timedelta(seconds=seconds))


def view(status: str, **more: Any) -> dict[str, Any]:
    """A Run's view as far as following looks at it."""
    ended = {"finishedAt": at(90)} if status in following.ENDED else {}
    return {
        "runId": RUN_ID, "loomName": "trial", "status": status, "revision": 3, "boundary": 2, "historical": False,
        "cursor": {"stage": "work", "step": "act", "visit": 1}, "pauseRequested": False,
        "results": {"artifactIds": [], "recordIds": []}, "createdAt": at(0), **ended, **more,
    }  # fmt: skip


@dataclass
class Told:
    """A service that shows one view after the other, and takes answers."""

    views: list[Any]
    #: What `list_runs` filters.
    runs: list[dict[str, Any]] = field(default_factory=list)
    refusal: LoomError | None = None
    answered: dict[str, Any] | None = None
    calls: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    def call(self, tool: str, arguments: Mapping[str, Any], /) -> dict[str, Any]:
        self.calls.append((tool, dict(arguments)))
        if tool == "status":
            return {"service": {"instanceId": "the-instance"}}
        if tool == "list_runs":
            return {"runs": [run for run in self.runs if run["status"] == arguments.get("status", run["status"])]}
        if tool == "answer_ask" and self.refusal is not None:
            raise self.refusal
        present = self.views.pop(0) if tool == "get_run" else self.views[0]
        if isinstance(present, BaseException):
            raise present
        if tool == "interact":
            return {"action": present["pendingAction"], "run": present, "presented": "unsupported"}
        receipt = {"operationId": "o", "serviceInstanceId": "the-instance", "kind": tool, "status": "accepted"}
        return {"run": present, "receipt": receipt}

    def attempts(self, run_id: str) -> list[dict[str, Any]]:
        return []

    def answer_to(self, run_id: str, action_id: str) -> dict[str, Any] | None:
        return self.answered

    def called(self, tool: str) -> list[Mapping[str, Any]]:
        return [arguments for name, arguments in self.calls if name == tool]

    def __enter__(self) -> Told:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture(autouse=True)
def _without_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two looks a second goes by, at once."""
    times = [75]
    monkeypatch.setattr(following.time, "sleep", lambda seconds: times.append(times[-1] + 1))
    monkeypatch.setattr(clock, "now", lambda: BEGIN + dt.timedelta(seconds=times[-1]))


def followed(*views: Any, answer: Any = None, terminal: bool = False) -> tuple[following.View, str]:
    """The last view, and what was shown."""
    file = io.StringIO()
    console = Console(
        file=file, width=60 if terminal else 120, force_terminal=terminal, color_system=None, legacy_windows=False
    )
    last = following.follow(
        Told(list(views)), RUN_ID, console=console, answering=lambda view: answer, submit=lambda view, answer: None
    )
    return last, file.getvalue()


def test_each_change_is_one_line_with_place_steps_done_and_time() -> None:
    started = view("running", startedAt=at(60), boundary=1)
    again = view("running", startedAt=at(60), cursor={"stage": "work", "step": "act", "visit": 3}, pauseRequested=True)
    last, shown = followed(view("queued", boundary=0), started, started, again, view("completed", startedAt=at(60)))
    assert last["status"] == "completed"
    assert shown.splitlines() == [
        "◷ queued  work/act  0 Steps done  1 min 15 s",
        "▶ running  work/act  1 Step done  16.0 s",
        "▶ running  work/act ×3  2 Steps done  pauses after this Step  18.0 s",
        "✓ completed  work/act  2 Steps done  30.0 s",
    ]


def test_on_a_terminal_the_line_moves_and_never_wraps() -> None:
    long = view(
        "completed", cursor={"stage": "a-stage-with-a-long-name", "step": "a-step-with-a-long-name", "visit": 2}
    )
    _, shown = followed(long, terminal=True)
    (line,) = CONTROL.sub("", shown).strip().splitlines()
    assert line.endswith("…")
    assert "a-stage-with-a-long-name" in line
    assert len(line) <= 60


@pytest.mark.parametrize(
    ("phase", "said"), [("available", "not claimed yet; open since"), ("claimed", "claimed; open since")]
)
def test_a_wait_for_an_agent_says_which_one_whether_it_is_claimed_and_since_when(phase: str, said: str) -> None:
    call = {"id": "call", "agentId": "wri\x1bter", "phase": phase, "createdAt": at(30)}
    waiting = view("waiting", pendingAgentCall=call)
    line = following.describe(waiting).plain
    assert line.endswith(f"waits for agent wri␛ter ({said} 2026-11-30 12:00:30Z)")
    last, _ = followed(waiting, waiting, view("completed"))
    assert last["status"] == "completed", "an agent is not waited for by ending"
    file = io.StringIO()
    Console(file=file, width=200).print(views.run(waiting))
    assert said in file.getvalue()
    assert ("claim_agent_call" in file.getvalue()) == (phase == "available")


@pytest.mark.rule("H5")
def test_following_goes_on_after_an_answer_and_ends_where_none_is_given() -> None:
    asks = view("waiting", pendingAction=ACTION)
    assert followed(asks, view("running"), view("completed"), answer="yes")[0]["status"] == "completed"
    assert followed(asks, view("completed"))[0]["status"] == "waiting"
    assert followed(view("paused"), view("completed"))[0]["status"] == "paused"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def command(
    monkeypatch: pytest.MonkeyPatch, service: Told, *arguments: str, typed: str | None = None
) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command that reaches ``service``; at a terminal when something is ``typed``."""
    out, err = (io.StringIO() if typed is None else Terminal()), io.StringIO()
    monkeypatch.setattr(commands, "connect", lambda folder: service)
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    monkeypatch.setattr("sys.stdin", io.StringIO() if typed is None else Terminal(typed))
    monkeypatch.setenv("COLUMNS", "120")
    code = 0
    try:
        call_command(*arguments)
    except SystemExit as stop:
        code = int(stop.code or 0)
    return code, CONTROL.sub("", out.getvalue()), err.getvalue()


ASKS = view("waiting", pendingAction=ACTION)
FOLLOWING = [("get_run", RUN_ID, "--follow"), ("list_runs", "--follow", RUN_ID)]


@pytest.mark.parametrize("arguments", FOLLOWING)
@pytest.mark.parametrize(("ending", "code"), [("completed", 0), ("failed", 1), ("cancelled", 1), ("paused", 1)])
def test_a_given_run_is_followed_and_only_a_completed_one_ends_with_0(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], ending: str, code: int
) -> None:
    error = {"lastError": {"code": "STEP_FAILED", "message": "no", "stage": "work", "step": "act", "attempt": 1}}
    last = view(ending, **(error if ending == "failed" else {}))
    found, out, _ = command(monkeypatch, Told([view("running"), last]), *arguments)
    assert found == code
    assert "▶ running  work/act" in out
    next_step = {"failed": f"loomsvc loom_graph {RUN_ID}", "paused": f"loomsvc resume_run {RUN_ID}"}.get(ending, "")
    assert next_step in out


def test_the_newest_run_of_the_list_that_has_not_ended_is_followed_with_the_filters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    older = view("running") | {"runId": "00000000-0000-7000-8000-000000000000"}
    service = Told([view("completed")], runs=[view("failed"), older, ASKS])
    code, _, _ = command(monkeypatch, service, "list_runs", "--loom-name", "trial", "--limit", "2", "--follow")
    assert code == 0
    assert service.called("list_runs") == [
        {"loomName": "trial", "limit": 1, "status": status} for status in ("queued", "running", "waiting", "paused")
    ]
    assert service.called("get_run") == [{"runId": RUN_ID}]
    code, _, err = command(monkeypatch, Told([], runs=[view("failed")]), "list_runs", "--follow")
    assert code == 1
    assert "has not ended" in err


@pytest.mark.rule("H1", "H6")
@pytest.mark.parametrize("arguments", FOLLOWING)
def test_what_it_asks_is_asked_in_place_and_following_goes_on(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    service = Told([ASKS, view("running"), view("completed")])
    code, out, _ = command(monkeypatch, service, *arguments, typed="yes\n")
    assert code == 0
    assert "Go on?" in out
    (sent,) = service.called("answer_ask")
    assert sent["answer"] == [{"questionId": "q", "isSkipped": False, "answer": "yes"}]
    assert (sent["actionId"], sent["serviceInstanceId"]) == (ACTION["id"], "the-instance")


@pytest.mark.rule("H5")
@pytest.mark.parametrize("typed", [None, ""], ids=["no terminal", "dismissed"])
@pytest.mark.parametrize("arguments", FOLLOWING)
def test_a_wait_that_nobody_answers_here_ends_with_the_command_that_does(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], typed: str | None
) -> None:
    service = Told([ASKS])
    code, out, _ = command(monkeypatch, service, *arguments, typed=typed)
    assert code == 1
    assert out.splitlines()[-1].strip().startswith(f"loomsvc interact {RUN_ID}")
    assert not service.called("answer_ask")


@pytest.mark.rule("H5")
@pytest.mark.parametrize("arguments", FOLLOWING)
def test_as_json_the_next_command_stands_beside_the_document(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    code, out, err = command(monkeypatch, Told([ASKS]), *arguments, "--json", typed="yes\n")
    assert code == 1
    assert json.loads(out) == {"run": ASKS}
    assert f"loomsvc interact {RUN_ID}" in err


FASTER = {
    "type": "ActionAnswered",
    "at": at(5),
    "data": {
        "actionId": ACTION["id"],
        "answeredBy": {"principal": "credential:abc", "source": "studio", "via": "rest"},
    },
}


@pytest.mark.rule("H3", "H6")
@pytest.mark.parametrize(
    ("answered", "said"),
    [(FASTER, "Answered by credential:abc (studio, by rest), 2026-11-30 12:00:05Z."), (None, "It moved on.")],
)
def test_whoever_is_too_late_is_told_who_was_faster_and_following_goes_on(
    monkeypatch: pytest.MonkeyPatch, answered: dict[str, Any] | None, said: str
) -> None:
    refusal = LoomError(ErrorCode.CONFLICT, "It moved on.")
    service = Told([ASKS, view("completed")], refusal=refusal, answered=answered)
    code, out, _ = command(monkeypatch, service, "get_run", RUN_ID, "--follow", typed="yes\n")
    assert code == 0
    assert "Your answer was not taken" in out
    assert said in out
    service = Told([ASKS, ASKS], refusal=refusal, answered=answered)
    code, out, _ = command(monkeypatch, service, "interact", RUN_ID, typed="yes\n")
    assert code == 1
    assert said in out


def test_following_that_is_cut_off_says_that_the_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Told([view("running"), AnswerLost("The service gave no answer.")])
    code, _, err = command(monkeypatch, service, "get_run", RUN_ID, "--follow")
    assert code == 1
    assert "The service gave no answer. Stopped following. The Run goes on" in err
    assert f"loomsvc get_run {RUN_ID} --follow" in err
    code, out, _ = command(monkeypatch, Told([view("running"), KeyboardInterrupt()]), "list_runs", "--follow", RUN_ID)
    assert code == 130
    assert f"loomsvc cancel_run {RUN_ID}" in out


@pytest.mark.rule("E6")
def test_an_answer_that_got_no_answer_leaves_its_identity_to_ask_with(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Told([ASKS, AnswerLost("The service gave no answer.")])
    code, _, err = command(monkeypatch, service, "get_run", RUN_ID, "--follow", typed="yes\n")
    assert code == 1
    (sent,) = service.called("answer_ask")
    assert f"loomsvc get_operation {sent['operationId']} --service-instance-id the-instance" in err


@pytest.mark.rule("H4", "H5")
def test_interact_asks_in_place_and_sends_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Told([ASKS, ASKS])
    code, out, _ = command(monkeypatch, service, "interact", RUN_ID, typed="yes\n")
    assert code == 0
    assert service.called("interact")[0]["actionId"] == ACTION["id"]
    assert service.called("answer_ask")[0]["actionId"] == ACTION["id"]
    assert "? waiting  work/act" in out
    assert f"loomsvc get_run {RUN_ID} --follow" in out
    service = Told([ASKS])
    assert command(monkeypatch, service, "interact", RUN_ID, "an-action", typed="yes\n")[0] == 0
    assert service.called("interact")[0]["actionId"] == "an-action", "the service says whether it is the present one"


@pytest.mark.rule("H4", "H5")
def test_interact_without_anybody_shows_the_action_and_how_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    hint = f"loomsvc answer_ask {RUN_ID} {ACTION['id']} --answer"
    for typed in (None, ""):
        service = Told([ASKS, ASKS])
        code, out, _ = command(monkeypatch, service, "interact", RUN_ID, typed=typed)
        assert code == 1
        assert "Go on?" in out
        assert hint in out.replace("\n", "")
        assert not service.called("answer_ask")
    code, out, _ = command(monkeypatch, Told([ASKS, ASKS]), "interact", RUN_ID, "--json", typed="yes\n")
    assert code == 1
    assert json.loads(out) == {"action": ACTION, "run": ASKS, "presented": "unsupported"}


def test_interact_with_a_run_that_asks_nothing_says_how_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, err = command(monkeypatch, Told([view("completed")]), "interact", RUN_ID, typed="yes\n")
    assert code == 1
    assert "asks nothing; it is completed" in err
