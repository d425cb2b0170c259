"""Dockerfile and compose file, read as Docker reads them and run without it.

``Image`` does in an ordinary folder what the Dockerfile says: its COPY and RUN lines, with ``/venv``,
``/app`` and so on below that folder.  What needs root or another file system is left to Docker, and named.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.acceptance.scaled import ROOT

#: RUN lines that make the account; everything else is run.
ACCOUNT_COMMANDS = ("groupadd", "useradd")
#: Places of the image that are moved below a folder.
PLACES = ("/venv", "/app", "/build", "/usr/local/bin", "/tmp/loomsvc", "/looms", "/mirrors")

_VARIABLE = re.compile(r"\$(?:\$|\{(\w+)(?::([-?])([^}]*))?\})")


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile as ``(INSTRUCTION, arguments)``."""
    text = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text())
    lines = [line.strip() for line in text.splitlines()]
    return [(line.split()[0], line.split(None, 1)[1]) for line in lines if line and not line.startswith("#")]


def compose_file() -> dict[str, Any]:
    """The compose file as written, variables not filled in."""
    found: dict[str, Any] = YAML(typ="safe").load((ROOT / "docker-compose.yml").read_text())
    return found


def filled(value: Any, variables: Mapping[str, str]) -> Any:
    """``value`` with ``${NAME}``, ``${NAME:-default}``, ``${NAME:?error}`` and ``$$`` replaced."""
    if isinstance(value, dict):
        return {key: filled(item, variables) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, variables) for item in value]
    return _VARIABLE.sub(lambda found: _fill(found, variables), value) if isinstance(value, str) else value


def _fill(found: re.Match[str], variables: Mapping[str, str]) -> str:
    name, kind, rest = found.groups()
    if name is None:
        return "$"
    if variables.get(name):
        return variables[name]
    if kind == "-":
        return str(rest)
    raise KeyError(f"{name}: {rest}")


@dataclass
class Image:
    """What the Dockerfile makes, in a folder."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    commands: dict[str, list[str]] = field(default_factory=dict)

    def placed(self, text: str) -> str:
        """``text`` with the image's places moved below the folder."""
        alternatives = "|".join(map(re.escape, sorted(PLACES, key=len, reverse=True)))
        return re.sub(rf"(?<![\w./-])({alternatives})(?=[/:\s\"']|$)", lambda found: f"{self.root}{found[1]}", text)

    def build(self) -> None:
        for place in PLACES:
            (self.root / place.lstrip("/")).mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.root / "venv")
        (self.root / "usr/local/bin/python").symlink_to(sys.executable)
        self.environment = {"PATH": f"{self.root}/usr/local/bin:{os.environ['PATH']}", "HOME": str(self.root)}
        for name, arguments in instructions():
            match name:
                case "COPY" if not arguments.startswith("--from"):
                    self._copy(*arguments.split())
                case "RUN" if not arguments.startswith(ACCOUNT_COMMANDS):
                    self.run(arguments)
                case "ENV":
                    self._env(arguments)
                case "HEALTHCHECK":
                    self.commands["HEALTHCHECK"] = json.loads(arguments[arguments.index("CMD") + 3 :])
                case "CMD":
                    self.commands["CMD"] = json.loads(arguments)

    def _copy(self, source: str, target: str) -> None:
        place = Path(self.placed(target))
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / source, place)

    def _env(self, arguments: str) -> None:
        for name, value in re.findall(r"(\w+)=(\S+)", arguments):
            self.environment[name] = self.placed(value.replace("$PATH", self.environment["PATH"]))

    def run(self, command: str) -> None:
        done = subprocess.run(
            ["sh", "-ec", self.placed(command)], cwd=self.root, env={**os.environ, **self.environment},
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
