"""Encrypting what the ledger keeps of provider keys, with secrets that are not in the ledger (K17).

The secrets come from the environment, else from a file of an embedded service's data folder.  The
newest encrypts, all of them decrypt.  They are read anew each time, so that a rotation needs no restart
where they stand in the file.
"""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
import uuid
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings as django_settings

from apps.core import conf, json_text
from apps.core.errors import ErrorCode, LoomError

_FILE = "key_secrets"
_PURPOSE = b"loomsvc provider keys"


class CannotDecrypt(Exception):
    """The ciphertext is another row's, was changed, or its secret is gone."""


def encrypt(row_id: uuid.UUID, key: str) -> tuple[str, str]:
    """Ciphertext and the name of the secret that made it; the row's id is bound in."""
    newest = _secrets(make=True)[0]
    body = json_text.dumps({"row": str(row_id), "key": key})
    return _fernet(newest).encrypt(body.encode()).decode(), name_of(newest)


def decrypt(row_id: uuid.UUID, ciphertext: str) -> str:
    """The key, if ``ciphertext`` was made for this row.  Raises :class:`CannotDecrypt`."""
    known = _secrets(make=False)
    if not known:
        raise CannotDecrypt
    try:
        body = json_text.loads(MultiFernet([_fernet(one) for one in known]).decrypt(ciphertext.encode()).decode())
    except InvalidToken:
        raise CannotDecrypt from None
    if body["row"] != str(row_id):
        raise CannotDecrypt
    key: str = body["key"]
    return key


def newest_name() -> str | None:
    """The name of the secret that encrypts now; ``None`` where nothing was encrypted yet."""
    known = _secrets(make=False)
    return name_of(known[0]) if known else None


def name_of(secret: str) -> str:
    """What may be shown of a secret: enough to tell it from others."""
    return hashlib.sha256(_PURPOSE + secret.encode()).hexdigest()[:12]


def add_secret() -> bool:
    """Put a new secret first in the file; False where they come from the environment, which the operator changes."""
    if conf.settings().key_secrets:
        return False
    _write([secrets.token_urlsafe(48), *_secrets(make=True)])
    return True


def keep_newest_only() -> None:
    """Drop the older secrets from the file; nothing in the ledger needs them any more."""
    if not conf.settings().key_secrets:
        _write(_secrets(make=True)[:1])


def _fernet(secret: str) -> Fernet:
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=_PURPOSE).derive(secret.encode())
    return Fernet(base64.urlsafe_b64encode(derived))


def _path() -> Path:
    return conf.settings().data_dir / _FILE


def _secrets(*, make: bool) -> list[str]:
    """Newest first.  ``make``: where there is none, an embedded service makes one."""
    given = conf.settings().key_secrets
    if given:
        return list(given)
    if not django_settings.EMBEDDED:
        raise LoomError(
            ErrorCode.UNAVAILABLE,
            "Provider keys cannot be kept yet: set LOOMSVC_KEY_SECRETS, the same for all processes of the service.",
        )
    if make:
        conf.kept_secret(_path())
    try:
        return _path().read_text().split()
    except FileNotFoundError:
        return []


def _write(kept: list[str]) -> None:
    """All or nothing, for whoever reads meanwhile."""
    new = _path().with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write("\n".join(kept))
        file.flush()
        os.fsync(file.fileno())
    new.replace(_path())
