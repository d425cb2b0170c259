"""The one-time secret of a session: shown in one response, kept as a digest, compared in constant time (B2, K6)."""

from __future__ import annotations

import hmac
import secrets
import string
import uuid
from dataclasses import dataclass, field

from apps.access.domain.tokens import ABSENT_DIGEST, digest_of

_ALPHABET = string.digits + string.ascii_letters


@dataclass(frozen=True, slots=True)
class Proof:
    """A new secret and what is kept of it."""

    secret: str = field(repr=False)
    digest: str


def mint() -> Proof:
    """256 random bits, in the shape of our credentials, so that what takes those out of texts takes it out too."""
    public, hidden = ("".join(secrets.choice(_ALPHABET) for _ in range(length)) for length in (12, 43))
    secret = f"loom_session_{public}_{hidden}"
    return Proof(secret, digest_of(secret))


def is_proven(secret: str, stored_digest: str | None) -> bool:
    """One comparison of the same length, whether there is such a session or not."""
    return hmac.compare_digest(digest_of(secret), stored_digest or ABSENT_DIGEST)


def read_id(text: str) -> uuid.UUID:
    """The id as a UUID; what is none becomes one that nothing has, so that the look-up is made all the same."""
    try:
        return uuid.UUID(text)
    except ValueError:
        return uuid.UUID(int=0)
