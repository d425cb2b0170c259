"""The folder that agents work in: nothing outside it is ever read or written.

Every path is walked name by name from an open folder, and no link is followed on the way, so nothing
that is swapped meanwhile leads out of it.  A file is replaced whole or not at all.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from loomsvc.authoring import ToolError

from .schemas import File

MAX_FILES = 1000
#: A Tool's answer may have 1 MiB, and one byte may become six of JSON.
MAX_FILE_BYTES = 128 * 1024
MAX_FOLDER_BYTES = 64 * 1024 * 1024
MAX_PATH_BYTES = 120
MAX_DEPTH = 10
#: Made by tools, and in nobody's way.  So is everything hidden.
_LEFT_OUT = frozenset({"__pycache__", "node_modules"})
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_BLOCK = 1024 * 1024


class Refused(ToolError):
    """What was asked for is not done; the message says what to do instead."""


@contextmanager
def opened(folder: str, roots: list[Path]) -> Iterator[int]:
    """The folder as a descriptor, if it lies in one of ``roots``."""
    path = allowed_folder(folder, roots)
    root = next(root for root in roots if path.is_relative_to(root))
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with _descended(descriptor, path.relative_to(root).parts) as inside:
            yield inside
    finally:
        os.close(descriptor)


def allowed_folder(folder: str, roots: list[Path]) -> Path:
    """The folder with links resolved, if it lies in one of ``roots``."""
    if not roots:
        raise Refused("No folder may be worked in: set LOOM_INTENT_ROOTS to those in which it may lie.")
    if not os.path.isabs(folder) or "\0" in folder:
        raise Refused("Give the folder as an absolute path.")
    path = Path(folder).resolve()
    if not any(path.is_relative_to(root) for root in roots):
        raise Refused("This folder is in none of the folders that LOOM_INTENT_ROOTS allows.")
    if not path.is_dir():
        raise Refused("There is no such folder: make it first.")
    return path


def names_of(path: str) -> tuple[str, ...]:
    """The names that ``path`` consists of, if it may be used."""
    names = tuple(path.split("/"))
    if path.startswith("/") or any(name in ("", ".", "..") for name in names):
        raise Refused("Write a path inside the folder, such as src/words.py: no / at an end, no . or .. in it.")
    if set(path) & set('"\\') or not path.isprintable() or any(name != name.strip() for name in names):
        raise Refused("Write names of printable characters, without quotes, \\ and spaces at their ends.")
    if any(name.startswith(".") or name in _LEFT_OUT for name in names):
        raise Refused("Hidden names, __pycache__ and node_modules are left alone: choose another name.")
    if len(path.encode()) > MAX_PATH_BYTES or len(names) > MAX_DEPTH:
        raise Refused(f"Write a path of at most {MAX_PATH_BYTES} bytes and {MAX_DEPTH} names.")
    return names


def list_files(folder: int) -> tuple[dict[str, int], int]:
    """Size by path of what may be read, and how many entries are something else (links, odd names)."""
    files: dict[str, int] = {}
    others = 0
    for path, entry in _entries(folder, ""):
        if entry is None or not stat.S_ISREG(entry.st_mode) or not _is_usable(path):
            others += 1
        elif len(files) == MAX_FILES:
            raise Refused(f"The folder holds more than {MAX_FILES} files: choose a smaller one.")
        else:
            files[path] = entry.st_size
    return dict(sorted(files.items())), others


def read_bytes(folder: int, path: str) -> bytes:
    """A regular file of at most ``MAX_FILE_BYTES``."""
    content = _read(folder, names_of(path), MAX_FILE_BYTES + 1)
    if content is None:
        raise Refused("There is no such file: list the files to see which there are.")
    if len(content) > MAX_FILE_BYTES:
        raise Refused(f"The file is larger than {MAX_FILE_BYTES} bytes: do without it.")
    return content


def read_text(folder: int, path: str) -> str:
    """A file as text."""
    try:
        text = read_bytes(folder, path).decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise Refused("The file is no UTF-8 text: do without it.")
    return text


def write_text(folder: int, path: str, text: str) -> File:
    """Make ``path`` hold ``text``; the folders on the way are made.  Doing so twice changes nothing more."""
    *parents, name = names_of(path)
    try:
        content = text.encode()
    except UnicodeEncodeError:
        raise Refused("The text holds half a character (a lone surrogate): correct it.") from None
    if len(content) > MAX_FILE_BYTES:
        raise Refused(f"The text is longer than {MAX_FILE_BYTES} bytes: split the file.")
    files, _ = list_files(folder)
    if path not in files and len(files) >= MAX_FILES:
        raise Refused(f"The folder holds {MAX_FILES} files already: remove one first.")
    with _descended(folder, parents, make=True) as parent:
        mode = _mode_of(parent, name)
        if mode is None or _read(parent, (name,), len(content) + 1) != content:
            _replace(parent, name, content, mode)
    return File(path=path, size=len(content), sha256=hashlib.sha256(content).hexdigest())


def remove_file(folder: int, path: str) -> bool:
    """Whether there was such a file to remove."""
    *parents, name = names_of(path)
    with suppress(FileNotFoundError), _descended(folder, parents) as parent:
        if _mode_of(parent, name) is not None:
            os.unlink(name, dir_fd=parent)
            return True
    return False


def snapshot(folder: int) -> list[File]:
    """Every file that may be read, with its digest."""
    sizes, _ = list_files(folder)
    if sum(sizes.values()) > MAX_FOLDER_BYTES:
        raise Refused(f"The folder holds more than {MAX_FOLDER_BYTES} bytes: choose a smaller one.")
    files: list[File] = []
    for path in sizes:
        content = _read(folder, names_of(path), MAX_FOLDER_BYTES)
        if content is not None:
            files.append(File(path=path, size=len(content), sha256=hashlib.sha256(content).hexdigest()))
    return files


# -- below: descriptors ----------------------------------------------------------------------------


@contextmanager
def _descended(folder: int, names: tuple[str, ...] | list[str], *, make: bool = False) -> Iterator[int]:
    """The folder below ``folder`` that ``names`` lead to, each opened in the one before."""
    here = os.dup(folder)
    try:
        for name in names:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=here)
            try:
                inside = os.open(name, _FOLDER, dir_fd=here)
            except FileNotFoundError:
                raise
            except OSError:
                raise Refused("A name on the way is no folder, or a link, which is not followed.") from None
            os.close(here)
            here = inside
        yield here
    finally:
        os.close(here)


def _mode_of(parent: int, name: str) -> int | None:
    """Permissions of a regular file, ``None`` where nothing is."""
    try:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise Refused("There is a folder, a link or something else at this path: choose another name.")
    return stat.S_IMODE(found.st_mode)


def _read(folder: int, names: tuple[str, ...], most: int) -> bytes | None:
    """At most ``most`` bytes of a regular file, ``None`` where there is none."""
    *parents, name = names
    try:
        with _descended(folder, parents) as parent:
            # O_NONBLOCK: a pipe that stands there must not hold anyone up.
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=parent)
    except FileNotFoundError:
        return None
    except OSError:
        raise Refused("This path is no readable file, or a link, which is not followed.") from None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(most) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def _replace(parent: int, name: str, content: bytes, mode: int | None) -> None:
    """Write beside it and rename: whoever looks sees the old content or the new.

    What a crash leaves behind is hidden, and gone when the same file is written again.
    """
    beside = f".{name[:60]}.loom-part"
    with suppress(FileNotFoundError):
        os.unlink(beside, dir_fd=parent)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666, dir_fd=parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(descriptor, mode)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.rename(beside, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=parent)
        raise
    os.fsync(parent)


def _entries(folder: int, inside: str) -> Iterator[tuple[str, os.stat_result | None]]:
    """What stands in the folder and below, links as links; hidden names are left out without a word."""
    for name in sorted(os.listdir(folder)):
        if name.startswith(".") or name in _LEFT_OUT:
            continue
        path = f"{inside}{name}"
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode) and path.count("/") < MAX_DEPTH:
                with _descended(folder, (name,)) as below:
                    yield from _entries(below, path + "/")
                continue
        except (OSError, Refused):
            found = None
        yield path, found


def _is_usable(path: str) -> bool:
    try:
        names_of(path)
    except Refused:
        return False
    return True
