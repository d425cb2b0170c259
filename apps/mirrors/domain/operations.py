"""Which Operations brought a Run to a boundary: told from its events, which are numbered (M1).

An Operation's row has no event number, and its time may be another machine's; but each that changed the Run left an
event of its own, and both are in one order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from apps.ledger.domain.receipts import OperationKind
from apps.runs.domain.statuses import EventType

#: Event → the group of Operations of which one made it.
_MADE_BY = {
    EventType.RUN_ADMITTED: OperationKind.RUN,
    EventType.RUN_FORKED: OperationKind.FORK_RUN,
    EventType.ACTION_ANSWERED: OperationKind.ANSWER_ASK,
    EventType.RUN_RESUMED: OperationKind.RESUME_RUN,
    EventType.RUN_CANCELLED: OperationKind.CANCEL_RUN,
    EventType.PAUSE_REQUESTED: OperationKind.PAUSE_RUN,
}
#: The types that say anything about Operations.
TELLING = (*_MADE_BY, EventType.RUN_RESTORED, EventType.RUN_PAUSED)


def group_of(kind: str) -> str:
    """``interact`` answers as ``answer_ask`` does."""
    return OperationKind.ANSWER_ASK if kind == OperationKind.INTERACT else kind


def made_before(events: Iterable[tuple[str, Mapping[str, Any]]]) -> Counter[str]:
    """How many Operations of each group made ``events``: types and data from the first on, in order."""
    made: Counter[str] = Counter()
    asked = False
    began = ""
    for kind, data in events:
        if kind in _MADE_BY:
            made[_MADE_BY[EventType(kind)]] += 1
        if kind == EventType.PAUSE_REQUESTED:
            asked = True
        elif kind == EventType.RUN_RESUMED:
            asked = data.get("steps") == 1
        elif kind == EventType.RUN_PAUSED:
            # Of its own accord after a Step, by the service for an error, or as the Run's beginning; else at a wish.
            if not asked and "error" not in data and began not in (EventType.RUN_FORKED, EventType.RUN_RESTORED):
                made[OperationKind.PAUSE_RUN] += 1
            asked = False
        began = kind
    return made
