"""The one file that the Mirrors of several Projects share (M1, M3)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from apps.core import clock
from apps.mirrors import storage
from apps.mirrors.models import Mirror
from apps.mirrors.selectors.mirrors import known_digests
from apps.mirrors.services import pruning
from tests.conftest import Service
from tests.integration.mirror_work import export, mirrors_folder
from tests.integration.test_mirror_restore import other

__all__ = ["mirrors_folder", "other"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("mirrors_folder")]


@pytest.mark.rule("M1", "M3")
def test_a_file_that_is_whole_is_not_put_at_risk_by_another_project(
    service: Service, other: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = service.finish(do=[{"ending": "ask"}])
    mirror = export(service, run)

    def full(*_: Any, **__: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(storage.storage()), "save", full)
    held = export(service, run, "target")
    assert held["mirrorId"] != mirror["mirrorId"]
    for one in (mirror, held):
        assert service.call("mirror_inspect", mirrorId=one["mirrorId"])["verification"]["status"] == "verified"


def verified(service: Service, mirror: dict[str, Any]) -> str:
    found: str = service.call("mirror_inspect", mirrorId=mirror["mirrorId"])["verification"]["status"]
    return found


@pytest.mark.rule("M2", "M3")
def test_pruning_leaves_a_file_that_a_mirror_came_to_have_meanwhile(
    service: Service, mirrors_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = service.finish(do=[{"ending": "ask"}])
    export(service, run)
    Mirror.objects.all().delete()
    [file] = mirrors_folder.rglob("*.zip")
    os.utime(file, (0, 0))
    made: list[dict[str, Any]] = []
    look = known_digests

    def looked(digests: list[str], **besides: Any) -> set[str]:
        found = look(digests, **besides)
        if not made:
            made.append(export(service, run))
        return found

    monkeypatch.setattr(pruning, "known_digests", looked)
    pruned = pruning.prune_mirrors(older_than_days=None, project_id=None, dry_run=False, now=clock.now())
    assert pruned.digests == []
    assert verified(service, made[0]) == "verified"


@pytest.mark.rule("M2", "M3")
def test_a_mirror_whose_file_was_pruned_before_it_was_listed_gets_it_again(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = service.finish(do=[{"ending": "ask"}])
    keep = storage.keep
    stored: list[str] = []

    def kept(digest: str, file: Any) -> None:
        keep(digest, file)
        if not stored:
            storage.discard(digest)
        stored.append(digest)

    monkeypatch.setattr(storage, "keep", kept)
    assert verified(service, export(service, run)) == "verified"


@pytest.mark.rule("M3")
def test_a_whole_mirror_under_the_digest_of_another_is_damage(service: Service) -> None:
    mirror, another = (export(service, service.finish(do=[{"record": name}])) for name in ("one", "two"))
    names = [storage.name_of(Mirror.objects.get(mirror_id=one["mirrorId"]).digest) for one in (mirror, another)]
    kept, exchanged = (Path(storage.storage().path(name)) for name in names)
    kept.write_bytes(exchanged.read_bytes())
    found = service.call("mirror_inspect", mirrorId=mirror["mirrorId"])["verification"]
    assert found == {"status": "damaged", "problems": [{"entry": "", "problem": "its file is another Mirror's"}]}
    assert service.call("mirror_inspect", mirrorId=another["mirrorId"])["verification"]["status"] == "verified"
    refused = service.call("mirror_restore", mirrorId=mirror["mirrorId"], targetProject="trials", scope="records")
    assert refused["error"]["code"] == "MIRROR_INVALID"
