"""Typed settings, read from the environment once (names in ``docs/reference/settings.md``)."""

from __future__ import annotations

import importlib.util
import math
import os
import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

#: The folder that holds ``apps`` and ``templates``.
REPOSITORY = Path(__file__).resolve().parent.parent.parent


#: Provider keys are encrypted with no less than this many characters.
SHORTEST_KEY_SECRET = 32


def names(variable: str, *, default: list[str]) -> list[str]:
    """A comma-separated list from the environment."""
    found = [name.strip() for name in os.environ.get(variable, "").split(",") if name.strip()]
    return found or default


def private_folder(path: Path) -> None:
    """Make a folder and what is missing above it, each for its owner alone: here lies what Runs were told and said."""
    for missing in reversed([folder for folder in (path, *path.parents) if not folder.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)


def kept_secret(path: Path) -> str:
    """A random secret that is made once and kept in a file only its owner can read.

    The file gets its name when it is whole: neither another process nor one after a crash reads half of it.
    """
    private_folder(path.parent)
    if not _text_of(path):
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        made = Path(name)
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(64))
                file.flush()
                os.fsync(file.fileno())
            _name_first(made, path)
        finally:
            made.unlink(missing_ok=True)
    return _text_of(path)


def _text_of(path: Path) -> str:
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return ""


def _name_first(made: Path, path: Path) -> None:
    """Whoever comes first names the file; an empty one, left by a crash, is no secret."""
    if path.exists() and not _text_of(path):
        path.unlink(missing_ok=True)
    try:
        os.link(made, path)
    except FileExistsError:
        return
    except OSError:
        # No hard links here, as on some shares.
        made.replace(path)


def number(variable: str, default: float, *, least: float) -> float:
    """A number from the environment; ``ValueError`` names the variable and what it takes."""
    text = os.environ.get(variable)
    if text is None or not text.strip():
        return default
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{variable}={text!r} is not a number") from None
    if not least <= value < math.inf:
        raise ValueError(f"{variable}={text!r} must be at least {least:g}")
    return value


def web_address(variable: str) -> str:
    """An http(s) address from the environment without user, query and fragment; ``ValueError`` says what is wrong."""
    text = os.environ.get(variable, "").strip().rstrip("/")
    if not text:
        return ""
    try:
        parts = urlsplit(text)
        is_plain = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_plain = False
    if not is_plain:
        raise ValueError(f"{variable} is no address; write it as https://host/path")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(f"{variable} must have no user, no password, no query and no fragment")
    return text


def file(variable: str) -> Path | None:
    """A file that the environment names; ``ValueError`` when it is not there."""
    text = os.environ.get(variable, "").strip()
    if not text:
        return None
    path = Path(text).absolute()
    if not path.is_file():
        raise ValueError(f"{variable} names {path.name}, which is no file")
    return path


@dataclass(frozen=True, slots=True)
class Settings:
    """What an operator may set.  All durations are seconds."""

    #: Folder of an embedded service: ledger, secret key, ``connection.json``, unpacked Releases.
    data_dir: Path
    #: Folders that hold Loom folders.
    loom_paths: tuple[Path, ...]
    #: How long a worker's hold on a Run lasts without being renewed.
    lease_seconds: float
    #: How often the sweep looks for what nobody rang for.
    sweep_seconds: float
    #: A receipt that is ``pending`` for longer was never applied (O5).
    pending_seconds: float
    #: Age in days after which historical Runs are removed; 0 keeps them for ever (R17).
    retention_days: float
    #: How many Steps of one Run a worker does before others get a turn.
    fair_share: int
    #: Worker threads of an embedded service.
    threads: int
    #: Largest JSON value, in bytes.
    max_value_bytes: int
    #: Largest Mirror, in bytes: the file, and what it holds.
    mirror_bytes: int
    #: An MCP session that is not used for this long is over.
    session_idle_seconds: float
    #: Longest life of an MCP session.
    session_seconds: float
    #: How long a form may stay open in an MCP client before its call gives up waiting.
    form_seconds: float
    #: Where people reach the service, without a slash at the end; blank: where ``loomsvc up`` listens.
    public_url: str = ""
    #: What encrypts provider keys, newest first; none: a file in the data folder of an embedded service.
    key_secrets: tuple[str, ...] = ()
    #: Background agents of a Project that may be queued or running at once (K24).
    agents_open: int = 20
    #: Background agents that a Project may start within a minute (K24).
    agents_per_minute: int = 60
    #: Background agents that run at once, of all Projects together; Runs have the other worker threads.
    agents_running: int = 2
    #: The file that names providers and models; without it there is `offline` (B6).
    models_file: Path | None = None
    #: What the `offline` model plays, beyond what Looms bring along.
    offline_script_file: Path | None = None
    #: A SearXNG-compatible endpoint for searches of the web; blank: there are none (B7).
    searxng_url: str = ""
    #: Hosts (``name`` or ``name:port``) that it may have though their address is not public.
    searxng_allow_hosts: tuple[str, ...] = ()

    @property
    def releases_dir(self) -> Path:
        return self.data_dir / "releases"


