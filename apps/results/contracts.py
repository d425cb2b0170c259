"""Artifacts and Records on the wire (S1–S3)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from apps.core.contracts import Contract, Cursor, PageLimit

ResultId = Annotated[str, Field(min_length=1, max_length=200)]
Name = Annotated[str, Field(min_length=1, max_length=64)]


class ArtifactMetadata(Contract):
    """An Artifact without its business data, as lists show it."""

    artifact_id: str
    loom_name: str
    stage_name: str
    revision: int
    run_id: str
    created_at: str
    updated_at: str


class ArtifactDetail(ArtifactMetadata):
    """An Artifact with its business data."""

    data: Any


class ArtifactQuery(Contract):
    """Either ``artifactId``, or both ``loomName`` and ``stageName``."""

    artifact_id: ResultId | None = None
    loom_name: Name | None = None
    stage_name: Name | None = None


class ArtifactFound(Contract):
    """``artifact`` is null when there is none (E4)."""

    artifact: ArtifactDetail | None


class ArtifactById(Contract):
    """An Artifact's address over REST."""

    artifact_id: ResultId


class ListArtifacts(Contract):
    """Filters of the list; a cursor goes with the filters it was made for."""

    loom_name: Name | None = None
    stage_name: Name | None = None
    limit: PageLimit = 50
    cursor: Cursor | None = None


class ArtifactPage(Contract):
    """One page, ordered by ``artifactId``."""

    data: list[ArtifactMetadata]
    next_cursor: str | None = None


class ArtifactList(Contract):
    """The page under its name (S2)."""

    artifacts: ArtifactPage


class RevisionDetail(Contract):
    """One kept revision; ``removed`` ones hold no data."""

    artifact_id: str
    revision: int
    removed: bool
    data: Any
    digest: str
    run_id: str
    created_at: str


class ListRevisions(ArtifactById):
    """Revisions of the place where an Artifact stands, newest first."""

    limit: PageLimit = 50
    cursor: Cursor | None = None


class RevisionList(Contract):
    """One page of revisions, newest first."""

    revisions: list[RevisionDetail]
    next_cursor: str | None = None


class GetRecord(Contract):
    """A Record's address."""

    record_id: ResultId


class RecordDetail(Contract):
    """A Record with its data."""

    record_id: str
    loom_name: str
    stage_name: str
    data: Any
    run_id: str
    created_at: str


class RecordFound(Contract):
    """``record`` is null when there is none (E4)."""

    record: RecordDetail | None
