"""The one way in which a bundle stands in a ``.zip``: stored, in the manifest's order, with nothing in between.

A plain subset of ZIP, so that every tool opens it, written and read byte by byte: the same bundle is the same
file everywhere, any other byte is found, and nothing in a stranger's file is ever unpacked, followed or believed
(K20, K21).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from apps.mirrors.bundles.layout import MANIFEST, MAX_ENTRIES
from apps.mirrors.bundles.refusals import MirrorInvalid

_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s4B4H3L5H2L")
_END = struct.Struct("<4s4H2LH")
#: ZIP's own times begin here: 1980-01-01 00:00.
_TIME, _DATE = 0, 0x21
_UTF8_NAME = 0x800
_VERSION = 20
_UNIX = 3
_REGULAR_FILE = 0o100644 << 16
_LONGEST_NAME = 1000
#: Beyond it ZIP needs other records.
MAX_FILE_BYTES = 2**31


@dataclass(frozen=True, slots=True)
class Member:
    """One entry and its place in the file; ``offset`` is where its header begins."""

    name: str
    size: int
    crc: int
    offset: int

    @property
    def header(self) -> bytes:
        name = self.name.encode()
        numbers = (_VERSION, _UTF8_NAME, 0, _TIME, _DATE, self.crc, self.size, self.size, len(name), 0)
        return _LOCAL.pack(b"PK\x03\x04", *numbers) + name

    @property
    def data_offset(self) -> int:
        return self.offset + _LOCAL.size + len(self.name.encode())

    @property
    def directory_entry(self) -> bytes:
        name = self.name.encode()
        numbers = (_VERSION, _UNIX, _VERSION, 0, _UTF8_NAME, 0, _TIME, _DATE, self.crc, self.size, self.size)
        rest = (len(name), 0, 0, 0, 0, _REGULAR_FILE, self.offset)
        return _CENTRAL.pack(b"PK\x01\x02", *numbers, *rest) + name


def place(files: Sequence[tuple[str, int, int]]) -> list[Member]:
    """Where ``(name, size, crc)`` stand when they are written one after another."""
    members: list[Member] = []
    offset = 0
    for name, size, crc in files:
        member = Member(name, size, crc, offset)
        members.append(member)
        offset = member.data_offset + size
    return members


def ending(members: Sequence[Member]) -> bytes:
    """What follows the last entry: the directory and its end record."""
    directory = b"".join(member.directory_entry for member in members)
    start = members[-1].data_offset + members[-1].size
    return directory + _END.pack(b"PK\x05\x06", 0, 0, len(members), len(members), len(directory), start, 0)


def find_members(file: BinaryIO, size: int) -> list[Member]:
    """The entries of a zip of ``size`` bytes, each where :func:`place` puts it.  Raises :class:`MirrorInvalid`."""
    if size < _END.size:
        raise MirrorInvalid("it is no zip file")
    file.seek(size - _END.size)
    end = _exactly(file, _END.size)
    signature, disk, first_disk, here, count, length, start, comment = _END.unpack(end)
    if signature != b"PK\x05\x06":
        raise MirrorInvalid("it has no end record, as a zip file does")
    if disk or first_disk or comment or here != count:
        raise MirrorInvalid("its end record is not one of a Mirror")
    if not 1 <= count <= MAX_ENTRIES + 1:
        raise MirrorInvalid(f"it has {count} entries, and a Mirror at most {MAX_ENTRIES + 1}")
    if length > count * (_CENTRAL.size + _LONGEST_NAME) or start + length + _END.size != size:
        raise MirrorInvalid("its directory is not where its end record says")
    file.seek(start)
    directory = _exactly(file, length)
    members = place(list(_listed(directory, count)))
    # Every offset is then within the file.
    follows_on = members[-1].data_offset + members[-1].size == start
    if not follows_on or ending(members) != directory + end:
        raise MirrorInvalid("it is not stored as Mirrors are: uncompressed, one file after another, nothing between")
    return members


def check_header(file: BinaryIO, member: Member) -> None:
    """Leave ``file`` at the first byte of ``member``, whose own header is as the directory says."""
    file.seek(member.offset)
    if _exactly(file, len(member.header)) != member.header:
        raise MirrorInvalid("its header is not as the directory says", entry=member.name)


def _listed(directory: bytes, count: int) -> Iterator[tuple[str, int, int]]:
    at = 0
    for _ in range(count):
        if at + _CENTRAL.size > len(directory):
            raise MirrorInvalid("its directory is cut off")
        fields = _CENTRAL.unpack_from(directory, at)
        crc, size, name_length = fields[9], fields[11], fields[12]
        at += _CENTRAL.size
        raw = directory[at : at + name_length]
        # What follows the name, if anything does, is told by the comparison of the whole.
        at += name_length + fields[13] + fields[14]
        try:
            yield raw.decode(), size, crc
        except UnicodeDecodeError:
            raise MirrorInvalid("a name is no UTF-8") from None


def _exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise MirrorInvalid("it changed while it was read", entry=MANIFEST)
    return data
