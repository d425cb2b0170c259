"""Credentials as an operator sees them: never a secret, nor its digest (N2)."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from apps.access.domain.credentials import State, state_of
from apps.access.models import Credential


@dataclass(frozen=True, slots=True)
class CredentialEntry:
    """One credential, and how it stands now."""

    id: uuid.UUID
    public_id: str
    project_id: uuid.UUID
    project: str
    source: str
    label: str
    created_at: dt.datetime
    expires_at: dt.datetime | None
    revoked_at: dt.datetime | None
    last_used_at: dt.datetime | None
    state: State


_FIELDS = (
    "id", "public_id", "project_id", "project__name", "source", "label", "created_at", "expires_at", "revoked_at",
    "last_used_at",
)  # fmt: skip


def list_credentials(
    *, project_ids: Collection[uuid.UUID], now: dt.datetime, limit: int, before: uuid.UUID | None = None
) -> list[CredentialEntry]:
    """The newest first; ``before`` is the id where the page before this one ended."""
    rows = Credential.objects.filter(project_id__in=project_ids).order_by("-id")
    if before is not None:
        rows = rows.filter(id__lt=before)
    return [_entry(row, now) for row in rows.values_list(*_FIELDS)[:limit]]


def credential_named(*, public_id: str, now: dt.datetime) -> CredentialEntry | None:
    """The credential of this public id, of whatever Project."""
    row = Credential.objects.filter(public_id=public_id).values_list(*_FIELDS).first()
    return None if row is None else _entry(row, now)


def labels_of(*, public_ids: Collection[str], project_ids: Collection[uuid.UUID]) -> dict[str, str]:
    """What these credentials are for, by public id, as far as they are of the Projects."""
    rows = Credential.objects.filter(public_id__in=public_ids, project_id__in=project_ids)
    return dict(rows.values_list("public_id", "label"))


def _entry(row: tuple[Any, ...], now: dt.datetime) -> CredentialEntry:
    found = dict(zip(_FIELDS, row, strict=True))
    found["project"] = found.pop("project__name")
    return CredentialEntry(
        **found, state=state_of(revoked_at=found["revoked_at"], expires_at=found["expires_at"], now=now)
    )
