"""Removing Mirrors that nobody keeps, and files that no Mirror has."""

from __future__ import annotations

import datetime as dt
import uuid
from dataclasses import dataclass, field

from django.db import transaction

from apps.mirrors import storage
from apps.mirrors.models import Mirror
from apps.mirrors.selectors.mirrors import known_digests
from apps.results.selectors.mirroring import batches

#: A file is stored before its Mirror is listed: what is younger may be about to be.
_SETTLED = dt.timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Pruned:
    """Mirrors and files that were removed, or would be."""

    mirror_ids: list[str] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)


def prune_mirrors(
    *, older_than_days: int | None, project_id: uuid.UUID | None, dry_run: bool, now: dt.datetime
) -> Pruned:
    """Remove Mirrors of an age, when one is given, and every settled file that no Mirror is left for."""
    old: list[Mirror] = []
    if older_than_days is not None:
        rows = Mirror.objects.filter(created_at__lt=now - dt.timedelta(days=older_than_days)).defer("manifest")
        old = list(rows if project_id is None else rows.filter(project_id=project_id))
    gone = {mirror.pk for mirror in old}
    if not dry_run:
        for some in batches(old):
            with transaction.atomic():
                Mirror.objects.filter(pk__in=[mirror.pk for mirror in some]).delete()
    of_old = {mirror.digest for mirror in old}
    digests: list[str] = []
    for some_digests in batches(storage.stored_digests()):
        kept = known_digests(some_digests, besides=gone)
        digests += [
            digest
            for digest in some_digests
            if digest not in kept and (digest in of_old or storage.age_of(digest, now) > _SETTLED)
        ]
    if not dry_run:
        digests = [digest for digest in digests if _discarded(digest)]
    return Pruned([str(mirror.mirror_id) for mirror in old], digests)


def _discarded(digest: str) -> bool:
    """Remove the file, unless a Mirror came to have it since it was looked at."""
    with transaction.atomic():
        storage.hold(digest)
        if known_digests([digest]):
            return False
        storage.discard(digest)
    return True
