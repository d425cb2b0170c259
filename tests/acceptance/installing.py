"""Official clients that are no part of the project's environment: installed once per machine, and kept."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent / "clients"
#: The oldest Node that the clients run on.
_NODE = 20


@pytest.fixture(scope="session")
def python_2() -> Path:
    """A Python that has ``mcp`` 2.x."""
    return _kept("python", ["requirements.txt"], _make_python, sys.base_prefix, sys.version) / "bin" / "python"


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """The folder with the TypeScript clients and the Inspector.  Without Node it skips, and fails in CI."""
    missing = _missing_node()
    if missing:
        (pytest.fail if os.environ.get("LOOMSVC_REQUIRE_SERVICES") else pytest.skip)(missing)
    return _kept("node", ["package.json", "package-lock.json"], _make_node) / "node_modules"


def _missing_node() -> str | None:
    if not shutil.which("node") or not shutil.which("npm"):
        return "needs the programs node and npm"
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    is_old = int(version.lstrip("v").partition(".")[0]) < _NODE
    return f"needs Node {_NODE} or later, here is {version}" if is_old else None


def _kept(name: str, files: list[str], make: Callable[[Path], None], *also: str) -> Path:
    """The folder that ``make`` fills; another one, once the files or ``also`` say something else."""
    said = [*((SOURCES / file).read_bytes() for file in files), *(text.encode() for text in also)]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "loomsvc" / "official-clients"
    folder = cache / f"{name}-{hashlib.sha256(b'|'.join(said)).hexdigest()[:12]}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for file in files:
                shutil.copy(SOURCES / file, folder)
            make(folder)
            (folder / "complete").touch()
    return folder


def _make_python(folder: Path) -> None:
    _run(folder, sys.executable, "-m", "venv", ".")
    _run(folder, "bin/python", "-m", "pip", "install", "--quiet", "-r", "requirements.txt")


def _make_node(folder: Path) -> None:
    _run(folder, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")


def _run(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
