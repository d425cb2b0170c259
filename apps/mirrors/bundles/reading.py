"""A bundle that was taken in: its lines and the Release's files, read from the copy (M1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeVar

from pydantic import ValidationError

from apps.core.contracts import Contract
from apps.mirrors.bundles import canonical
from apps.mirrors.bundles.layout import MAX_RELEASE_BYTES, RELEASE_FOLDER, Limits
from apps.mirrors.bundles.lines import KEYS, SHAPES, Manifest
from apps.mirrors.bundles.refusals import MirrorInvalid
from apps.mirrors.bundles.sources import ZipSource
from apps.mirrors.bundles.taking import Progress, no_progress, shape_problem

L = TypeVar("L", bound=Contract)


@dataclass(frozen=True)
class Bundle:
    """A private copy whose bytes are those that its manifest names."""

    manifest: Manifest
    source: ZipSource
    limits: Limits

    def check_marks(self) -> None:
        """Refuse what would take too long to read, before any of it is."""
        left = self.limits.marks
        for name in SHAPES:
            for text in self._texts(name):
                left -= canonical.marks(text)
                if left < 0:
                    raise MirrorInvalid(f"it holds more than {self.limits.marks} values", entry=name)

    def lines(self, shape: type[L], *, progress: Progress = no_progress) -> Iterator[L]:
        """The lines of the file that holds ``shape``, checked one by one, in strictly growing order."""
        for line, _ in self._lines(shape, "", progress):
            yield line

    def valued_lines(self, shape: type[L], *, progress: Progress = no_progress) -> Iterator[tuple[L, str]]:
        """The lines of a file whose ``data`` have digests, each with the digest that its data really have."""
        return self._lines(shape, "data", progress)

    def _lines(self, shape: type[L], valued: str, progress: Progress) -> Iterator[tuple[L, str]]:
        name, promised = _file_of(shape), self._promised(shape)
        key_of, last, number = KEYS[name], None, 0
        for number, text in enumerate(self._texts(name), start=1):
            if number > promised:
                raise MirrorInvalid(f"it has more lines than the {promised} of the manifest", entry=name)
            line, members = _line(shape, text, f"{name} line {number}")
            key = key_of(line)
            if last is not None and key <= last:
                raise MirrorInvalid("it is not after the line before it", entry=f"{name} line {number}")
            last = key
            progress(len(text))
            yield line, canonical.member_digest(text, members, valued) if valued else ""
        if number != promised:
            raise MirrorInvalid(f"it has {number} lines, and the manifest says {promised}", entry=name)

    def lines_again(self, shape: type[L]) -> Iterator[L]:
        """The lines of a file once more, after all of them were checked: quicker, for where others wait."""
        for text in self._texts(_file_of(shape)):
            yield shape.model_validate(canonical.read_again(text), by_alias=True, by_name=False)

    def only_line(self, shape: type[L]) -> L:
        """The one line of a file that has just one."""
        # Before any is read: others might each be as large as a line may be.
        if self._promised(shape) != 1:
            raise MirrorInvalid("it has one line", entry=_file_of(shape))
        (line,) = self.lines(shape)
        return line

    def _promised(self, shape: type[Contract]) -> int:
        """How many lines of ``shape`` the manifest says there are."""
        name = _file_of(shape)
        return next(entry.lines or 0 for entry in self.manifest.entries if entry.path == name)

    def release_files(self) -> dict[str, bytes]:
        """Path inside the package → content, sorted by path."""
        files: dict[str, bytes] = {}
        room = MAX_RELEASE_BYTES
        for entry in self.manifest.entries:
            if entry.path.startswith(RELEASE_FOLDER):
                room -= entry.size
                if room < 0:
                    raise MirrorInvalid(f"a Release holds at most {MAX_RELEASE_BYTES} bytes", entry=entry.path)
                files[entry.path.removeprefix(RELEASE_FOLDER)] = b"".join(self.source.chunks(entry.path))
        return files

    def _texts(self, name: str) -> Iterator[bytes]:
        """Each line without its end, which every line has."""
        begun, longest = bytearray(), self.limits.line_bytes(name)
        for data in self.source.chunks(name):
            first, *others = data.split(b"\n")
            for following in others:
                yield bytes(begun + first)
                begun.clear()
                first = following
            begun += first
            if len(begun) > longest:
                raise MirrorInvalid(f"a line is longer than {longest} bytes", entry=name)
        if begun:
            raise MirrorInvalid("its last line has no end", entry=name)


def open_copy(file: BinaryIO, size: int, manifest: Manifest, limits: Limits) -> Bundle:
    """The bundle that was taken into ``file``."""
    whole = Limits(max(limits.bundle_bytes, size), limits.value_bytes)
    return Bundle(manifest, ZipSource(file, size, whole), limits)


def _file_of(shape: type[Contract]) -> str:
    """The name of the file whose lines have this shape."""
    return next(name for name, held in SHAPES.items() if held is shape)


def _line(shape: type[L], text: bytes, place: str) -> tuple[L, dict[str, Any]]:
    try:
        members: Any = canonical.read(text)
        return shape.model_validate(members, by_alias=True, by_name=False), members
    except canonical.NotCanonical as error:
        raise MirrorInvalid(str(error), entry=place) from None
    except ValidationError as error:
        raise MirrorInvalid(shape_problem(error), entry=place) from None
