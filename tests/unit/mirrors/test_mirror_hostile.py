"""What strangers put into archives: all of it is refused, soon and within little memory (K20, K21, FR-H7)."""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mirror_samples import LIMITS, entries_of, number_id, taken, written, zip_source

from apps.core import json_text
from apps.mirrors.bundles import zipped
from apps.mirrors.bundles.layout import path_problem
from apps.mirrors.bundles.lines import manifest_digest
from apps.mirrors.bundles.refusals import MirrorInvalid
from apps.mirrors.bundles.sources import open_source
from apps.mirrors.bundles.writing import write_to_path

SAMPLE = written()
ROOT = Path(__file__).parents[3]

BAD_NAMES = [
    "../x", "release/../../x", "/etc/passwd", "release//x", "release/./x", "C:/x", "release/C:/x", "..\\x",
    "release\\x", "release/a\0b", "release/a\nb", "release/\u202ex", "release/e\u0301", "release/", "", "release",
    "x.jsonl", "manifest.json/x", "release/" + "a" * 300, "RELEASE/x",
]  # fmt: skip


def with_entries(extra: dict[str, bytes], *, listed: bool = True) -> bytes:
    """A bundle with more files, whose manifest lists them all and whose hashes agree."""
    entries = {**entries_of(SAMPLE), **extra}
    manifest = json_text.parse(entries.pop("manifest.json"))
    if listed:
        known = {entry["path"]: entry["lines"] for entry in manifest["entries"]}
        manifest["entries"] = [
            {
                "path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest(),
                "lines": data.count(b"\n") if known.get(path) is not None else None,
            }
            for path, data in sorted(entries.items())
        ]  # fmt: skip
        for entry in manifest["entries"]:
            if entry["lines"] is not None:
                manifest["counts"][entry["path"].removesuffix(".jsonl")] = entry["lines"]
        manifest["counts"]["release-files"] = sum(1 for path in entries if path.startswith("release/"))
        manifest["digest"] = manifest_digest(manifest)
    return laid_out({"manifest.json": json_text.canonical(manifest), **dict(sorted(entries.items()))})


def laid_out(files: dict[str, bytes], *, miscounted: str = "") -> bytes:
    """A zip as ours are, with anything in it; the sum of one entry may be wrong."""
    members = zipped.place([(name, len(data), zlib.crc32(data) ^ (name == miscounted)) for name, data in files.items()])
    return b"".join(m.header + files[m.name] for m in members) + zipped.ending(members)


@pytest.mark.rule("K20")
@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_leads_astray_refuses_the_whole(name: str) -> None:
    assert path_problem(name) is not None
    with pytest.raises(MirrorInvalid):
        taken(zip_source(with_entries({name: b"x"})))


@pytest.mark.rule("K20")
@pytest.mark.parametrize(
    "names", [("release/a.py", "release/A.py"), ("release/a", "release/a/b"), ("release/ß", "release/SS")]
)
def test_names_that_are_one_on_another_system_refuse_the_whole(names: tuple[str, str]) -> None:
    with pytest.raises(MirrorInvalid, match=r"twice|a file and a folder"):
        taken(zip_source(with_entries(dict.fromkeys(names, b"x"))))


@pytest.mark.rule("K22")
@pytest.mark.parametrize("name", entries_of(SAMPLE))
def test_a_file_that_other_tools_would_take_for_damaged_is_refused(name: str) -> None:
    with pytest.raises(MirrorInvalid, match="not those that its directory counts"):
        taken(zip_source(laid_out(entries_of(SAMPLE), miscounted=name)))
    assert laid_out(entries_of(SAMPLE)) == SAMPLE


@pytest.mark.rule("K20")
@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO, stat.S_IFDIR])
def test_an_entry_that_is_no_regular_file_refuses_the_whole(kind: int) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in entries_of(SAMPLE).items():
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.create_system, info.external_attr = 3, (kind | 0o644) << 16
            archive.writestr(info, data)
    with pytest.raises(MirrorInvalid):
        zip_source(out.getvalue())


def folder(tmp_path: Path) -> Path:
    bundle, _ = taken(zip_source(SAMPLE))
    write_to_path(bundle, io.BytesIO(SAMPLE), tmp_path / "folder")
    return tmp_path / "folder"


def _link(place: Path) -> None:
    (place.parent / "elsewhere").write_bytes((place / "steps.jsonl").read_bytes())
    (place / "steps.jsonl").unlink()
    (place / "steps.jsonl").symlink_to(place.parent / "elsewhere")


def _linked_folder(place: Path) -> None:
    (place / "release").rename(place.parent / "elsewhere")
    (place / "release").symlink_to(place.parent / "elsewhere")


FOLDERS: dict[str, Callable[[Path], Any]] = {
    "a link in place of a file": _link,
    "a link in place of a folder": _linked_folder,
    "a link that is one too many": lambda place: (place / "release" / "x").symlink_to("/etc/passwd"),
    "a hard link": lambda place: os.link(place / "steps.jsonl", place.parent / "elsewhere"),
    "a pipe": lambda place: os.mkfifo(place / "release" / "pipe"),
    "another file": lambda place: (place / "notes.txt").write_text("x"),
    "another file in the Release": lambda place: (place / "release" / "x.py").write_text("x"),
    "a hidden file": lambda place: (place / ".DS_Store").write_text("x"),
    "a name that is no text": lambda place: Path(os.fsdecode(bytes(place / "release") + b"/\xff")).write_text("x"),
    "no manifest": lambda place: (place / "manifest.json").unlink(),
    "an empty manifest": lambda place: (place / "manifest.json").write_bytes(b""),
    "files without end": lambda place: [(place / "release" / f"{n}").write_text("") for n in range(520)],
    "a file that is larger than all may be": lambda place: os.truncate(place / "steps.jsonl", 10**12),
}


