"""What things in a Loom may be called."""

from __future__ import annotations

import re

#: The file that makes a folder a Loom.
LOOM_FILE = "loom.yaml"
#: A Loom's, a Stage's or a Step's name.
NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
#: Where a route ends; never the name of a Stage or a Step.
END = "end"
#: ``module:name`` inside the package; a module may be ``folder.module``.
REFERENCE = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)", re.ASCII)
MAX_ID = 200


def is_id(value: object) -> bool:
    """An id that Code may choose: 1 to 200 printable characters."""
    return type(value) is str and 0 < len(value) <= MAX_ID and value.isprintable() and bool(value.strip())
