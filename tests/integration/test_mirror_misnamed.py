"""A bundle that passes one Loom's Release off as another's (M7, K22)."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from apps.core import json_text
from apps.looms.models import Release
from apps.looms.services import releases
from apps.mirrors.models import Mirror
from apps.runs.models import Run
from tests.conftest import Service
from tests.integration.mirror_work import export, file_of, mirrors_folder
from tests.integration.test_mirror_restore import everything, forget_release, other

__all__ = ["mirrors_folder", "other"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("mirrors_folder")]


def renamed(data: bytes, name: str, folder: Path) -> Path:
    """The bundle with another Loom's name in it, whole in itself."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = {entry: archive.read(entry) for entry in archive.namelist()}
    for entry in ("run.jsonl", "release.jsonl"):
        files[entry] = json_text.canonical({**json.loads(files[entry]), "loomName": name}) + b"\n"
    manifest = {**json.loads(files["manifest.json"]), "loomName": name}
    for entry in manifest["entries"]:
        content = files[entry["path"]]
        entry.update(sha256=hashlib.sha256(content).hexdigest(), size=len(content))
    del manifest["digest"]
    files["manifest.json"] = json_text.canonical({**manifest, "digest": json_text.digest(manifest)})
    for entry, content in files.items():
        (folder / entry).parent.mkdir(parents=True, exist_ok=True)
        (folder / entry).write_bytes(content)
    return folder


@pytest.mark.rule("M7", "K22")
@pytest.mark.parametrize("is_known", [True, False])
def test_a_release_under_another_looms_name_is_no_mirror(
    service: Service, other: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    run = service.finish(do=[{"ending": "ask"}])
    bundle = renamed(file_of(export(service, run)), "victim", tmp_path / "bundle")
    if not is_known:
        Run.objects.filter(pk=run["runId"]).update(status="cancelled")
        forget_release(run["releaseDigest"], monkeypatch)
    before = everything()
    with pytest.raises(CommandError, match="no Mirror"):
        call_command("mirror_restore", "--from", str(bundle), "--project", "target", "--json")
    assert everything() == before
    assert not Mirror.objects.filter(project__name="target").exists()


@pytest.mark.rule("M7")
def test_a_loom_in_its_folder_takes_its_name_back(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = service.finish(do=[{"ending": "ask"}])["releaseDigest"]
    loom = releases.load_release(digest)
    files = releases.kept_release(digest=digest).files
    Release.objects.filter(pk=digest).update(loom_name="victim", trusted=False)
    releases.store_release(loom=loom, files=files, now=Release.objects.get(pk=digest).loaded_at)
    assert Release.objects.values_list("loom_name", "trusted").get(pk=digest) == ("trial", True)
