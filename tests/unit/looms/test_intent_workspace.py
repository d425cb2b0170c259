"""The folder of the Loom ``intent``: whatever is asked for, nothing outside it is read or written."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.looms.intent_loom import opened, workspace

Refused: Any = workspace.Refused


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("secret")
    inside = tmp_path / "inside"
    (inside / "sub").mkdir(parents=True)
    (inside / "sub" / "a.txt").write_text("a")
    return inside


def everything(folder: Path) -> dict[str, bytes]:
    """All that stands outside the folder."""
    return {str(path): path.read_bytes() for path in sorted((folder.parent / "outside").rglob("*"))}


UNUSABLE = [
    "",
    "/",
    "/etc/passwd",
    "..",
    "../outside/secret.txt",
    "sub/../../outside/secret.txt",
    "sub/..",
    "./sub/a.txt",
    "sub//a.txt",
    "sub/",
    ".git/config",
    "sub/.hidden",
    ".",
    "__pycache__/a.pyc",
    "sub/node_modules/a.js",
    "..\\outside\\secret.txt",
    "C:\\a.txt",
    "a\0b",
    "a\nb",
    "a\x1b[31mb",
    "a\u202eb",
    "\u200b.git/config",
    "a\ud800b",
    " a",
    "sub/a ",
    "sub /a",
    'a"b',
    "a" * 121,
    "ä" * 61,
    "/".join("a" * 11),
]


@pytest.mark.parametrize("path", UNUSABLE, ids=ascii)
def test_a_path_that_is_no_plain_one_inside_is_refused_by_every_tool(path: str, folder: Path) -> None:
    before = everything(folder)
    with opened(folder) as here:
        for act in (
            lambda: workspace.read_text(here, path),
            lambda: workspace.write_text(here, path, "mine"),
            lambda: workspace.remove_file(here, path),
        ):
            with pytest.raises(Refused, match=r"^(Write|Hidden|The text)"):
                act()
    assert everything(folder) == before
    assert sorted(os.listdir(folder)) == ["sub"]


ACTS: list[Callable[[int, str], Any]] = [
    lambda here, path: workspace.read_text(here, path),
    lambda here, path: workspace.write_text(here, path, "mine"),
    lambda here, path: workspace.remove_file(here, path),
]


@pytest.mark.parametrize("act", ACTS, ids=["read", "write", "remove"])
@pytest.mark.parametrize(
    ("link", "target", "path"),
    [
        ("link.txt", "../outside/secret.txt", "link.txt"),
        ("link", "../outside", "link/secret.txt"),
        ("sub/link", "../../outside", "sub/link/secret.txt"),
        ("inner", "sub", "inner/a.txt"),
        ("a_link.txt", "sub/a.txt", "a_link.txt"),
        ("gone", "nowhere", "gone"),
    ],
)
def test_no_link_is_followed_wherever_it_leads(
    act: Callable[[int, str], Any], link: str, target: str, path: str, folder: Path
) -> None:
    (folder / link).symlink_to(target)
    before = everything(folder)
    with opened(folder) as here, pytest.raises(Refused, match="link"):
        act(here, path)
    assert everything(folder) == before
    assert (folder / "sub" / "a.txt").read_text() == "a"
    assert os.readlink(folder / link) == target


@pytest.mark.parametrize("act", ACTS, ids=["read", "write", "remove"])
def test_a_folder_that_becomes_a_link_meanwhile_leads_nowhere(
    act: Callable[[int, str], Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder.parent / "outside" / "a.txt").write_text("secret")
    before = everything(folder)
    opens = os.open

    def swaps(name: Any, *arguments: Any, **options: Any) -> int:
        if name == "sub" and not (folder / "sub").is_symlink():
            (folder / "sub").rename(folder / "moved")
            (folder / "sub").symlink_to(folder.parent / "outside")
        return opens(name, *arguments, **options)

    with opened(folder) as here:
        monkeypatch.setattr(os, "open", swaps)
        with pytest.raises(Refused, match="not followed"):
            act(here, "sub/a.txt")
    assert (folder / "sub").is_symlink()
    assert everything(folder) == before


def test_a_folder_that_becomes_a_link_once_it_is_open_is_written_where_it_was(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    renames = os.rename

    def swaps(*arguments: Any, **options: Any) -> None:
        renames(folder / "sub", folder / "moved")
        (folder / "sub").symlink_to(folder.parent / "outside")
        renames(*arguments, **options)

    monkeypatch.setattr(os, "rename", swaps)
    with opened(folder) as here:
        workspace.write_text(here, "sub/new.txt", "mine")
    assert (folder / "moved" / "new.txt").read_text() == "mine"
    assert sorted(os.listdir(folder.parent / "outside")) == ["secret.txt"]


def test_a_file_that_becomes_a_link_is_replaced_not_followed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    renames = os.rename

    def swaps(*arguments: Any, **options: Any) -> None:
        (folder / "sub" / "a.txt").unlink()
        (folder / "sub" / "a.txt").symlink_to(folder.parent / "outside" / "secret.txt")
        renames(*arguments, **options)

    monkeypatch.setattr(os, "rename", swaps)
    with opened(folder) as here:
        workspace.write_text(here, "sub/a.txt", "mine")
    assert (folder.parent / "outside" / "secret.txt").read_text() == "secret"
    assert not (folder / "sub" / "a.txt").is_symlink()
    assert (folder / "sub" / "a.txt").read_text() == "mine"


def test_a_file_with_a_second_name_elsewhere_keeps_its_content_there(folder: Path) -> None:
    os.link(folder.parent / "outside" / "secret.txt", folder / "same.txt")
    with opened(folder) as here:
        workspace.write_text(here, "same.txt", "mine")
    assert (folder.parent / "outside" / "secret.txt").read_text() == "secret"


@pytest.mark.parametrize("given", ["{inside}/..", "{inside}/../outside", "{inside}2", "/", "relative", "{inside}/link"])
def test_a_folder_that_is_not_allowed_is_refused_without_a_path_in_the_message(given: str, folder: Path) -> None:
    (folder / "link").symlink_to(folder.parent / "outside")
    Path(f"{folder}2").mkdir()
    with (
        pytest.raises(Refused) as refused,
        workspace.opened(given.format(inside=folder), [folder.resolve()]),
    ):
        pytest.fail("It was opened.")
    assert str(folder.parent) not in str(refused.value)


@pytest.mark.parametrize(("given", "why"), [("{inside}/nothing", "make it first"), ("{inside}/sub/a.txt", "make it")])
def test_a_folder_that_is_none_is_refused(given: str, why: str, folder: Path) -> None:
    with pytest.raises(Refused, match=why), workspace.opened(given.format(inside=folder), [folder.resolve()]):
        pytest.fail("It was opened.")


@pytest.mark.parametrize("given", ["sub", "./sub", ".", "{inside}/sub\0"], ids=ascii)
def test_only_an_absolute_path_names_a_folder(given: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    roots = [folder.resolve()]
    with pytest.raises(Refused, match="absolute path"), workspace.opened(given.format(inside=folder), roots):
        pytest.fail("It was opened.")


def test_nothing_is_allowed_unless_the_operator_says_so(folder: Path) -> None:
    with pytest.raises(Refused, match="set LOOM_INTENT_ROOTS"), workspace.opened(str(folder), []):
        pytest.fail("It was opened.")


def test_a_link_between_the_allowed_folder_and_the_one_given_is_not_followed_once_it_was_looked_at(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = workspace.allowed_folder

    def swaps(*arguments: Any) -> Path:
        path: Path = looked_at(*arguments)
        (folder / "sub").rename(folder / "moved")
        (folder / "sub").symlink_to(folder.parent / "outside")
        return path

    monkeypatch.setattr(workspace, "allowed_folder", swaps)
    with pytest.raises(Refused, match="not followed"), workspace.opened(str(folder / "sub"), [folder.resolve()]):
        pytest.fail("It was opened.")


def test_what_is_written_is_read_and_listed(folder: Path) -> None:
    with opened(folder) as here:
        made = workspace.write_text(here, "new/deep/ä b.txt", "text ✓\n")
        assert workspace.read_text(here, "new/deep/ä b.txt") == "text ✓\n"
        assert workspace.list_files(here) == ({"new/deep/ä b.txt": 9, "sub/a.txt": 1}, 0)
        assert made in workspace.snapshot(here)
        assert workspace.remove_file(here, "new/deep/ä b.txt") is True
        assert workspace.remove_file(here, "new/deep/ä b.txt") is False
        assert workspace.remove_file(here, "no/such/folder.txt") is False


def test_writing_the_same_again_touches_nothing(folder: Path) -> None:
    with opened(folder) as here:
        first = workspace.write_text(here, "b.txt", "b")
        inode = (folder / "b.txt").stat().st_ino
        assert workspace.write_text(here, "b.txt", "b") == first
        assert (folder / "b.txt").stat().st_ino == inode
        workspace.write_text(here, "b.txt", "bb")
        assert (folder / "b.txt").stat().st_ino != inode
        workspace.write_text(here, "b.txt", "b")
        assert (folder / "b.txt").read_text() == "b"


def test_permissions_stay_and_new_files_cannot_be_executed(folder: Path) -> None:
    (folder / "run.sh").write_text("old")
    (folder / "run.sh").chmod(0o750)
    with opened(folder) as here:
        workspace.write_text(here, "run.sh", "new")
        workspace.write_text(here, "new.sh", "new")
    assert stat.S_IMODE((folder / "run.sh").stat().st_mode) == 0o750
    assert (folder / "new.sh").stat().st_mode & 0o111 == 0


def test_a_write_that_is_cut_off_leaves_the_old_file_and_the_next_one_cleans_up(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        # As a killed process would leave it: nothing is tidied up.
        patch.setattr(os, "rename", dies)
        unlinks = os.unlink
        patch.setattr(os, "unlink", lambda *a, **o: None)
        with opened(folder) as here, pytest.raises(KeyboardInterrupt):
            workspace.write_text(here, "sub/a.txt", "new")
        patch.setattr(os, "unlink", unlinks)
    assert (folder / "sub" / "a.txt").read_text() == "a"
    with opened(folder) as here:
        assert workspace.list_files(here) == ({"sub/a.txt": 1}, 0)
        workspace.write_text(here, "sub/a.txt", "new")
    assert os.listdir(folder / "sub") == ["a.txt"]
    assert (folder / "sub" / "a.txt").read_text() == "new"


def test_a_write_that_fails_tidies_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with opened(folder) as here, pytest.raises(OSError, match="No space"):
        workspace.write_text(here, "sub/a.txt", "new")
    assert os.listdir(folder / "sub") == ["a.txt"]
    assert (folder / "sub" / "a.txt").read_text() == "a"


def test_what_is_too_large_is_neither_written_nor_read(folder: Path) -> None:
    most = workspace.MAX_FILE_BYTES
    (folder / "large.txt").write_bytes(b"x" * (most + 1))
    with opened(folder) as here:
        with pytest.raises(Refused, match="larger than"):
            workspace.read_text(here, "large.txt")
        with pytest.raises(Refused, match="split the file"):
            workspace.write_text(here, "b.txt", "ä" * (most // 2 + 1))
        assert workspace.write_text(here, "b.txt", "x" * most).size == most
        assert len(workspace.read_text(here, "b.txt")) == most
        assert workspace.write_text(here, "large.txt", "small now").size == 9


def test_there_can_be_too_many_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "MAX_FILES", 3)
    with opened(folder) as here:
        for name in ("b", "c"):
            workspace.write_text(here, name, "")
        with pytest.raises(Refused, match="remove one first"):
            workspace.write_text(here, "d", "")
        workspace.write_text(here, "b", "again")
        assert not (folder / "d").exists()
        (folder / "d").write_text("")
        for act in (workspace.list_files, workspace.snapshot):
            with pytest.raises(Refused, match="choose a smaller one"):
                act(here)


def test_a_folder_can_be_too_large(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "MAX_FOLDER_BYTES", 3)
    (folder / "b").write_text("bb")
    with opened(folder) as here:
        assert len(workspace.snapshot(here)) == 2
        (folder / "b").write_text("bbb")
        with pytest.raises(Refused, match="more than 3 bytes"):
            workspace.snapshot(here)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a\0b", b"\xed\xa0\x80"])
def test_what_is_no_text_is_not_read(content: bytes, folder: Path) -> None:
    (folder / "b").write_bytes(content)
    with opened(folder) as here, pytest.raises(Refused, match="no UTF-8 text"):
        workspace.read_text(here, "b")


def test_half_a_character_is_not_written(folder: Path) -> None:
    with opened(folder) as here, pytest.raises(Refused, match="lone surrogate"):
        workspace.write_text(here, "b", "a\ud800")
    assert os.listdir(folder) == ["sub"]


def test_what_is_no_file_is_counted_and_holds_nobody_up(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to("sub")
    (folder / "line\nbreak").write_text("x")
    (folder / os.fsdecode(b"\xff.txt")).write_text("x")
    (folder / ".hidden").write_text("x")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "a.pyc").write_text("x")
    (folder / "/".join("d" * 11)).mkdir(parents=True)
    with opened(folder) as here:
        assert workspace.list_files(here) == ({"sub/a.txt": 1}, 5)
        assert [file.path for file in workspace.snapshot(here)] == ["sub/a.txt"]
        with pytest.raises(Refused, match="no such file"):
            workspace.read_text(here, "pipe")
        for act in ACTS[1:]:
            with pytest.raises(Refused, match="choose another name"):
                act(here, "pipe")
            with pytest.raises(Refused, match="choose another name"):
                act(here, "sub")


def test_what_may_not_be_read_is_counted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opens = os.open

    def forbids(name: Any, *arguments: Any, **options: Any) -> int:
        if name in ("sub", "b"):
            raise PermissionError(13, "Permission denied")
        return opens(name, *arguments, **options)

    (folder / "b").write_text("b")
    with opened(folder) as here:
        monkeypatch.setattr(os, "open", forbids)
        assert workspace.list_files(here) == ({"b": 1}, 1)
        with pytest.raises(Refused, match="no readable file"):
            workspace.read_text(here, "b")
