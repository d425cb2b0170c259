"""What looms has to say to `loomsvc doctor`: whether each Loom loads, and with which rights it runs."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from apps.core import conf
from apps.core.findings import Finding, ok, problem, register_check, warning
from apps.looms.diagnostics import Severity
from apps.looms.messages import printable
from apps.looms.sources import loom_folders
from apps.looms.terminal import authors_output_to_stderr
from apps.looms.testing import load_folder


def check_looms() -> Iterator[Finding]:
    """Every Loom folder loads, and no two have one name."""
    ready: list[str] = []
    with authors_output_to_stderr():
        for folder in loom_folders(conf.settings().loom_paths):
            # From a temporary copy: the doctor leaves the data folder as it is.
            checked = load_folder(folder.path)
            ready += [checked.name] if checked.loom is not None else []
            errors = [one for one in checked.diagnostics if one.severity is Severity.ERROR]
            if errors:
                more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
                yield problem(
                    printable(f"Loom {checked.name} does not load: {errors[0].place}: {errors[0].message}{more}"),
                    printable(f"loomsvc loom_check {folder.path} names every mistake."),
                )
    twice = [name for name, number in Counter(ready).items() if number > 1]
    for name in twice:
        yield problem(f"Two folders hold a Loom {name}.", "Take one of them out of LOOM_PATHS.")
    yield ok("Looms that load: " + (", ".join(sorted(set(ready))) or "none"))


def check_rights() -> Iterator[Finding]:
    """Looms are code without a sandbox: whoever can change one can do what the service can."""
    if os.geteuid() == 0:
        yield warning(
            "Looms run without a sandbox, and here with the rights of root.",
            "Run the service under an account of its own that owns nothing but its data folder.",
        )
    for root in conf.settings().loom_paths:
        for path in (root, *(folder.path for folder in loom_folders((root,)) if root in folder.path.parents)):
            if _others_can_write(path):
                yield warning(
                    printable(f"Other accounts can change the Looms in {path}, and so run code as the service."),
                    printable(f"chmod -R go-w {path}"),
                )


def _others_can_write(path: Path) -> bool:
    return bool(path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH))


register_check("looms", check_looms)
register_check("looms", check_rights)
