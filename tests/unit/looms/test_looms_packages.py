"""Packages as files: bounds, digests, and unpacking with several processes at it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.looms import packages
from apps.looms.packages import digest_of, read_folder, signature, unpack
from tests.unit.looms.loom_folders import check, write_loom

names = st.text("abc/", min_size=1, max_size=6).filter(lambda name: all(name.split("/")))
files = st.dictionaries(names, st.binary(max_size=8), max_size=4)


@given(files, files)
def test_a_digest_is_the_same_exactly_for_the_same_files(one: dict[str, bytes], other: dict[str, bytes]) -> None:
    assert (digest_of(one, {}) == digest_of(other, {})) is (one == other)
    assert digest_of(one, {}) == digest_of(dict(reversed(one.items())), {})


def test_a_digest_covers_the_versions_that_are_required() -> None:
    assert len({digest_of({}, {}), digest_of({}, {"a": "1"}), digest_of({}, {"a": "2"})}) == 3


def test_caches_and_hidden_files_are_left_out(tmp_path: Path) -> None:
    folder = write_loom(tmp_path / "notes")
    before = read_folder(folder)
    for path in ("__pycache__/x.pyc", ".git/config", "node_modules/x/y.js", "skills/.DS_Store", "old.pyc"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("x")
    assert read_folder(folder) == before


def test_links_inside_count_as_files_and_links_outside_are_refused(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    folder = write_loom(tmp_path / "notes")
    (folder / "inside.txt").symlink_to("steps.py")
    (folder / "outside.txt").symlink_to("../secret.txt")
    (folder / "folder").symlink_to("/etc")
    (folder / "nowhere").symlink_to("gone")
    os.mkfifo(folder / "pipe")
    found, problems = read_folder(folder)
    assert found["inside.txt"] == found["steps.py"]
    assert {(d.file, d.message) for d in problems} == {
        ("outside.txt", "This link leads out of the folder."),
        ("folder", "This link leads out of the folder."),
        ("nowhere", "This is no readable regular file."),
        ("pipe", "This is no readable regular file."),
    }
    assert b"secret" not in found.values()
    assert check(folder).loom is None


def test_bounds_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_loom(tmp_path / "notes")
    monkeypatch.setattr(packages, "MAX_FILES", 3)
    assert [d.message for d in read_folder(folder)[1]] == ["The folder has more than 3 files."]
    monkeypatch.setattr(packages, "MAX_FILES", 500)
    (folder / "big.bin").write_bytes(b"x" * (5 * 1024 * 1024))
    (problem,) = read_folder(folder)[1]
    assert problem.message == "The folder holds more than 5 MiB."


def test_a_name_that_is_not_portable_is_refused(tmp_path: Path) -> None:
    folder = write_loom(tmp_path / "notes")
    (folder / "a\nb").write_text("x")
    (folder / os.fsdecode(b"\xff")).write_text("x")
    found, problems = read_folder(folder)
    assert [d.message for d in problems] == ["This name is not portable."] * 2
    assert all(d.file.isprintable() for d in problems)
    assert "a\nb" not in found


def test_every_change_of_content_changes_the_signature(tmp_path: Path) -> None:
    folder = write_loom(tmp_path / "notes")
    seen = {signature(folder)}
    (folder / "steps.py").write_text("x = 1")
    seen.add(signature(folder))
    (folder / "steps.py").write_text("x = 2")
    seen.add(signature(folder))
    (folder / "new.txt").touch()
    seen.add(signature(folder))
    (folder / "new.txt").unlink()
    (folder / "tools.py").unlink()
    seen.add(signature(folder))
    assert len(seen) == 5


def test_unpacking_gives_exactly_the_files_and_mends_what_was_changed(tmp_path: Path) -> None:
    content = {"a.py": b"x", "b/c.txt": b"y"}
    target = tmp_path / "releases" / "digest"
    unpack(content, target)
    assert read_folder(target) == (content, [])
    (target / "a.py").write_bytes(b"tampered")
    (target / "more.txt").write_bytes(b"z")
    unpack(content, target)
    assert read_folder(target) == (content, [])
    assert os.listdir(target.parent) == ["digest"]


def test_folders_that_unpacking_makes_are_for_the_owner_alone(tmp_path: Path) -> None:
    """The data folder may be among them, and the ledger comes to lie there later."""
    before = os.umask(0o022)
    try:
        unpack({"a.py": b"x"}, tmp_path / "data" / "releases" / "digest")
    finally:
        os.umask(before)
    made = [tmp_path / "data", tmp_path / "data" / "releases", tmp_path / "data" / "releases" / "digest"]
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in made] == [0o700] * 3


def test_processes_that_unpack_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from apps.looms.packages import *\n"
        "files = {f'{n}.txt': b'x' * n for n in range(50)}\n"
        "for _ in range(20): unpack(files, Path(sys.argv[1])); assert read_folder(Path(sys.argv[1]))[0] == files\n"
    )
    target = tmp_path / "releases" / "digest"
    running = [subprocess.Popen([sys.executable, "-c", code, str(target)]) for _ in range(4)]
    assert [process.wait(60) for process in running] == [0, 0, 0, 0]
    assert os.listdir(target.parent) == ["digest"]
