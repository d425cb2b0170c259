"""Which model an Agent Step gets: every case of who said what of agent, role and default."""

from __future__ import annotations

from itertools import product

import pytest

from apps.agent_sessions.domain.model_choices import (
    DEFAULT,
    Origin,
    Resolved,
    Subject,
    SubjectKind,
    resolve_model,
)

AGENT, ROLE = Subject(SubjectKind.AGENT, "intent/analyst"), Subject(SubjectKind.ROLE, "planning")
SUBJECTS = (AGENT, ROLE, DEFAULT)
#: Who names a model for a subject.
NOBODY, CONSOLE, SETTING, BOTH = "", "c", "s", "cs"


def resolved(said: dict[Subject, str], *, agent: str | None = AGENT.name, role: str | None = ROLE.name) -> Resolved:
    """Each names a model of their own for each subject: ``c:agent``, ``s:role``."""
    chosen = {subject: f"c:{subject.kind}" for subject, who in said.items() if CONSOLE in who}
    setting = {subject: f"s:{subject.kind}" for subject, who in said.items() if SETTING in who}
    return resolve_model(agent=agent, role=role, chosen=chosen, setting=setting, built_in="offline")


@pytest.mark.rule("R15")
@pytest.mark.parametrize(
    ("agent", "role", "default", "expected"),
    [
        # agent, role and default are named by: console, setting, both, nobody; the table is read from the left.
        (CONSOLE, BOTH, BOTH, "c:agent"),
        (BOTH, BOTH, BOTH, "c:agent"),
        (SETTING, BOTH, BOTH, "s:agent"),
        (NOBODY, CONSOLE, BOTH, "c:role"),
        (NOBODY, BOTH, BOTH, "c:role"),
        (NOBODY, SETTING, BOTH, "s:role"),
        (NOBODY, NOBODY, CONSOLE, "c:default"),
        (NOBODY, NOBODY, BOTH, "c:default"),
        (NOBODY, NOBODY, SETTING, "s:default"),
        (NOBODY, NOBODY, NOBODY, "offline"),
    ],
)
def test_the_narrowest_subject_that_is_named_decides_and_there_the_console_comes_first(
    agent: str, role: str, default: str, expected: str
) -> None:
    assert resolved({AGENT: agent, ROLE: role, DEFAULT: default}).model_id == expected


@pytest.mark.rule("R15")
@pytest.mark.parametrize("said", product((NOBODY, CONSOLE, SETTING, BOTH), repeat=3))
def test_in_each_case_the_answer_says_who_named_it_and_for_what(said: tuple[str, str, str]) -> None:
    found = resolved(dict(zip(SUBJECTS, said, strict=True)))
    place = next((number for number, who in enumerate(said) if who), None)
    if place is None:
        assert found == Resolved("offline", Origin.BUILT_IN, DEFAULT)
    else:
        assert found.subject == SUBJECTS[place]
        assert found.origin is (Origin.CONSOLE if CONSOLE in said[place] else Origin.SETTING)
        assert found.model_id == f"{found.origin.value[0]}:{SUBJECTS[place].kind}"


@pytest.mark.rule("R15")
@pytest.mark.parametrize(
    ("agent", "role", "expected"),
    [
        ("intent/other", "planning", "c:role"),
        ("intent/analyst", "coding", "c:agent"),
        ("intent/other", "coding", "c:default"),
        ("intent/other", None, "c:default"),
        # An agent that is called as a role is, and the other way round.
        ("planning", None, "c:default"),
        ("intent/other", "intent/analyst", "c:default"),
        (None, "", "c:default"),
    ],
)
def test_what_is_said_of_another_agent_or_role_decides_nothing(
    agent: str | None, role: str | None, expected: str
) -> None:
    assert resolved(dict.fromkeys(SUBJECTS, CONSOLE), agent=agent, role=role).model_id == expected
