"""Searching, and having a model write the query, on the wire (B7)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from apps.agent_sessions.contracts import SnakeContract
from apps.core.contracts import Cursor

LONGEST_QUERY = 1000
#: Results of one page where nothing is said, and at most.
USUAL_RESULTS, MOST_RESULTS = 10, 50

Source = Literal["ledger", "web"]


def _not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "Write at least one word.")
    return text


Query = Annotated[
    str,
    Field(min_length=1, max_length=LONGEST_QUERY, description="Words to look for; each of them has to occur."),
    AfterValidator(_not_blank),
]
Limit = Annotated[int, Field(ge=1, le=MOST_RESULTS, description="Results of one page.")]


class SearchPostRequest(SnakeContract):
    """What to look for, and where.  Without `source` it is `web` where the service has one, else `ledger`."""

    query: Query
    limit: Limit = USUAL_RESULTS
    source: Annotated[
        Source | None,
        Field(description="`ledger`: the Artifacts and Records of your Project. `web`: the service's web search."),
    ] = None
    cursor: Annotated[
        Cursor | None, Field(description="`next_cursor` of the page before, with the same query and source.")
    ] = None


class SearchResult(SnakeContract):
    """One thing found.  `title` and `snippet` are plain text; `score` compares results of one source only.

    `url` of an Artifact or Record is a resource: `loom://artifacts/{id}`, `loom://records/{id}`.
    """

    title: str
    url: str
    snippet: str
    score: Annotated[float, Field(ge=0)]
    source: Source


class SearchPage(SnakeContract):
    """A page of results, best first.  Continue with `next_cursor` as `cursor`, query and source unchanged."""

    results: list[SearchResult]
    next_cursor: str | None = None


class BuildQueryRequest(SnakeContract):
    """What you want to know, in plain words, and the model that makes a query of it."""

    wish: Annotated[
        str, Field(min_length=1, max_length=10_000, description="What to find, in words."), AfterValidator(_not_blank)
    ]
    model: Annotated[str, Field(min_length=1, max_length=200, description="`id` of a model of list_models.")]


class BuiltQuery(SnakeContract):
    """A valid SearchPostRequest: send it to `search` as it is."""

    query: Query
    limit: Limit | None = None
    source: Source | None = None
