"""What strangers put into archives: all of it is refused, soon and within little memory (K20, K21, FR-H7)."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
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
    def of_kind(mode: int) -> bytes:
        data = bytearray(SAMPLE)
        struct.pack_into("<L", data, data.rindex(b"PK\x01\x02") + 38, (mode | 0o644) << 16)
        return bytes(data)

    assert of_kind(stat.S_IFREG) == SAMPLE
    with pytest.raises(MirrorInvalid, match="not stored as Mirrors are"):
        zip_source(of_kind(kind))


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


#: What somebody does to a folder, and what is said of it.
FOLDERS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a link in place of a file": (_link, "steps.jsonl: it is a link"),
    "a link in place of a folder": (_linked_folder, "release: it is a link"),
    "a link that is one too many": (
        lambda place: (place / "release" / "x").symlink_to("/etc/passwd"),
        "release/x: it is a link",
    ),
    "a hard link": (
        lambda place: os.link(place / "steps.jsonl", place.parent / "elsewhere"),
        "a second name elsewhere",
    ),
    "a pipe": (lambda place: os.mkfifo(place / "release" / "pipe"), "no regular file"),
    "another file": (lambda place: (place / "notes.txt").write_text("x"), "notes.txt: the format has no such entry"),
    "another file in the Release": (
        lambda place: (place / "release" / "x.py").write_text("x"),
        "the manifest does not list it",
    ),
    "a hidden file": (lambda place: (place / ".DS_Store").write_text("x"), ".DS_Store: the format has no such entry"),
    "a name that is no text": (
        lambda place: Path(os.fsdecode(bytes(place / "release") + b"/\xff")).write_text("x"),
        "printable characters only",
    ),
    "no manifest": (lambda place: (place / "manifest.json").unlink(), "manifest.json: it is missing"),
    "an empty manifest": (lambda place: (place / "manifest.json").write_bytes(b""), "manifest.json: it is not JSON"),
    "files without end": (
        lambda place: [(place / "release" / f"{n}").write_text("") for n in range(520)],
        "more than 512 entries",
    ),
    "a file that is larger than all may be": (
        lambda place: os.truncate(place / "steps.jsonl", 10**12),
        "more bytes than are taken",
    ),
}


@pytest.mark.rule("K20", "K21", "FR-H7")
@pytest.mark.parametrize("what", FOLDERS)
def test_a_folder_that_holds_anything_else_is_refused(tmp_path: Path, what: str) -> None:
    place = folder(tmp_path)
    spoil, said = FOLDERS[what]
    spoil(place)
    with pytest.raises(MirrorInvalid, match=re.escape(said)), open_source(place, LIMITS) as source:
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
#: A file, and what is said of it.
HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "nothing": (lambda: b"", "no zip file"),
    "no zip": (lambda: os.urandom(5000), "no end record"),
    "no end record": (lambda: SAMPLE[:-22], "no end record"),
    "an end record alone": (lambda: _end_record(0, 0, 0), "0 entries"),
    "an end record that points nowhere": (lambda: _end_record(5, 100, 7), "not where its end record says"),
    "a comment": (lambda: SAMPLE[:-2] + b"\x05\0hello", "no end record"),
    "something before it": (lambda: b"#!/bin/sh\n" + SAMPLE, "not where its end record says"),
    "zeros, deflated": (deflated, "not stored as Mirrors are"),
    "zeros, listed again and again": (overlapping, "not stored as Mirrors are"),
    "a million entries": (million, "65535 entries"),
    "lying sizes": (lying, "not stored as Mirrors are"),
    "a zip in a zip": (nested_zip, "states.jsonl: its last line has no end"),
    "another file": (lambda: with_entries({"release/x.zip": SAMPLE}, listed=False), "the manifest does not list it"),
    "a manifest without end": (
        lambda: laid_out({"manifest.json": b"[" * 10_000_000}),
        "manifest.json: it is larger than",
    ),
    "a manifest of brackets": (lambda: laid_out({"manifest.json": b"[" * 500_000}), "manifest.json: it is not JSON"),
    "a line without end": (
        lambda: with_entries({"events.jsonl": b'{"a":"' + b"x" * 60_000_000}),
        "events.jsonl: a line is longer than",
    ),
    "brackets without end": (lambda: one_line(b"[" * 1_000_000), "run.jsonl line 1: it is not JSON"),
    "too many small objects": (lambda: one_line(SMALL_OBJECTS * 2), "run.jsonl: a line is longer than"),
    "Runs that are heavy each": (many_runs, "run.jsonl: it has one line"),
    "a number without end": (lambda: one_line(b"1" * 1_000_000), "a number that is too long"),
    "more values than it may have": (
        lambda: with_entries({"events.jsonl": b"[,,,,,,,,,,,,,,,,]\n" * 300_000}),
        "events.jsonl: it holds more than",
    ),
    "a Release that is too large": (lambda: with_entries({"release/x": b"\0" * 6_000_000}), "a Release holds at most"),
}


@pytest.mark.rule("K20", "K21", "M7")
def test_all_of_it_is_refused_within_ten_seconds_and_two_hundred_megabytes(tmp_path: Path) -> None:
    paths = {}
    for number, (name, (make, _)) in enumerate(HOSTILE.items()):
        paths[name] = tmp_path / f"{number}.zip"
        paths[name].write_bytes(make())
    sparse = tmp_path / "sparse.zip"
    sparse.write_bytes(SAMPLE)
    os.truncate(sparse, 10**12)
    others = {"a terabyte of nothing": sparse, "a device": Path("/dev/zero"), "not there": tmp_path / "none"}
    said = {name: words for name, (_, words) in HOSTILE.items()} | {
        "a terabyte of nothing": "more than the 134217728 that are taken",
        "a device": "neither a folder nor a zip file",
        "not there": "there is nothing called none",
    }
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
        assert code.startswith("MIRROR_INVALID") and said[name] in code, (name, code)
        assert str(tmp_path) not in code, (name, code)
        assert seconds < 10, (name, seconds)
        assert megabytes < 200, (name, megabytes)
        assert written_bytes <= 128 * 1024 * 1024, name
