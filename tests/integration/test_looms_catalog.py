"""The catalogue: folders become Releases, change, break, and are offered or not."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from django.conf import settings as django_settings

from apps.core.contracts import Empty
from apps.core.endpoints import all_endpoints
from apps.core.errors import ErrorCode, LoomError
from apps.looms import sources
from apps.looms.checking.check import check_folder
from apps.looms.contracts import LoomGraphRequest
from apps.looms.endpoints import list_looms, loom_graph
from apps.looms.models import Release, ReleaseFile
from apps.looms.services import catalog, releases
from apps.looms.services.catalog import LoomStatus, current, entries
from apps.looms.services.releases import ReleaseUnavailable, load_release
from tests.unit.looms.loom_folders import YAML, write_loom

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def looms(tmp_path: Path, settings: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty LOOM_PATHS folder, an own data folder, and a catalogue that has seen nothing."""
    folder = tmp_path / "looms"
    folder.mkdir()
    changed = dataclasses.replace(django_settings.LOOMSVC, data_dir=tmp_path / "data", loom_paths=(folder,))
    settings.LOOMSVC = changed  # type: ignore[attr-defined]
    forget(monkeypatch)
    return folder


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has just started."""
    monkeypatch.setattr(catalog, "_catalog", catalog._NOTHING_SEEN)
    monkeypatch.setattr(releases, "_loaded", {})
    for name in [name for name in sys.modules if name.startswith("loom_release_")]:
        monkeypatch.delitem(sys.modules, name)


def edit(folder: Path, old: str, new: str, file: str = "loom.yaml") -> None:
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))


@pytest.mark.rule("N8")
def test_examples_and_looms_of_the_paths_are_offered(looms: Path) -> None:
    write_loom(looms / "notes")
    (looms / "no_loom").mkdir()
    assert {entry.name: entry.status for entry in entries()} == {
        "capture": LoomStatus.READY,
        "intent": LoomStatus.READY,
        "inventory": LoomStatus.READY,
        "review": LoomStatus.READY,
        "notes": LoomStatus.READY,
    }
    assert current("notes").loom.name == "notes"
    assert current("nothing") is None


def test_a_release_is_a_row_with_its_files_and_is_stored_once(looms: Path) -> None:
    write_loom(looms / "notes")
    entries()
    entries()
    release = Release.objects.get(loom_name="notes")
    assert release.digest == current("notes").loom.digest
    assert bytes(ReleaseFile.objects.get(release=release, path="loom.yaml").content).decode() == YAML


@pytest.mark.rule("N8", "F23")
def test_a_changed_folder_is_a_new_release_and_the_old_one_goes_on(looms: Path) -> None:
    folder = write_loom(looms / "notes")
    before = current("notes").loom
    edit(folder, "title: Notes", "title: Better notes")
    after = current("notes").loom
    assert (before.graph.title, after.graph.title) == ("Notes", "Better notes")
    assert before.digest != after.digest
    assert load_release(before.digest) is before
    assert before.code("draft", "collect") is not after.code("draft", "collect")


@pytest.mark.rule("N8")
def test_a_broken_folder_makes_the_loom_invalid_while_the_newest_release_is_shown(
    looms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_loom(looms / "notes")
    sound = current("notes").loom
    edit(folder, "revise: write", "revise: nowhere")
    for _ in range(2):
        entry = current("notes")
        assert (entry.status, entry.loom.digest) == (LoomStatus.INVALID, sound.digest)
        assert "`nowhere`" in entry.diagnostics[0].message
        assert current("capture").status is LoomStatus.READY
        forget(monkeypatch)
    edit(folder, "revise: nowhere", "revise: write")
    assert current("notes").status is LoomStatus.READY
    assert current("notes").loom.digest == sound.digest


@pytest.mark.rule("N8")
def test_going_back_to_an_earlier_content_makes_it_the_newest_again(
    looms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_loom(looms / "notes")
    first = current("notes").loom.digest
    edit(folder, "title: Notes", "title: Other")
    current("notes")
    edit(folder, "title: Other", "title: Notes")
    assert current("notes").loom.digest == first
    edit(folder, "entry: draft", "entry: nowhere")
    forget(monkeypatch)
    assert current("notes").loom.digest == first


@pytest.mark.rule("N8")
def test_two_folders_of_one_name_are_both_refused_until_one_is_gone(looms: Path) -> None:
    write_loom(looms / "notes")
    sound = current("notes").loom
    write_loom(looms / "other", loom_yaml=("title: Notes", "title: Other"))
    entry = current("notes")
    assert (entry.status, entry.loom.digest) == (LoomStatus.INVALID, sound.digest)
    assert "LOOM_PATHS folder 1/notes, LOOM_PATHS folder 1/other" in entry.diagnostics[0].message
    assert str(looms) not in str(entry.diagnostics)
    shutil.rmtree(looms / "other")
    assert current("notes").status is LoomStatus.READY


def test_a_loom_that_never_loaded_is_listed_by_its_folder(looms: Path) -> None:
    (looms / "broken").mkdir()
    (looms / "broken" / "loom.yaml").write_text("loom: [")
    entry = current("broken")
    assert (entry.loom, entry.status) == (None, LoomStatus.INVALID)
    with pytest.raises(ReleaseUnavailable):
        loom_graph(None, LoomGraphRequest(loom_name="broken"))  # type: ignore[arg-type]


def test_a_folder_that_is_gone_is_offered_no_longer(looms: Path) -> None:
    write_loom(looms / "notes")
    assert current("notes") is not None
    shutil.rmtree(looms / "notes")
    assert current("notes") is None


def test_a_folder_whose_check_breaks_down_stops_no_other(looms: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_loom(looms / "notes")

    def breaks_down(folder: Path, **options: object) -> object:
        if folder.name == "notes":
            raise RuntimeError("a bug")
        return check_folder(folder, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(catalog, "check_folder", breaks_down)
    assert {entry.name: entry.status.value for entry in entries()} == {
        "capture": "ready",
        "intent": "ready",
        "inventory": "ready",
        "review": "ready",
        "notes": "invalid",
    }


def test_one_folder_reached_twice_counts_once(looms: Path, settings: object) -> None:
    write_loom(looms / "notes")
    (looms.parent / "link").symlink_to(looms)
    paths = (looms, looms.parent / "link", looms / "notes", looms.parent / "missing")
    settings.LOOMSVC = dataclasses.replace(django_settings.LOOMSVC, loom_paths=paths)  # type: ignore[attr-defined]
    assert current("notes").status is LoomStatus.READY


def test_looms_of_installed_packages_are_offered(looms: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = looms.parent / "acme_looms"
    write_loom(package / "notes")
    monkeypatch.syspath_prepend(looms.parent)
    points = [
        metadata.EntryPoint("acme", "acme_looms", "loomsvc.looms"),
        metadata.EntryPoint("gone", "no_such_package_x.looms", "loomsvc.looms"),
    ]
    monkeypatch.setattr(sources.metadata, "entry_points", lambda group: points)
    sources._installed.cache_clear()
    try:
        assert current("notes").status is LoomStatus.READY
    finally:
        sources._installed.cache_clear()


def test_nothing_is_read_again_while_nothing_changes(looms: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_loom(looms / "notes")
    entries()
    monkeypatch.setattr(catalog, "check_folder", lambda *a, **k: pytest.fail("read again"))
    entries()
    assert current("notes").status is LoomStatus.READY


def test_a_release_is_stored_without_a_statement_more_once_it_is_known(
    looms: Path, django_assert_num_queries: object
) -> None:
    write_loom(looms / "notes")
    entries()
    with django_assert_num_queries(0):  # type: ignore[operator]
        entries()
        current("notes")


# -- pinned Releases


@pytest.mark.rule("R14")
def test_a_pinned_release_is_loaded_from_the_ledger(looms: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_loom(looms / "notes")
    digest = current("notes").loom.digest
    shutil.rmtree(folder)
    shutil.rmtree(looms.parent / "data")
    forget(monkeypatch)
    loom = load_release(digest)
    assert (loom.digest, loom.name) == (digest, "notes")
    assert loom.code("draft", "collect").__name__ == "collect"
    assert load_release(digest) is loom


@pytest.mark.rule("R14")
@pytest.mark.parametrize("kind", ["unknown", "damaged", "missing file", "setting", "requirement"])
def test_a_release_that_cannot_be_loaded_is_unavailable(
    kind: str, looms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schemas = ('token: SecretStr = SecretStr("sesame-open")', "token: SecretStr")
    yaml = ("entry: draft\n", "entry: draft\nrequires: [rich]\n")
    monkeypatch.setenv("LOOM_NOTES_TOKEN", "t0ps3cret")
    write_loom(looms / "notes", schemas=schemas, loom_yaml=yaml)
    digest = current("notes").loom.digest
    forget(monkeypatch)
    rows = ReleaseFile.objects.filter(release_id=digest)
    if kind == "unknown":
        digest = "0" * 64
    elif kind == "damaged":
        rows.filter(path="steps.py").update(content=b"import os")
    elif kind == "missing file":
        rows.filter(path="steps.py").delete()
    elif kind == "setting":
        monkeypatch.delenv("LOOM_NOTES_TOKEN")
    else:
        monkeypatch.setattr("apps.looms.checking.requirements.installed_version", lambda name: "99.9")
    with pytest.raises(ReleaseUnavailable) as caught:
        load_release(digest)
    assert caught.value.code is ErrorCode.RELEASE_UNAVAILABLE
    assert caught.value.retryable
    assert "t0ps3cret" not in caught.value.message
    assert str(looms.parent) not in caught.value.message


def test_an_unpacked_release_that_somebody_changed_is_mended_before_it_is_loaded(
    looms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_loom(looms / "notes")
    digest = current("notes").loom.digest
    (looms.parent / "data" / "releases" / digest / "steps.py").write_text("raise SystemExit")
    forget(monkeypatch)
    assert load_release(digest).digest == digest


@pytest.mark.django_db(transaction=True)
def test_threads_that_ask_at_once_get_one_and_the_same(looms: Path) -> None:
    from django.db import connection

    write_loom(looms / "notes")
    found: list[object] = []
    barrier = threading.Barrier(6)

    def ask() -> None:
        barrier.wait()
        found.append(current("notes").loom)
        connection.close()

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 6
    assert len(set(map(id, found))) == 1
    assert Release.objects.filter(loom_name="notes").count() == 1


# -- Endpoints


@pytest.mark.rule("N8")
def test_list_looms_shows_the_newest_release_with_its_schema_and_stages(looms: Path) -> None:
    folder = write_loom(looms / "notes")
    listed = {loom["loomName"]: loom for loom in list_looms(None, Empty()).to_wire()["looms"]}  # type: ignore[arg-type]
    notes = listed["notes"]
    assert set(notes) == {
        "loomName", "title", "description", "status", "releaseDigest", "exclusive", "inputSchema", "stages",
    }  # fmt: skip
    assert notes["inputSchema"]["required"] == ["topic"]
    assert notes["stages"][1] == {
        "name": "publish",
        "steps": [{"name": "file", "kind": "code", "outcomes": ["done"]}],
    }
    edit(folder, "steps:publish", "steps:nothing")
    broken = {loom["loomName"]: loom for loom in list_looms(None, Empty()).to_wire()["looms"]}["notes"]  # type: ignore[arg-type]
    assert broken["status"] == "invalid"
    assert broken["releaseDigest"] == notes["releaseDigest"]
    (diagnostic,) = broken["diagnostics"]
    assert diagnostic["file"] == "loom.yaml"
    assert diagnostic["line"] == next(n for n, line in enumerate(YAML.splitlines(), 1) if "steps:publish" in line)


def test_the_graph_of_a_loom_is_shown_or_not_found(looms: Path) -> None:
    write_loom(looms / "notes")
    view = loom_graph(None, LoomGraphRequest(loom_name="notes"))  # type: ignore[arg-type]
    assert view.mermaid.startswith("flowchart TD")
    assert view.to_wire()["graph"]["entry"] == "draft"
    with pytest.raises(LoomError) as caught:
        loom_graph(None, LoomGraphRequest(loom_name="nothing"))  # type: ignore[arg-type]
    assert caught.value.code is ErrorCode.NOT_FOUND


def test_the_endpoints_are_registered() -> None:
    found = {endpoint.name: endpoint for endpoint in all_endpoints()}
    assert found["list_looms"].route.path == "/looms"
    assert found["loom_graph"].tool is False
    assert os.path.basename(found["loom_graph"].route.path) == "graph"
