"""The values of secret settings: kept out of what is stored, and out of every message (K18)."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, SecretBytes, SecretStr

from apps.core.json_text import pointer

#: A shorter secret is recognised as a whole text only: inside other text it would be chance.
_SHORTEST_PART = 6
MASK = "[secret]"


def _secrets_in(value: Any) -> Iterator[str]:
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, SecretBytes):
        yield value.get_secret_value().decode("utf-8", "replace")
    elif isinstance(value, BaseModel):
        for _, member in value:
            yield from _secrets_in(member)
    elif isinstance(value, dict):
        for member in value.values():
            yield from _secrets_in(member)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for member in value:
            yield from _secrets_in(member)


def _forms(secret: str) -> Iterator[str]:
    """The secret as it stands, and as it looks in base64 and in a URL."""
    yield secret
    yield base64.b64encode(secret.encode()).decode().rstrip("=")
    yield base64.urlsafe_b64encode(secret.encode()).decode().rstrip("=")
    yield quote(secret, safe="")


@dataclass(frozen=True, slots=True, repr=False)
class SecretValues:
    """What to look for: whole texts, and parts of texts (longest first)."""

    whole: frozenset[str] = frozenset()
    parts: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: BaseModel | None) -> SecretValues:
        """Every nonempty secret that ``settings`` holds, at any depth."""
        secrets = {secret for secret in _secrets_in(settings) if secret}
        parts = {form for secret in secrets if len(secret) >= _SHORTEST_PART for form in _forms(secret)}
        return cls(frozenset(secrets), tuple(sorted(parts, key=lambda part: (-len(part), part))))

    def in_text(self, text: str) -> bool:
        """Whether ``text`` is a secret or has one inside."""
        return text in self.whole or any(part in text for part in self.parts)

    def redact(self, text: str) -> str:
        """``text`` with every secret masked."""
        if text in self.whole:
            return MASK
        for part in self.parts:
            text = text.replace(part, MASK)
        return text

    def find(self, value: Any) -> str | None:
        """The pointer to the first text or member name of a JSON value that has a secret inside."""
        if not self.whole:
            return None
        stack: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
        while stack:
            path, item = stack.pop()
            if isinstance(item, str) and self.in_text(item):
                return pointer(path)
            if isinstance(item, dict):
                if any(isinstance(key, str) and self.in_text(key) for key in item):
                    return pointer(path)
                stack.extend(((*path, key), child) for key, child in reversed(item.items()))
            elif isinstance(item, (list, tuple)):
                stack.extend(((*path, index), child) for index, child in reversed(list(enumerate(item))))
        return None
