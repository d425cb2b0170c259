"""What takes seconds to load is loaded by whoever reasons, and by nobody else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_HEAVY = ("pydantic_ai", "openai", "anthropic", "httpx2")


def test_a_process_that_starts_loads_no_client_of_a_provider() -> None:
    source = (
        "import sys, django; django.setup(); import loomsvc.urls; from apps.core.endpoints import all_endpoints; "
        f"print(len(list(all_endpoints())), *(name for name in {_HEAVY!r} if name in sys.modules))"
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "loomsvc.settings.test", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", source], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    number, *loaded = done.stdout.split()
    assert int(number) > 30
    assert loaded == []