def _public_url(variable: str) -> str:
    text = os.environ.get(variable, "").strip().rstrip("/")
    if text and not text.startswith(("http://", "https://")):
        raise ValueError(f"{variable}={text!r} is no address; it starts with https:// or http://")
    return text


def _key_secrets(variable: str) -> tuple[str, ...]:
    found = tuple(names(variable, default=[]))
    if any(len(secret) < SHORTEST_KEY_SECRET for secret in found):
        raise ValueError(f"{variable}: each secret needs at least {SHORTEST_KEY_SECRET} characters")
    return found


def from_environment() -> Settings:
    """Read the environment; raises ``ValueError`` naming the variable that is wrong."""
    paths = tuple(Path(path).absolute() for path in os.environ.get("LOOM_PATHS", "").split(os.pathsep) if path)
    for path in paths:
        if not path.is_dir():
            raise ValueError(f"LOOM_PATHS names {path}, which is no folder")
    threads = int(number("LOOMSVC_THREADS", 4, least=1))
    return Settings(
        data_dir=Path(os.environ.get("LOOMSVC_DATA", ".loomsvc")).absolute(),
        loom_paths=paths,
        lease_seconds=number("LOOMSVC_LEASE_SECONDS", 30, least=0.1),
        sweep_seconds=number("LOOMSVC_SWEEP_SECONDS", 10, least=0.1),
        pending_seconds=number("LOOMSVC_PENDING_SECONDS", 30, least=1),
        retention_days=number("LOOMSVC_RETENTION_DAYS", 0, least=0),
        fair_share=int(number("LOOMSVC_FAIR_SHARE", 50, least=1)),
        threads=threads,
        max_value_bytes=int(number("LOOMSVC_MAX_VALUE_BYTES", 1024 * 1024, least=1024)),
        mirror_bytes=int(number("LOOMSVC_MIRROR_BYTES", 128 * 1024 * 1024, least=1024 * 1024)),
        session_idle_seconds=number("LOOMSVC_SESSION_IDLE_SECONDS", 7 * 86400, least=60),
        session_seconds=number("LOOMSVC_SESSION_SECONDS", 30 * 86400, least=60),
        form_seconds=number("LOOMSVC_FORM_SECONDS", 3600, least=1),
        public_url=_public_url("LOOMSVC_PUBLIC_URL"),
        key_secrets=_key_secrets("LOOMSVC_KEY_SECRETS"),
        agents_open=int(number("LOOMSVC_AGENTS_OPEN", 20, least=1)),
        agents_per_minute=int(number("LOOMSVC_AGENTS_PER_MINUTE", 60, least=1)),
        agents_running=int(number("LOOMSVC_AGENTS_RUNNING", max(1, threads // 2), least=1)),
        models_file=file("LOOMSVC_MODELS"),
        offline_script_file=file("LOOMSVC_OFFLINE_SCRIPT"),
        searxng_url=web_address("LOOMSVC_SEARXNG_URL"),
        searxng_allow_hosts=tuple(names("LOOMSVC_SEARXNG_ALLOW_HOSTS", default=[])),
    )


def mirror_storage(data_dir: Path) -> dict[str, Any]:
    """Where the files of Mirrors lie, as Django's ``STORAGES`` wants it: a bucket if one is named, else a folder.

    Raises ``ValueError`` when a bucket is named and the extra ``s3`` is not installed.
    """
    bucket = os.environ.get("LOOMSVC_MIRRORS_BUCKET")
    if not bucket:
        folder = Path(os.environ.get("LOOMSVC_MIRRORS_DIR") or data_dir / "mirrors").absolute()
        private = {"file_permissions_mode": 0o600, "directory_permissions_mode": 0o700}
        return {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": folder, "base_url": None, **private},
        }
    if importlib.util.find_spec("storages") is None:
        raise ValueError("LOOMSVC_MIRRORS_BUCKET wants the extra: pip install 'loomsvc[s3]'")
    return {
        "BACKEND": "storages.backends.s3.S3Storage",
        "OPTIONS": {
            "bucket_name": bucket,
            "endpoint_url": os.environ.get("LOOMSVC_MIRRORS_ENDPOINT") or None,
            "location": os.environ.get("LOOMSVC_MIRRORS_PREFIX", "mirrors"),
            "default_acl": None,
            "file_overwrite": True,
        },
    }


def settings() -> Settings:
    """The process's settings, as Django's settings module built them."""
    from django.conf import settings as django_settings

    found: Settings = django_settings.LOOMSVC
    return found
