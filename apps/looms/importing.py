"""Importing a Release under a package name of its own, so that two never share a module.

The folder needs no ``__init__.py``; relative imports work inside it.  What is imported is the
unpacked copy, so nothing is ever written into the author's folder.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
import threading
from pathlib import Path
from types import ModuleType

_PREFIX = "loom_release_"
_lock = threading.Lock()


def package_name(digest: str) -> str:
    """The private package of a Release."""
    return f"{_PREFIX}{digest}"


def is_open(package: str) -> bool:
    """Whether the package has been opened in this process."""
    return package in sys.modules


def open_package(digest: str, folder: Path) -> str:
    """Make ``folder`` importable as the package of ``digest``; returns the package's name.

    An ``__init__.py`` runs now and may raise anything.
    """
    name = package_name(digest)
    with _lock:
        if name in sys.modules:
            return name
        module = _module(name, folder)
        sys.modules[name] = module
        if module.__spec__ is not None and module.__spec__.loader is not None:
            try:
                module.__spec__.loader.exec_module(module)
            except BaseException:
                close_package(name)
                raise
    return name


def _module(name: str, folder: Path) -> ModuleType:
    initial = folder / "__init__.py"
    spec = (
        importlib.util.spec_from_file_location(name, initial, submodule_search_locations=[str(folder)])
        if initial.is_file()
        else None
    )
    if spec is None:
        spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(folder)]
    # The folder may have come into being a moment ago.
    importlib.invalidate_caches()
    return importlib.util.module_from_spec(spec)


def import_module(package: str, module: str) -> ModuleType:
    """A module of a package that is open; it runs at its first import and may raise anything."""
    return importlib.import_module(f"{package}.{module}")


def close_package(package: str) -> None:
    """Forget a package that turned out to be unusable."""
    for name in [name for name in sys.modules if name == package or name.startswith(package + ".")]:
        del sys.modules[name]
