"""Places where a test can make a process die, raise, sleep or hang.

``LOOMSVC_FAILPOINT=name:action`` arms one, with the action ``kill``, ``raise``, ``sleep=SECONDS``
or ``hang``; several are separated by commas.  Production settings refuse to start with one set.
"""

from __future__ import annotations

import enum
import os
import signal
import threading
import time


class Failpoint(enum.StrEnum):
    """Every named place."""

    AFTER_RECEIPT_INSERT = "after_receipt_insert"
    BEFORE_COMMIT = "before_commit"
    AFTER_CLAIM = "after_claim"
    AFTER_EFFECT_BEFORE_COMMIT = "after_effect_before_commit"
    AFTER_COMMIT_BEFORE_ACK = "after_commit_before_ack"
    IN_SWEEP = "in_sweep"
    IN_MIRROR_RESTORE = "in_mirror_restore"
    BEFORE_MODEL_REQUEST = "before_model_request"


class FailpointRaised(RuntimeError):
    """What the action ``raise`` raises."""


def _armed() -> dict[str, str]:
    pairs = (item.partition(":") for item in os.environ.get("LOOMSVC_FAILPOINT", "").split(",") if item)
    armed = {name: action for name, _, action in pairs}
    if unknown := armed.keys() - set(Failpoint):
        raise ValueError(f"LOOMSVC_FAILPOINT: there is no failpoint {', '.join(sorted(unknown))}")
    return armed


def reach(place: Failpoint) -> None:
    """Do what is armed for ``place``; nothing when nothing is."""
    if not os.environ.get("LOOMSVC_FAILPOINT"):
        return
    action = _armed().get(place.value)
    if action is None:
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "raise":
        raise FailpointRaised(place.value)
    elif action == "hang":
        threading.Event().wait()
    elif action.startswith("sleep="):
        time.sleep(float(action.removeprefix("sleep=")))
    else:
        raise ValueError(f"LOOMSVC_FAILPOINT: unknown action {action!r} for {place.value}")
