"""The inventory example on awkward folders: it never leaves what it was allowed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from apps.looms.sources import EXAMPLES
from loomsvc.testing import LoomRun, run_loom


def inventory(folder: str | Path, roots: str | Path) -> LoomRun:
    return run_loom(
        EXAMPLES / "inventory", {"folder": str(folder)}, environ={**os.environ, "LOOM_INVENTORY_ROOTS": str(roots)}
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("secret")
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    (allowed / "a.txt").write_text("a")
    return allowed


def test_links_are_not_followed(root: Path) -> None:
    (root / "link.txt").symlink_to(root.parent / "outside" / "secret.txt")
    (root / "folder").symlink_to(root.parent / "outside")
    (root / "gone").symlink_to("nowhere")
    os.mkfifo(root / "pipe")
    report = inventory(root, root).artifact("report")
    assert (report["files"], report["skipped"]) == (1, 4)


@pytest.mark.parametrize("folder", ["{root}/..", "{root}/../outside", "{root}2", "/", "relative", "{root}/link"])
def test_folders_outside_are_refused_without_a_path_in_the_message(folder: str, root: Path) -> None:
    (root / "link").symlink_to(root.parent / "outside")
    Path(f"{root}2").mkdir()
    run = inventory(folder.format(root=root), root)
    assert run.problem.code == "STEP_FAILED"
    assert "FolderRefused" in run.problem.message
    assert str(root.parent) not in run.problem.message


def test_nothing_is_allowed_unless_the_operator_says_so(root: Path) -> None:
    assert "set LOOM_INVENTORY_ROOTS" in inventory(root, "").problem.message
    assert inventory(root, f"/nowhere{os.pathsep}{root}").status == "completed"


def test_many_files_are_hashed_in_slices(root: Path) -> None:
    for number in range(1203):
        (root / f"{number}.txt").write_text(str(number % 600))
    run = inventory(root, root)
    assert run.path().count("survey.hash") == 3
    report = run.artifact("report")
    assert report["files"] == 1204
    assert len(report["duplicates"]) == 100


def test_odd_names_are_skipped_and_counted(root: Path) -> None:
    (root / os.fsdecode(b"\xff.txt")).write_text("x")
    (root / "line\nbreak").write_text("x")
    assert inventory(root, root).artifact("report")["skipped"] == 2


def test_an_empty_folder_ends_early(root: Path) -> None:
    (root / "a.txt").unlink()
    assert inventory(root, root).outcome == "empty"
