"""What an import of the author's code raised: where in the Loom's own files, and what to do about it."""

from __future__ import annotations

import inspect
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType

from apps.looms.diagnostics import Diagnostic, closest, did_you_mean
from apps.looms.messages import describe_exception
from apps.looms.packages import PackageFiles
from apps.looms.secret_values import SecretValues

_MISSING_NAME = re.compile(r"cannot import name '(\w+)' from (partially initialized module )?")


def import_problem(error: BaseException, file: str, *, package: str, folder: Path, files: PackageFiles) -> Diagnostic:
    """``error`` at the innermost line of a file in ``folder``; ``file`` is what was being imported."""
    line: int | None = None
    for frame in traceback.extract_tb(error.__traceback__):
        inside = inside_of(folder, frame.filename)
        if inside is not None:
            file, line = inside, frame.lineno
    if isinstance(error, SyntaxError) and (inside := inside_of(folder, error.filename or "")):
        file, line = inside, error.lineno
    message = f"Importing it raised {describe_exception(error, SecretValues())}"
    return Diagnostic.error(file, line, message, _cure(error, package, modules_in(files)))


def inside_of(folder: Path, filename: str) -> str | None:
    """The path inside the Loom of a file of its unpacked copy."""
    path = Path(filename)
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else None


def modules_in(files: PackageFiles) -> list[str]:
    """The names of a Loom's own modules."""
    return [file.removesuffix(".py").replace("/", ".") for file in files if file.endswith(".py")]


def names_in(module: ModuleType) -> list[str]:
    """What a module defines itself, for suggestions."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not inspect.ismodule(value)
        and getattr(value, "__module__", module.__name__) == module.__name__
    ]


def _cure(error: BaseException, package: str, modules: list[str]) -> str:
    if isinstance(error, ModuleNotFoundError):
        return _missing_module(error.name or "", package, modules)
    missing = _MISSING_NAME.match(str(error)) if isinstance(error, ImportError) else None
    if missing is None:
        return "Modules of a Loom only define things: do work in Steps."
    if missing[2]:
        return "Two files import each other: move what both need into a third."
    module = sys.modules.get(getattr(error, "name", None) or "")
    known = [] if module is None else names_in(module)
    if module is not None and module.__name__.startswith(package + "."):
        return did_you_mean(missing[1], known, otherwise=f"Define `{missing[1]}` there.")
    return closest(missing[1], known) or "Correct the name, or install a version of the package that has it."


def _missing_module(name: str, package: str, modules: list[str]) -> str:
    if name.startswith(package + "."):
        return did_you_mean(name.removeprefix(package + "."), modules)
    if name in modules:
        return f"Files of a Loom import each other with a dot: `from .{name} import …`."
    return "Install the package and name it in `requires`, or correct the name."