@pytest.mark.rule("K20", "K21", "FR-H7")
@pytest.mark.parametrize("what", FOLDERS)
def test_a_folder_that_holds_anything_else_is_refused(tmp_path: Path, what: str) -> None:
    place = folder(tmp_path)
    FOLDERS[what](place)
    with pytest.raises(MirrorInvalid), open_source(place, LIMITS) as source:
        taken(source)


def _end_record(count: int, length: int, start: int) -> bytes:
    return struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, length, start, 0)


def overlapping() -> bytes:
    """Ten megabytes of zeros, deflated, and a directory that lists them a thousand times."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("release/zeros", b"\0" * 10_000_000)
    data = out.getvalue()
    start = struct.unpack("<L", data[-6:-2])[0]
    directory = data[start:-22] * 500
    return data[:start] + directory + _end_record(500, len(directory), start)


def deflated() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries_of(SAMPLE).items():
            archive.writestr(name, data)
        archive.writestr("release/zeros", b"\0" * 10_000_000)
    return out.getvalue()


def million() -> bytes:
    record = struct.pack("<4s4B4H3L5H2L", b"PK\x01\x02", *[0] * 11, 1, *[0] * 6) + b"x"
    return record * 1_000_000 + _end_record(0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF)


def lying() -> bytes:
    """The directory says that an entry has two gigabytes."""
    data = bytearray(SAMPLE)
    at = data.rindex(b"PK\x01\x02")
    data[at + 20 : at + 28] = struct.pack("<2L", 2**31 - 1, 2**31 - 1)
    return bytes(data)


def one_line(value: bytes) -> bytes:
    entries = entries_of(SAMPLE)
    return with_entries({"run.jsonl": entries["run.jsonl"].replace(b'{"n":1}', value)})


def many_runs() -> bytes:
    """Each line is as large in memory as one may be, and all of them are in order."""
    line = entries_of(SAMPLE)["run.jsonl"].replace(b'{"n":1}', SMALL_OBJECTS)
    ids = [number_id(number).encode() for number in range(2, 8)]
    return with_entries({"run.jsonl": b"".join(line.replace(b'"runId":"' + ids[0], b'"runId":"' + one) for one in ids)})


def nested_zip() -> bytes:
    return with_entries({"states.jsonl": SAMPLE})


SMALL_OBJECTS = b'[{"":1}' + b',{"":1}' * 290_000 + b"]"
HOSTILE: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "no zip": lambda: os.urandom(5000),
    "no end record": lambda: SAMPLE[:-22],
    "an end record alone": lambda: _end_record(0, 0, 0),
    "an end record that points nowhere": lambda: _end_record(5, 100, 7),
    "a comment": lambda: SAMPLE[:-2] + b"\x05\0hello",
    "something before it": lambda: b"#!/bin/sh\n" + SAMPLE,
    "zeros, deflated": deflated,
    "zeros, listed again and again": overlapping,
    "a million entries": million,
    "lying sizes": lying,
    "a zip in a zip": nested_zip,
    "another file": lambda: with_entries({"release/x.zip": SAMPLE}, listed=False),
    "a manifest without end": lambda: laid_out({"manifest.json": b"[" * 10_000_000}),
    "a manifest of brackets": lambda: laid_out({"manifest.json": b"[" * 500_000}),
    "a line without end": lambda: with_entries({"events.jsonl": b'{"a":"' + b"x" * 60_000_000}),
    "brackets without end": lambda: one_line(b"[" * 1_000_000),
    "too many small objects": lambda: one_line(SMALL_OBJECTS * 2),
    "Runs that are heavy each": many_runs,
    "a number without end": lambda: one_line(b"1" * 1_000_000),
    "more values than it may have": lambda: with_entries({"events.jsonl": b"[,,,,,,,,,,,,,,,,]\n" * 300_000}),
    "a Release that is too large": lambda: with_entries({"release/x": b"\0" * 6_000_000}),
}


@pytest.mark.rule("K20", "K21", "M7")
def test_all_of_it_is_refused_within_ten_seconds_and_two_hundred_megabytes(tmp_path: Path) -> None:
    paths = {}
    for number, (name, make) in enumerate(HOSTILE.items()):
        paths[name] = tmp_path / f"{number}.zip"
        paths[name].write_bytes(make())
    sparse = tmp_path / "sparse.zip"
    sparse.write_bytes(SAMPLE)
    os.truncate(sparse, 10**12)
    others = {"a terabyte of nothing": sparse, "a device": Path("/dev/zero"), "not there": tmp_path / "none"}
    whole, heavy = tmp_path / "whole.zip", tmp_path / "heavy.zip"
    whole.write_bytes(SAMPLE)
    heavy.write_bytes(one_line(SMALL_OBJECTS))
    asked = {**paths, **others, "whole": whole, "heavy": heavy}
    told = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("take_in.py")), *map(str, asked.values())],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=100,
    )
    assert told.returncode == 0, told.stderr
    came = dict(zip(asked, map(json.loads, told.stdout.splitlines()), strict=True))
    assert came["heavy"][3] < 200, "the most that a line may cost"
    assert [came.pop(name)[1] for name in ("whole", "heavy")] == ["taken", "taken"], "and what is good passes"
    for name, (_, code, seconds, megabytes, written_bytes) in came.items():
        assert code.startswith("MIRROR_INVALID"), (name, code)
        assert str(tmp_path) not in code, (name, code)
        assert seconds < 10, (name, seconds)
        assert megabytes < 200, (name, megabytes)
        assert written_bytes <= 128 * 1024 * 1024, name
