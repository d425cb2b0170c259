"""Credentials as text: ``loom_<kind>_<id>_<secret><checksum>`` (N2, K1).

The kind and the public id let a person and a secret scanner recognise one; the checksum lets a
mistyped or cut one be refused without a look-up; the secret has 256 random bits and is stored only
as a SHA-256 digest (a slow hash guards weak secrets; these are not).
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import string
import zlib
from dataclasses import dataclass

from apps.core.caller import Source

_ALPHABET = string.digits + string.ascii_letters
_ID_LENGTH = 12
_SECRET_LENGTH = 43
_CHECK_LENGTH = 6
_KIND_OF_SOURCE = {Source.AGENT_IDE: "agent", Source.CLI: "cli", Source.STUDIO: "studio"}
_PATTERN = re.compile(
    rf"loom_(agent|cli|studio)_([0-9A-Za-z]{{{_ID_LENGTH}}})_([0-9A-Za-z]{{{_SECRET_LENGTH + _CHECK_LENGTH}}})"
)


@dataclass(frozen=True, slots=True)
class Token:
    """A credential's parts; ``repr`` shows the public ones only."""

    kind: str
    public_id: str
    secret: str

    def __repr__(self) -> str:
        return f"Token(loom_{self.kind}_{self.public_id}_…)"

    @property
    def text(self) -> str:
        return f"loom_{self.kind}_{self.public_id}_{self.secret}{_checksum(self.kind, self.public_id, self.secret)}"

    @property
    def digest(self) -> str:
        return digest_of(self.secret)


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def _checksum(*parts: str) -> str:
    number = zlib.crc32("_".join(parts).encode())
    digits = ""
    for _ in range(_CHECK_LENGTH):
        number, rest = divmod(number, len(_ALPHABET))
        digits = _ALPHABET[rest] + digits
    return digits


def digest_of(secret: str) -> str:
    """What the ledger stores of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def mint(source: Source) -> Token:
    """A new credential for ``source``."""
    return Token(_KIND_OF_SOURCE[source], _random(_ID_LENGTH), _random(_SECRET_LENGTH))


def read(text: str) -> Token | None:
    """The parts of a well-formed credential, ``None`` for anything else."""
    match = _PATTERN.fullmatch(text)
    if match is None:
        return None
    kind, public_id, tail = match.groups()
    token = Token(kind, public_id, tail[:_SECRET_LENGTH])
    if not hmac.compare_digest(tail[_SECRET_LENGTH:], _checksum(kind, public_id, token.secret)):
        return None
    return token


#: Compared against when there is no such credential, so that the same work is done (K3).
ABSENT_DIGEST = "0" * 64


def matches(token: Token, stored_digest: str) -> bool:
    """Constant-time comparison of a presented secret with a stored digest."""
    return hmac.compare_digest(token.digest, stored_digest)
