"""Making, checking and revoking credentials (N1, N2, K1–K3)."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable

from django.db import IntegrityError, transaction

from apps.access.domain import tokens
from apps.access.domain.credentials import State, state_of
from apps.access.domain.entries import CREDENTIAL_SOURCES, Entry
from apps.access.models import Credential, Project
from apps.core.caller import Caller, Source
from apps.core.errors import ErrorCode, LoomError, not_found
from apps.core.ids import new_id
from apps.core.prepared import PreparedRead

_UNAUTHENTICATED = "Send a valid credential as `Authorization: Bearer loom_…`."
_MADE_ALREADY = "This form has made its credential, and its text is not shown again. If it was lost, revoke it below."


def create_credential(
    *,
    project: Project,
    source: Source,
    label: str,
    now: dt.datetime,
    expires_at: dt.datetime | None = None,
    mirror_projects: Iterable[Project] = (),
    credential_id: uuid.UUID | None = None,
) -> tuple[Credential, str]:
    """A new credential and its text, which is not kept and cannot be shown again (K2).

    It is made with the further Projects into which it may write Mirrors, or not at all: nobody else has its text.

    With ``credential_id``, of a form that may be sent twice: ``CONFLICT`` when it made its credential already.
    """
    if source not in CREDENTIAL_SOURCES:
        raise ValueError(f"no credentials for source {source}")
    token = tokens.mint(source)
    try:
        with transaction.atomic():
            credential = Credential(
                id=credential_id or new_id(),
                public_id=token.public_id,
                project=project,
                source=source,
                label=label,
                secret_digest=token.digest,
                created_at=now,
                expires_at=expires_at,
            )
            credential.save(force_insert=True)
            credential.mirror_projects.add(*mirror_projects)
    except IntegrityError:
        if credential_id is None or not Credential.objects.filter(pk=credential_id).exists():
            raise
        raise LoomError(ErrorCode.CONFLICT, _MADE_ALREADY) from None
    return credential, token.text


def revoke_credential(*, public_id: str, now: dt.datetime) -> tuple[Credential, bool]:
    """End a credential for good, and whether this ended it; revoking twice keeps the first time."""
    with transaction.atomic():
        ended = Credential.objects.filter(public_id=public_id, revoked_at=None).update(revoked_at=now)
        credential = Credential.objects.select_related("project").filter(public_id=public_id).first()
    if credential is None:
        raise not_found("credential", public_id)
    return credential, ended > 0


def grant_mirror_writes(*, public_id: str, projects: Iterable[Project], revoke: bool = False) -> Credential:
    """Let a credential write Mirrors into these Projects too, or no longer (N1)."""
    with transaction.atomic():
        credential = Credential.objects.select_related("project").filter(public_id=public_id).first()
        if credential is None:
            raise not_found("credential", public_id)
        if revoke:
            credential.mirror_projects.remove(*projects)
        else:
            credential.mirror_projects.add(*projects)
    return credential


def is_live(credential: Credential, now: dt.datetime) -> bool:
    """Neither revoked nor expired."""
    return state_of(revoked_at=credential.revoked_at, expires_at=credential.expires_at, now=now) is State.LIVE


#: Every call starts with this one statement.
_FIND = PreparedRead(Credential, key=["public_id"], related=["project"])


def authenticate(*, authorization: str | None, entry: Entry, now: dt.datetime) -> Caller:
    """Who stands behind an ``Authorization`` header at ``entry``.

    Raises ``UNAUTHENTICATED`` for a missing, malformed, unknown, wrong, revoked or expired
    credential, in one wording, and ``FORBIDDEN`` for a valid one of another source (N1).
    """
    scheme, _, text = (authorization or "").partition(" ")
    token = tokens.read(text.strip()) if scheme.lower() == "bearer" else None
    if token is None:
        raise LoomError(ErrorCode.UNAUTHENTICATED, _UNAUTHENTICATED)
    credential = _FIND.first(public_id=token.public_id)
    stored = credential.secret_digest if credential else tokens.ABSENT_DIGEST
    if not tokens.matches(token, stored) or credential is None or not is_live(credential, now):
        raise LoomError(ErrorCode.UNAUTHENTICATED, _UNAUTHENTICATED)
    if credential.source != entry.source:
        raise LoomError(
            ErrorCode.FORBIDDEN,
            f"This credential is for source {credential.source}; {entry.path} takes {entry.source.value} ones.",
        )
    _note_use(credential, now)
    return Caller(
        project_id=credential.project_id,
        project_name=credential.project.name,
        principal=f"credential:{credential.public_id}",
        source=entry.source,
        entry=entry.path,
        profile=entry.profile,
        credential_id=credential.id,
    )


def _note_use(credential: Credential, now: dt.datetime) -> None:
    hour = now.replace(minute=0, second=0, microsecond=0)
    if credential.last_used_at is None or credential.last_used_at < hour:
        with transaction.atomic():
            Credential.objects.filter(pk=credential.pk).update(last_used_at=hour)
