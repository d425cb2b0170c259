"""Full text search in a Project's Records and standing Artifacts (B7).  One statement a page.

Found is what has every word of the query, best first: how often the words occur says how good, and of two that
are as good the newer comes first.  Nothing of another Project has a part in a score, a cursor or an order.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from django.db.models import F, Q, Value
from django.db.models.functions import Coalesce

from apps.core import cursors
from apps.core.addresses import address
from apps.core.full_text import Occurrences
from apps.results.domain import snippets, words
from apps.results.models import SearchEntry

#: Of more matches than this the newest are ranked, so that a common word does not cost a walk through the ledger.
MOST_RANKED = 1000
#: The score of one word: 0 for none, half of this for one occurrence, ever closer to it for more.
_FULL = 1000


@dataclass(frozen=True, slots=True)
class Found:
    """One Artifact or Record that matched.  ``title`` and ``snippet`` are plain text; ``score`` is in (0, 1]."""

    title: str
    url: str
    snippet: str
    score: float


@dataclass(frozen=True, slots=True)
class FoundPage:
    """One page, best first."""

    results: tuple[Found, ...]
    next_cursor: str | None


def search_results(*, project_id: uuid.UUID, query: str, limit: int, cursor: str | None) -> FoundPage:
    """A page of what in the Project has every word of ``query``; raises ``INVALID_REQUEST`` for another's cursor."""
    filters = {"query": query}
    after = cursors.decode("search", filters, cursor, _score_and_id)
    sought = words.sought(query)
    if not sought:
        return FoundPage((), None)
    found = list(_ranked(project_id, sought, after)[: limit + 1])
    shown = found[:limit]
    last = f"{shown[-1].score}/{shown[-1].result_id}" if len(found) > limit else None
    return FoundPage(
        results=tuple(_found(entry, sought) for entry in shown),
        next_cursor=None if last is None else cursors.encode("search", filters, last),
    )


def _ranked(project_id: uuid.UUID, sought: tuple[words.Sought, ...], after: tuple[int, uuid.UUID] | None) -> Any:
    matches = SearchEntry.objects.filter(project_id=project_id, word_index__has_words=sought)
    newest = matches.order_by("-id").values("id")[:MOST_RANKED]
    text = Coalesce("record__words", "revision__words")
    score = reduce(add, (Value(_FULL) - Value(_FULL) / (Occurrences(text, one) + Value(1)) for one in sought))
    rows = (
        SearchEntry.objects.filter(id__in=newest)
        .annotate(score=score / Value(len(sought)), result_id=Coalesce("record_id", "revision_id"))
        .select_related("record", "revision__artifact")
        .defer("word_index", "record__words", "revision__words")
        .order_by("-score", F("result_id").desc())
    )
    if after is None:
        return rows
    last_score, last_id = after
    return rows.filter(Q(score__lt=last_score) | Q(score=last_score, result_id__lt=last_id))


def _score_and_id(key: str) -> tuple[int, uuid.UUID]:
    score, _, last_id = key.partition("/")
    return cursors.number(score), uuid.UUID(last_id)


def _found(entry: Any, sought: tuple[words.Sought, ...]) -> Found:
    if entry.record is not None:
        kind, folder, identifier, place, data = (
            "Record",
            "records",
            entry.record.record_id,
            entry.record,
            entry.record.data,
        )
    else:
        revision = entry.revision
        kind, folder, identifier = "Artifact", "artifacts", revision.artifact_id_then
        place, data = revision.artifact, revision.data
    return Found(
        title=f"{kind} of {place.loom_name} · {place.stage_name}",
        url=address(folder, identifier),
        snippet=snippets.snippet(words.texts_of(data), sought),
        score=round(max(entry.score, 1) / _FULL, 3),
    )
