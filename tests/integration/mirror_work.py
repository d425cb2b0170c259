"""What the tests of Mirrors share: a storage of their own, exporting, and forgetting a Release."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from apps.mirrors import storage
from apps.mirrors.models import Mirror
from tests.conftest import Service

RICH = [
    {"ending": "again", "artifact": {"n": 1}, "record": "first"},
    {"ending": "again", "artifact": {"n": 2.5, "t": "α"}, "failures": 1},
    {"ending": "ask"},
]


@pytest.fixture
def mirrors_folder(settings: Any, tmp_path: Path) -> Path:
    """Where the files of Mirrors lie in this test."""
    folder = tmp_path / "mirrors"
    settings.STORAGES = {
        **settings.STORAGES,
        "mirrors": {**settings.STORAGES["mirrors"], "OPTIONS": {"location": folder, "base_url": None}},
    }
    return folder


def file_of(mirror: dict[str, Any]) -> bytes:
    """The bytes of a Mirror's file."""
    digest = Mirror.objects.get(mirror_id=mirror["mirrorId"]).digest
    with storage.opened(digest) as (file, _):
        return file.read()


def lines_of(mirror: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The lines of each file of JSON Lines."""
    with zipfile.ZipFile(io.BytesIO(file_of(mirror))) as archive:
        return {
            name.removesuffix(".jsonl"): [json.loads(line) for line in archive.read(name).splitlines()]
            for name in archive.namelist()
            if name.endswith(".jsonl")
        }


def export(service: Service, run: dict[str, Any], target: str = "trials") -> dict[str, Any]:
    """The Mirror of a Run's trace."""
    result = service.call("mirror_export", traceId=run["traceId"], targetProject=target)
    assert "error" not in result, result
    found: dict[str, Any] = result["mirror"]
    return found
