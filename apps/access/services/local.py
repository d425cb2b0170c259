"""What a first start on a data folder makes, and the one file that holds local credentials (N2, N4)."""

from __future__ import annotations

import datetime as dt
import json
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from django.contrib.auth import get_user_model

from apps.access.connection import CONNECTION_FILE, read_connection
from apps.access.domain import tokens
from apps.access.domain.entries import MCP_ENTRIES
from apps.access.models import Credential, Project
from apps.access.services.credentials import create_credential, is_live
from apps.access.services.projects import ensure_default_project
from apps.core.caller import Source

OPERATOR = "operator"


@dataclass(frozen=True)
class LocalAccess:
    """Credentials of the default Project for local clients, and the operator if one was just made."""

    folder: Path
    tokens: dict[Source, str] = field(repr=False)
    username: str
    new_password: str | None = field(repr=False)

    def write_connection(self, *, url: str, instance_id: str, pid: int) -> None:
        """Replace ``connection.json`` in one step, readable by its owner only."""
        body = {
            "url": url,
            "serviceInstanceId": instance_id,
            "pid": pid,
            "entries": {entry.name: {"path": entry.path, "token": self.tokens[entry.source]} for entry in MCP_ENTRIES},
        }
        target = self.folder / CONNECTION_FILE
        fresh = target.with_suffix(f".{pid}.tmp")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(body, file, indent=2)
        fresh.replace(target)


def prepare_local_access(folder: Path, *, now: dt.datetime) -> LocalAccess:
    """The default Project, an operator and one kept credential per source."""
    project = ensure_default_project(now=now)
    kept = _kept_tokens(folder)
    return LocalAccess(
        folder=folder,
        tokens={
            entry.source: _usable(kept.get(entry.name), project, entry.source, now)
            or create_credential(project=project, source=entry.source, label="local", now=now)[1]
            for entry in {e.source: e for e in reversed(MCP_ENTRIES)}.values()
        },
        username=OPERATOR,
        new_password=_ensure_operator(),
    )


def _kept_tokens(folder: Path) -> dict[str, str]:
    connection = read_connection(folder) or {}
    entries = connection.get("entries", {})
    return {
        name: entry["token"]
        for name, entry in entries.items()
        if isinstance(entry, dict) and isinstance(entry.get("token"), str)
    }


def _usable(text: str | None, project: Project, source: Source, now: dt.datetime) -> str | None:
    token = tokens.read(text) if text else None
    if token is None:
        return None
    credential = Credential.objects.filter(public_id=token.public_id, project=project, source=source).first()
    if credential is None or not is_live(credential, now) or not tokens.matches(token, credential.secret_digest):
        return None
    return text


def _ensure_operator() -> str | None:
    users = get_user_model()
    if users.objects.filter(is_superuser=True).exists():
        return None
    password = secrets.token_urlsafe(15)
    users.objects.create_superuser(username=OPERATOR, password=password)
    return password
