"""The Loom ``intent`` and its modules, as a Release of it has them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from apps.looms.importing import import_module
from apps.looms.sources import EXAMPLES
from apps.looms.testing import load_folder

FOLDER = EXAMPLES / "intent"
LOOM = load_folder(FOLDER, {}).loom
assert LOOM is not None

checks: Any = import_module(LOOM.package, "checks")
pages: Any = import_module(LOOM.package, "pages")
schemas: Any = import_module(LOOM.package, "schemas")
specification: Any = import_module(LOOM.package, "specification")
tools: Any = import_module(LOOM.package, "tools")
validation: Any = import_module(LOOM.package, "validation")
workspace: Any = import_module(LOOM.package, "workspace")


@contextmanager
def opened(folder: Path) -> Iterator[int]:
    """The folder; no descriptor is left open afterwards."""
    before = len(os.listdir("/dev/fd"))
    with workspace.opened(str(folder), [folder.parent.resolve()]) as descriptor:
        yield descriptor
    assert len(os.listdir("/dev/fd")) == before
