"""How often, and with which chances, tests try what depends on the moment.

``LOOMSVC_ROUNDS`` raises the few rounds of an everyday run (``make chaos``), ``LOOMSVC_SEED`` chooses other moments.
What has failed is tried again with the seed that it printed.
"""

from __future__ import annotations

import os
import random

SEED = os.environ.get("LOOMSVC_SEED", "1")


def rounds(usual: int) -> int:
    return int(os.environ.get("LOOMSVC_ROUNDS", usual))


def chance(name: str) -> random.Random:
    """Moments of one test, the same in each run with the same seed."""
    print(f"LOOMSVC_SEED={SEED} for {name}")
    return random.Random(f"{SEED} {name}")
