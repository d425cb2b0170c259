"""The production profile: nothing to complain about, and no start with a weak setting (K27)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
GOOD = {
    "DJANGO_SETTINGS_MODULE": "loomsvc.settings.production",
    "LOOMSVC_SECRET_KEY": "k3-Vx9_qLw7Zt2RbN8sYp4MdJh6FgCaEuXoTiKlQvWzB5nD1rSy0",
    "LOOMSVC_ALLOWED_HOSTS": "looms.example",
    "DATABASE_URL": "postgresql://loomsvc@db.invalid/loomsvc",
    "REDIS_URL": "redis://redis.invalid/0",
}


def python(*arguments: str, **changed: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LOOM", "DJANGO"))}
    environment = {name: value for name, value in {**kept, **GOOD, **changed}.items() if value}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.rule("K27")
def test_djangos_deployment_check_is_clean(tmp_path: Path) -> None:
    done = python("manage.py", "check", "--deploy", "--fail-level", "WARNING", LOOMSVC_DATA=str(tmp_path))
    assert done.returncode == 0, done.stderr


@pytest.mark.rule("K27")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LOOMSVC_SECRET_KEY", ""),
        ("LOOMSVC_SECRET_KEY", "short"),
        ("LOOMSVC_SECRET_KEY", "a" * 60),
        ("LOOMSVC_ALLOWED_HOSTS", "*"),
        ("LOOMSVC_ALLOWED_HOSTS", "looms.example,*"),
        ("LOOMSVC_ALLOWED_HOSTS", ".example"),
        ("LOOMSVC_DEBUG", "1"),
        ("LOOMSVC_FAILPOINT", "after_admission"),
        ("DATABASE_URL", ""),
        ("REDIS_URL", ""),
    ],
)
def test_a_weak_setting_is_refused_by_name(name: str, value: str) -> None:
    done = python("-c", "import loomsvc.settings.production", **{name: value})
    assert done.returncode != 0
    assert name in done.stderr.strip().splitlines()[-1]
    assert not value or len(value) < 5 or value not in done.stderr


@pytest.mark.rule("K27")
def test_debug_is_off_in_every_profile(tmp_path: Path) -> None:
    said = "from django.conf import settings; assert settings.DEBUG is False"
    for profile in ("base", "development", "production", "test"):
        done = python("-c", said, DJANGO_SETTINGS_MODULE=f"loomsvc.settings.{profile}", LOOMSVC_DATA=str(tmp_path))
        assert done.returncode == 0, done.stderr
