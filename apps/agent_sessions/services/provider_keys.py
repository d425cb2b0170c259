"""The Projects' own keys for providers: set, used, tested, rotated; never shown again (B5, K17)."""

from __future__ import annotations

import datetime as dt
import functools
import re
import uuid
from dataclasses import dataclass

from django.db import transaction

from apps.agent_sessions.models import ProviderKey
from apps.agent_sessions.services import encryption
from apps.core.database import for_update, lock_name
from apps.core.errors import ErrorCode, Issue, LoomError, invalid_request
from apps.core.ids import new_id
from apps.core.redaction import register_secret

_KEY = re.compile(r"[!-~]{8,512}")
#: Of a shorter key, four characters would be too much to show.
_LONG_ENOUGH_TO_SHOW = 16
_ROTATION_BATCH = 100


@dataclass(frozen=True, slots=True)
class KeyView:
    """What may be known of a key."""

    provider: str
    last_four: str
    set_by: str
    set_at: dt.datetime
    tested_at: dt.datetime | None
    test_result: str


def set_provider_key(*, project_id: uuid.UUID, provider: str, key: str, by: str, now: dt.datetime) -> None:
    """Keep ``key`` for the provider, in place of the one before.  ``INVALID_REQUEST`` for what cannot be a key."""
    key = key.strip()
    if not _KEY.fullmatch(key):
        hint = "Enter the key as the provider shows it: 8 to 512 printable characters without blanks."
        raise invalid_request("ProviderKey", [Issue("pattern", "/key", hint)])
    _keep_out_of_logs(key)
    with transaction.atomic():
        # Also against a rotation, which drops the secret that this may be about to use.
        lock_name("provider_keys")
        row = for_update(ProviderKey.objects.filter(project_id=project_id, provider=provider)).first()
        row = row or ProviderKey(id=new_id(), project_id=project_id, provider=provider)
        row.ciphertext, row.encrypted_with = encryption.encrypt(row.pk, key)
        row.last_four = key[-4:] if len(key) >= _LONG_ENOUGH_TO_SHOW else ""
        row.set_by, row.set_at = by, now
        row.tested_at, row.test_result = None, ""
        row.save()


def remove_provider_key(*, project_id: uuid.UUID, provider: str) -> bool:
    """Forget the key; False when there was none."""
    with transaction.atomic():
        return ProviderKey.objects.filter(project_id=project_id, provider=provider).delete()[0] > 0


def find_provider_key(*, project_id: uuid.UUID, provider: str) -> str | None:
    """The key itself, for a request to the provider and for nothing else.

    ``UNAVAILABLE`` when what is kept cannot be read: its secret is gone, or the row was tampered with.
    """
    tried = None
    while (row := ProviderKey.objects.filter(project_id=project_id, provider=provider).first()) is not None:
        try:
            key = encryption.decrypt(row.pk, row.ciphertext)
        except encryption.CannotDecrypt:
            if row.ciphertext != tried:
                # A rotation may have let go of the secret since the row was read; then the row is another one.
                tried = row.ciphertext
                continue
            raise LoomError(
                ErrorCode.UNAVAILABLE,
                f"The key that is kept for {provider} cannot be read; an operator enters it again.",
            ) from None
        _keep_out_of_logs(key)
        return key
    return None


@functools.lru_cache(maxsize=256)
def _keep_out_of_logs(key: str) -> None:
    register_secret(key)


def keyed_providers(project_id: uuid.UUID) -> frozenset[str]:
    """The providers that a Project has a key for."""
    return frozenset(ProviderKey.objects.filter(project_id=project_id).values_list("provider", flat=True))


def view_provider_key(*, project_id: uuid.UUID, provider: str) -> KeyView | None:
    """What may be shown of the key."""
    row = ProviderKey.objects.filter(project_id=project_id, provider=provider).first()
    if row is None:
        return None
    return KeyView(row.provider, row.last_four, row.set_by, row.set_at, row.tested_at, row.test_result)


def note_test(*, project_id: uuid.UUID, provider: str, result: str, now: dt.datetime) -> None:
    """Remember how a test of the key ended; part of a transaction."""
    rows = ProviderKey.objects.filter(project_id=project_id, provider=provider)
    rows.update(tested_at=now, test_result=result[:500])


@dataclass(frozen=True, slots=True)
class Rotated:
    """``unreadable``: keys whose secret is gone; they have to be entered again."""

    done: int
    unreadable: int


def add_secret() -> bool:
    """Make a secret that encrypts from now on; False where an operator gives them."""
    with transaction.atomic():
        # Two rotations at once would each write what the other has not read.
        lock_name("provider_keys")
        return encryption.add_secret()


def rotate_provider_keys() -> Rotated:
    """Encrypt every key anew with the newest secret; any number of times, also after an attempt that broke off."""
    done, unreadable = 0, 0
    after = uuid.UUID(int=0)
    while True:
        with transaction.atomic():
            rows = list(for_update(ProviderKey.objects.filter(pk__gt=after).order_by("pk")[:_ROTATION_BATCH]))
            for row in rows:
                try:
                    key = encryption.decrypt(row.pk, row.ciphertext)
                except encryption.CannotDecrypt:
                    unreadable += 1
                    continue
                row.ciphertext, row.encrypted_with = encryption.encrypt(row.pk, key)
                row.save(update_fields=["ciphertext", "encrypted_with"])
                done += 1
        if not rows:
            return Rotated(done, unreadable)
        after = rows[-1].pk


def drop_older_secrets() -> bool:
    """Let go of every secret but the newest, if nothing needs them."""
    with transaction.atomic():
        lock_name("provider_keys")
        if ProviderKey.objects.exclude(encrypted_with=encryption.newest_name()).exists():
            return False
        encryption.keep_newest_only()
        return True
