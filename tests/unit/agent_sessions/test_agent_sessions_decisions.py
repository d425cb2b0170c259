"""The decisions about background agents, as truth tables."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from apps.agent_sessions.domain import proofs
from apps.agent_sessions.domain.sessions import (
    MOST_ATTEMPTS,
    AfterLoss,
    OnCancel,
    State,
    decide_cancel,
    decide_landing,
    decide_loss,
)
from apps.core.redaction import REDACTED, redact_text

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.rule("B9")
@pytest.mark.parametrize(
    ("called", "cancel_requested", "attempts", "expected"),
    [
        (False, False, 1, AfterLoss.AGAIN),
        (False, False, MOST_ATTEMPTS - 1, AfterLoss.AGAIN),
        (False, False, MOST_ATTEMPTS, AfterLoss.INTERRUPTED),
        (False, True, 1, AfterLoss.CANCELLED),
        (False, True, MOST_ATTEMPTS, AfterLoss.CANCELLED),
        (True, False, 1, AfterLoss.INTERRUPTED),
        (True, True, 1, AfterLoss.INTERRUPTED),
    ],
)
def test_a_lost_session_runs_again_only_while_nothing_was_sent(
    called: bool, cancel_requested: bool, attempts: int, expected: AfterLoss
) -> None:
    assert decide_loss(called=called, cancel_requested=cancel_requested, attempts=attempts) is expected


@pytest.mark.rule("B9")
@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (State.QUEUED, OnCancel.END),
        (State.RUNNING, OnCancel.REQUEST),
        (State.SUCCEEDED, OnCancel.NOTHING),
        (State.FAILED, OnCancel.NOTHING),
        (State.CANCELLED, OnCancel.NOTHING),
    ],
)
def test_a_cancel_ends_what_is_queued_and_asks_what_runs(state: State, expected: OnCancel) -> None:
    assert decide_cancel(state) is expected


@pytest.mark.rule("B9")
@pytest.mark.parametrize(
    ("ended", "cancel_requested", "expected"),
    [
        (State.SUCCEEDED, False, State.SUCCEEDED),
        (State.SUCCEEDED, True, State.CANCELLED),
        (State.FAILED, False, State.FAILED),
        (State.FAILED, True, State.FAILED),
        (State.CANCELLED, False, None),
        (State.CANCELLED, True, State.CANCELLED),
    ],
)
def test_nothing_succeeds_after_an_accepted_cancel_and_nothing_is_cancelled_without_one(
    ended: State, cancel_requested: bool, expected: State | None
) -> None:
    assert decide_landing(ended, cancel_requested=cancel_requested) is expected


@pytest.mark.rule("K6", "E6")
def test_a_session_secret_is_proven_by_itself_only_and_taken_out_of_texts() -> None:
    proof, other = proofs.mint(), proofs.mint()
    assert proofs.is_proven(proof.secret, proof.digest)
    assert not proofs.is_proven(other.secret, proof.digest)
    assert not proofs.is_proven("", proof.digest)
    assert not proofs.is_proven(proof.secret, None)
    assert proof.secret not in repr(proof) and proof.digest not in proof.secret
    said = redact_text(f"session {proof.secret} was asked for")
    assert proof.secret.split("_", 3)[3] not in said and REDACTED in said


@pytest.mark.rule("K6")
def test_what_is_no_id_is_looked_up_as_one_that_nothing_has() -> None:
    known = uuid.uuid4()
    assert proofs.read_id(str(known)) == known
    assert proofs.read_id("") == proofs.read_id("no id") == uuid.UUID(int=0)


def test_a_process_that_does_not_reason_does_not_wait_for_the_library() -> None:
    look = "import django, sys; django.setup(); sys.exit('pydantic_ai' in sys.modules)"
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "loomsvc.settings.test"}
    subprocess.run([sys.executable, "-c", look], check=True, env=environment, cwd=ROOT)
