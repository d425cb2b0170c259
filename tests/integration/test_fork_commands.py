"""`run_lineage` in the terminal: the tree of a trace, and where a Run can be forked."""

from __future__ import annotations

import json
import uuid

import pytest
from django.core.management import CommandError

from tests.conftest import Service
from tests.integration.test_looms_commands import run

pytestmark = pytest.mark.django_db(transaction=True)

PLAN = [{"ending": "again"}, {"ending": "other"}, {"ending": "done"}]


def fork(service: Service, run_id: str, boundary: int) -> str:
    return str(service.operate("fork_run", runId=run_id, boundary=boundary)["run"]["runId"])


@pytest.mark.rule("M9")
def test_the_tree_shows_each_run_below_the_one_it_came_from(service: Service) -> None:
    source = service.finish(do=PLAN)["runId"]
    first = fork(service, source, 1)
    below = fork(service, first, 1)
    second = fork(service, source, 3)
    code, shown = run("run_lineage", first, "--boundaries", "0")
    assert code == 0
    lines = [line.split(", 20")[0] for line in shown.splitlines()]
    assert lines == [
        f"Trace {source}",
        f"└── {source} completed done, boundaries 0 to 3",
        f"    ├── forked at 1: {first} paused, boundary 1",
        f"    │   └── forked at 1: {below} paused, boundary 1",
        f"    └── forked at 3: {second} paused, boundary 3",
    ]


@pytest.mark.rule("M9")
def test_the_boundaries_of_a_run_are_listed_with_step_outcome_and_time(service: Service) -> None:
    source = service.finish(do=PLAN)["runId"]
    body = json.loads(run("run_lineage", source, "--json")[1])
    assert [(one["boundary"], one["step"], one.get("outcome")) for one in body["boundaries"]] == [
        (3, "rerunnable", "done"),
        (2, "act", "other"),
        (1, "act", "again"),
        (0, "act", None),
    ]
    assert body["runs"][0]["runId"] == source
    assert [one["boundary"] for one in json.loads(run("run_lineage", source, "--boundaries", "2", "--json")[1])[
        "boundaries"
    ]] == [3, 2]  # fmt: skip
    made = fork(service, source, 2)
    shown = run("run_lineage", made)[1]
    assert f"Boundaries of {made}" in shown
    assert shown.splitlines()[-1].split()[:4] == ["2", "work/act", "2", "other"]


@pytest.mark.parametrize(
    ("arguments", "says", "code"),
    [
        (["nonsense"], "is no Run id", 2),
        ([str(uuid.UUID(int=7)), "--boundaries", "-1"], "takes a number from 0", 2),
        ([str(uuid.UUID(int=7))], "No Run", 1),
    ],
)
def test_what_is_no_run_is_said_in_one_line(service: Service, arguments: list[str], says: str, code: int) -> None:
    with pytest.raises(CommandError, match=says) as refused:
        run("run_lineage", *arguments)
    assert refused.value.returncode == code
