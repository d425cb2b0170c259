"""Run as a process of its own: takes in each bundle named, and says what came of it and what it cost."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from apps.core.errors import LoomError
from apps.mirrors.bundles.checking import check_content
from apps.mirrors.bundles.layout import Limits
from apps.mirrors.bundles.reading import open_copy
from apps.mirrors.bundles.sources import open_source
from apps.mirrors.bundles.taking import take

#: As the service ships.
LIMITS = Limits(bundle_bytes=128 * 1024 * 1024, value_bytes=1024 * 1024)


def most_resident() -> float:
    """The most memory this program has had, in megabytes; unlike rusage, without what its parent had."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1]) / 1024


def main() -> None:
    for path in sys.argv[1:]:
        began, code = time.monotonic(), "taken"
        with tempfile.TemporaryFile() as out:
            try:
                with open_source(Path(path), LIMITS) as source:
                    manifest = take(source, out)
                check_content(open_copy(out, out.tell(), manifest, LIMITS))
            except LoomError as error:
                code = f"{error.code}: {error.message}"
            size = out.seek(0, 2)
        megabytes = most_resident()
        print(json.dumps([path, code, time.monotonic() - began, megabytes, size]), flush=True)


if __name__ == "__main__":
    main()
