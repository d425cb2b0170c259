"""What an operator may do, as a truth table (K14)."""

from __future__ import annotations

import uuid

import pytest

from apps.console.permissions import SUPERUSER_ONLY, Operator, Permission

HERE, THERE = uuid.UUID(int=1), uuid.UUID(int=2)
SEE, PAUSE = Permission.SEE.value, Permission.PAUSE.value


def operator(everywhere: tuple[str, ...] = (), here: tuple[str, ...] = (), *, is_superuser: bool = False) -> Operator:
    sees = is_superuser or SEE in everywhere
    seen = {HERE: "here"} if sees or SEE in here else {}
    return Operator(
        "ada",
        is_superuser,
        {**seen, **({THERE: "there"} if sees else {})},
        frozenset(everywhere),
        {HERE: frozenset(here)},
    )


@pytest.mark.rule("K14")
@pytest.mark.parametrize(
    ("given", "here", "there"),
    [
        (operator(), False, False),
        (operator((PAUSE,)), False, False),
        (operator((SEE,)), False, False),
        (operator((SEE, PAUSE)), True, True),
        (operator((), (SEE, PAUSE)), True, False),
        (operator((), (PAUSE,)), False, False),
        (operator((SEE,), (PAUSE,)), True, False),
        (operator((PAUSE,), (SEE,)), True, False),
        (operator((SEE,), (Permission.CANCEL.value,)), False, False),
        (operator(is_superuser=True), True, True),
    ],
)
def test_a_permission_holds_where_it_and_sight_are_given(given: Operator, here: bool, there: bool) -> None:
    assert (given.may(Permission.PAUSE, HERE), given.may(Permission.PAUSE, THERE)) == (here, there)
    assert given.may(Permission.PAUSE) is (here or there)


@pytest.mark.rule("K14")
@pytest.mark.parametrize("permission", sorted(SUPERUSER_ONLY))
def test_what_is_for_superusers_can_be_given_to_nobody_else(permission: Permission) -> None:
    everything = operator(tuple(p.value for p in Permission), tuple(p.value for p in Permission))
    assert not everything.may(permission, HERE)
    assert not everything.may(permission)
    assert operator(is_superuser=True).may(permission, HERE)


def test_a_caller_is_the_operator_at_the_console() -> None:
    caller = operator((SEE,)).caller(THERE)
    assert (caller.principal, caller.project_name, caller.entry) == ("operator:ada", "there", "/admin")
    assert caller.source.value == "console" and caller.credential_id is None
