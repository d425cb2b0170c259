"""Peers in virtual environments of their own, made when they are first needed, in a folder that git ignores."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent.parent / ".bench"


def same(*packages: str) -> list[str]:
    """The requirements of the very versions that loomsvc runs on here."""
    return [f"{package}=={version(package)}" for package in packages]


def python_with(name: str, *requirements: str) -> Path:
    """The Python of a virtual environment that has ``requirements``, each pinned."""
    digest = hashlib.sha256("\n".join([sys.version, *requirements]).encode()).hexdigest()[:8]
    folder = FOLDER / f"{name}-{digest}"
    done = folder / "complete"
    if not done.exists():
        print(f"Setting up {folder.relative_to(FOLDER.parent)} (once) …", file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [folder / "bin" / "python", "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        subprocess.run([*pip, *requirements], check=True)
        done.touch()
    return folder / "bin" / "python"
