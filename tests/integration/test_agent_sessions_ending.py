"""How a background agent ends: cancelled, revoked, tampered with, or with its worker lost (B9)."""

# ruff: noqa: F811 - the fixture comes from background_agents
from __future__ import annotations

import datetime as dt
import uuid
from dataclasses import replace
from typing import Any

import pytest
from background_agents import Client, client, used  # noqa: F401
from django.db import OperationalError

from apps.access.models import Project
from apps.access.services.credentials import create_credential, revoke_credential
from apps.agent_sessions.models import AgentSession, ModelUsage
from apps.agent_sessions.runtime.ended import Cancelled, Succeeded, Usage
from apps.agent_sessions.services import leasing, working
from apps.core import clock
from apps.core.caller import Source
from apps.runs.services import worker
from apps.runs.services.sweeping import sweep


@pytest.mark.rule("B9")
def test_a_queued_agent_is_cancelled_at_once_and_never_sent_anything(client: Client) -> None:
    client.start()
    assert client.cancel()["state"] == "cancelled"
    client.work()
    assert client.status()["state"] == "cancelled" and client.status()["usage"]["requests"] == 0
    assert client.cancel()["state"] == "cancelled", "and again it changes nothing"


@pytest.mark.rule("B9", "B3")
def test_a_running_agent_is_cancelled_at_its_next_boundary(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []

    def play(program: Any, input: Any, *, before_request: Any, report: Any, **_: Any) -> Any:
        while before_request():
            sent.append(client.cancel()["state"])
            asked_at = AgentSession.objects.get().cancel_requested_at
            with clock.moved(dt.timedelta(minutes=1)):
                assert client.cancel()["state"] == "running"
            assert AgentSession.objects.get().cancel_requested_at == asked_at, "the first one counts"
            report(Usage(len(sent), 10, 5))
            assert client.status()["usage"]["total_tokens"] == 15, "usage is seen while it runs"
        return Cancelled(Usage(len(sent), 10, 5))

    monkeypatch.setattr(working, "reason", play)
    client.start()
    client.work()
    assert sent == ["running"]
    status = client.status()
    assert (status["state"], status["output"], status["error"]) == ("cancelled", None, None)
    assert status["usage"]["requests"] == 1


@pytest.mark.rule("B9")
def test_nothing_succeeds_after_a_cancel_even_if_the_answer_was_there(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def play(program: Any, input: Any, *, before_request: Any, **_: Any) -> Any:
        assert before_request()
        client.cancel()
        return Succeeded("too late", Usage(1, 1, 1))

    monkeypatch.setattr(working, "reason", play)
    client.start()
    client.work()
    assert client.status()["state"] == "cancelled" and client.status()["output"] is None


def lose_worker(client: Client, monkeypatch: pytest.MonkeyPatch, *, called: bool) -> None:
    """A worker takes the session, maybe sends a request, and is never heard of again."""

    def die(*_: Any, before_request: Any, report: Any, **__: Any) -> Any:
        if called:
            assert before_request()
            report(Usage(1, 100, 10))
        raise OperationalError("the worker is gone")

    monkeypatch.setattr(working, "reason", die)
    client.work()
    monkeypatch.setattr(working, "reason", used(Usage(1, 1, 1)))
    assert client.status()["state"] == "running"


def expire(client: Client) -> None:
    AgentSession.objects.update(lease_expires_at=clock.now() - dt.timedelta(seconds=1))


@pytest.mark.rule("B9", "B3")
@pytest.mark.parametrize("how", ["lease", "instance"])
def test_a_worker_lost_after_a_request_leaves_a_failure_and_nothing_is_sent_again(
    client: Client, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    client.start()
    lose_worker(client, monkeypatch, called=True)
    if how == "lease":
        expire(client)
        assert sweep(now=clock.now()).others == 1
    else:
        client.service.reopen()
    client.work()
    status = client.status()
    assert status["state"] == "failed" and status["error"]["reason"] == "interrupted", status
    assert status["usage"] == {
        "requests": 1, "input_tokens": 100, "output_tokens": 10, "total_tokens": 110, "tool_calls": 0,
    }  # fmt: skip
    sweep(now=clock.now())
    counted = ModelUsage.objects.get()
    assert (counted.sessions, counted.requests, counted.input_tokens) == (1, 1, 100), "counted once"


@pytest.mark.rule("B3", "B9")
def test_a_request_counts_from_when_it_goes_out_though_its_worker_is_lost(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.start()

    def killed_amid_its_second_request(program: Any, input: Any, *, before_request: Any, report: Any, **_: Any) -> Any:
        assert before_request()
        report(Usage(1, 100, 10, 0))
        first = AgentSession.objects.get().called_at
        with clock.moved(dt.timedelta(minutes=1)):
            assert before_request()
        assert AgentSession.objects.get().called_at == first
        assert client.status()["usage"]["requests"] == 2, "a poll sees it as well"
        raise OperationalError("the worker is gone")

    monkeypatch.setattr(working, "reason", killed_amid_its_second_request)
    client.work()
    expire(client)
    sweep(now=clock.now())
    status = client.status()
    assert (status["error"]["reason"], status["usage"]["requests"]) == ("interrupted", 2)
    assert ModelUsage.objects.get().requests == 2


@pytest.mark.rule("B9")
@pytest.mark.parametrize("how", ["lease", "instance"])
def test_a_worker_lost_before_any_request_lets_another_one_do_it(
    client: Client, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    client.start()
    lose_worker(client, monkeypatch, called=False)
    if how == "lease":
        expire(client)
        sweep(now=clock.now())
    else:
        client.service.reopen()
    assert client.status()["state"] == "queued"
    client.work()
    assert client.status()["state"] == "succeeded" and client.status()["usage"]["requests"] == 1


@pytest.mark.rule("B9")
def test_workers_that_are_always_lost_do_not_go_on_for_ever(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.start()
    for _ in range(3):
        lose_worker(client, monkeypatch, called=False)
        expire(client)
        sweep(now=clock.now())
    assert client.status()["error"]["reason"] == "interrupted"


@pytest.mark.rule("B9")
def test_a_worker_that_lost_its_lease_sends_nothing_more_and_lands_nothing(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def play(*_: Any, before_request: Any, report: Any, **__: Any) -> Any:
        assert before_request()
        expire(client)
        sweep(now=clock.now())
        report(Usage(7, 7, 7))
        assert not before_request()
        return Succeeded("late", Usage(7, 7, 7))

    monkeypatch.setattr(working, "reason", play)
    client.start()
    client.work()
    status = client.status()
    assert status["error"]["reason"] == "interrupted" and status["usage"]["requests"] == 1


@pytest.mark.rule("B9")
def test_a_worker_past_its_lease_sends_nothing_more_though_nobody_has_seen_it_yet(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def play(*_: Any, before_request: Any, report: Any, **__: Any) -> Any:
        assert before_request()
        report(Usage(1, 2, 3))
        expire(client)
        assert not before_request()
        return Cancelled(Usage(1, 2, 3))

    monkeypatch.setattr(working, "reason", play)
    client.start()
    client.work()
    status = client.status()
    assert (status["error"]["reason"], status["usage"]["requests"]) == ("interrupted", 1)


@pytest.mark.rule("B9", "B3")
def test_a_worker_whose_session_another_one_has_taken_up_does_nothing_to_it(client: Client) -> None:
    client.start()
    instance = uuid.UUID(client.service.instance_id)
    late = leasing.take_lease(owner="late", instance_id=instance, now=clock.now())
    expire(client)
    sweep(now=clock.now())
    holder = leasing.take_lease(owner="holder", instance_id=instance, now=clock.now())
    assert late is not None and holder is not None and late.session_id == holder.session_id
    assert (leasing.goes_on(late), leasing.goes_on(holder)) == (False, True)
    assert not leasing.note_request(late, usage=Usage(), now=clock.now())
    leasing.note_usage(late, Usage(7, 7, 7, 7))
    working._land(late, Succeeded("late", Usage(7, 7, 7, 7)))
    assert (client.status()["state"], client.status()["usage"]["total_tokens"]) == ("running", 0)
    assert leasing.note_request(holder, usage=Usage(), now=clock.now())
    working._land(holder, Succeeded("in time", Usage(1, 2, 3)))
    assert (client.status()["output"], client.status()["usage"]["requests"]) == ("in time", 1)


@pytest.mark.rule("B9")
@pytest.mark.parametrize("is_under_way", [False, True])
def test_a_worker_that_is_told_to_stop_puts_back_what_it_has_sent_nothing_for_and_finishes_the_rest(
    client: Client, monkeypatch: pytest.MonkeyPatch, is_under_way: bool
) -> None:
    stopping: list[bool] = []

    def play(*_: Any, before_request: Any, **__: Any) -> Any:
        for number in (1, 2):
            if number == 2 or not is_under_way:
                stopping.append(True)
            if not before_request():
                return Cancelled(Usage(number - 1))
        return Succeeded("done", Usage(2))

    monkeypatch.setattr(worker, "is_stopping", lambda: bool(stopping))
    monkeypatch.setattr(working, "reason", play)
    client.start()
    client.work()
    status = client.status()
    assert (status["state"], status["output"]) == (("succeeded", "done") if is_under_way else ("queued", None))
    assert status["usage"]["requests"] == (2 if is_under_way else 0)


@pytest.mark.rule("B9")
def test_a_request_that_cannot_be_stored_is_not_sent(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any, **__: Any) -> bool:
        raise OperationalError("away")

    sent = []

    def play(*_: Any, before_request: Any, **__: Any) -> Any:
        sent.extend([1] if before_request() else [])
        return Cancelled(Usage())

    monkeypatch.setattr(working, "note_request", away)
    monkeypatch.setattr(working, "reason", play)
    client.start()
    client.work()
    assert client.status()["state"] == "running" and not sent
    assert AgentSession.objects.get().called_at is None
    monkeypatch.undo()
    expire(client)
    sweep(now=clock.now())
    client.work()
    assert client.status()["state"] == "succeeded"


@pytest.mark.rule("B9")
def test_a_live_workers_lease_is_renewed_and_an_expired_one_is_not_brought_back(client: Client) -> None:
    client.start()
    leased = leasing.take_lease(owner="w", instance_id=uuid.UUID(client.service.instance_id), now=clock.now())
    assert leased is not None
    assert leasing.renew_leases(["w"]) == 1 and leasing.renew_leases(["another"]) == 0
    expire(client)
    assert leasing.renew_leases(["w"]) == 0


@pytest.mark.rule("K12")
def test_a_revoked_credentials_agents_end_at_the_next_boundary(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project.objects.get(pk=client.service.caller.project_id)
    credential, _ = create_credential(project=project, source=Source.AGENT_IDE, label="x", now=clock.now())
    client.caller = replace(client.service.caller, credential_id=credential.pk)
    sent = []

    def play(*_: Any, before_request: Any, report: Any, **__: Any) -> Any:
        while before_request():
            sent.append(1)
            report(Usage(1, 1, 1))
            revoke_credential(public_id=credential.public_id, now=clock.now())
        return Cancelled(Usage(1, 1, 1))

    monkeypatch.setattr(working, "reason", play)
    for is_begun in (True, False):
        started = client.start()
        client.work()
        assert client.status()["error"]["reason"] == "credential_revoked"
        assert sent == [1]
        assert (AgentSession.objects.get(pk=started["id"]).started_at is not None) is is_begun


@pytest.mark.rule("B3")
@pytest.mark.parametrize("changed", [{"input": "other"}, {"model": "other"}, {"signature": "0" * 64}])
def test_what_was_tampered_with_is_not_run(client: Client, changed: dict[str, Any]) -> None:
    client.start()
    AgentSession.objects.update(**changed)
    client.work()
    status = client.status()
    assert status["error"]["reason"] == "session_invalid" and status["usage"]["requests"] == 0
