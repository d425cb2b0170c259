"""A second reader of Mirrors, made from ``docs/reference/mirror-format.md`` alone: it shares no code with the service.

``python mirror_reader.py FOLDER|FILE.zip [--project ID]`` reads and verifies one; exit code 1 when it is damaged.
Standard library only, so that it can be copied to wherever a Mirror is.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import re
import stat
import struct
import sys
import unicodedata
import uuid
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

MANIFEST = "manifest.json"
RELEASE = "release/"
CHUNK = 64 * 1024
SAFE = 2**53 - 1
#: Levels of a line, itself the first.
DEEPEST = 71
MOST_FILES, MOST_RELEASE_BYTES, LONGEST_PATH = 500, 5 * 1024 * 1024, 200


class Damaged(Exception):
    """What is wrong, and in which entry."""

    def __init__(self, entry: str, problem: str) -> None:
        super().__init__(f"{entry}: {problem}")


# -- canonical JSON (RFC 8785) ---------------------------------------------------------------


def canonical(value: Any) -> bytes:
    """The one text of ``value``."""
    return _text(value).encode("utf-8")


def digest(value: Any) -> str:
    return hashlib.sha256(canonical(value)).hexdigest()


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    members = sorted(value.items(), key=lambda member: member[0].encode("utf-16-be"))
    return "{" + ",".join(f"{_string(name)}:{_text(one)}" for name, one in members) + "}"


_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _string(text: str) -> str:
    return '"' + re.sub(r'["\\\x00-\x1f]', lambda one: _SHORT.get(one[0], f"\\u{ord(one[0]):04x}"), text) + '"'


def _number(number: float) -> str:
    """As ECMAScript writes it: Python finds the same shortest digits, and places the point otherwise."""
    if number == 0:
        return "0"
    sign, number = ("-", -number) if number < 0 else ("", number)
    mantissa, _, exponent = f"{number!r}".partition("e")
    whole, _, part = mantissa.partition(".")
    digits = (whole + part).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + part) - len(digits))
    digits = digits.rstrip("0")
    if 0 < point <= 21:
        if len(digits) <= point:
            return sign + digits + "0" * (point - len(digits))
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{point - 1:+d}"


def _integer(digits: str) -> int | float:
    if len(digits) > 400:
        raise ValueError("a number of more than 400 digits")
    number = int(digits)
    return number if abs(number) <= SAFE else float(number)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a member stands there twice")
    return found


def parse(text: bytes, entry: str) -> Any:
    """The value of one canonical text."""
    try:
        value = json.loads(text.decode("utf-8"), object_pairs_hook=_members, parse_int=_integer)
        _check_bounds(value)
        again = canonical(value)
    except (ValueError, OverflowError, RecursionError) as error:
        raise Damaged(entry, f"no JSON as the format has it: {error}") from None
    if again != text:
        raise Damaged(entry, "JSON that is not canonical")
    return value


def _check_bounds(value: Any) -> None:
    left = [(value, 1)]
    while left:
        one, depth = left.pop()
        if isinstance(one, str) and "\x00" in one:
            raise ValueError("a NUL in a text")
        if isinstance(one, float) and (one != one or one in (float("inf"), float("-inf"))):
            raise ValueError("a number that is none")
        if isinstance(one, dict | list):
            if depth > DEEPEST:
                raise ValueError("nested too deeply")
            left += [(name, depth + 1) for name in one] if isinstance(one, dict) else []
            left += [(inner, depth + 1) for inner in (one.values() if isinstance(one, dict) else one)]


# -- the two containers ----------------------------------------------------------------------


class Folder:
    """A Mirror in a folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.paths = sorted(self._walk(path, ""))

    def _walk(self, folder: Path, above: str) -> Iterator[str]:
        empty = True
        for one in os.scandir(folder):
            empty = False
            name = above + one.name
            about = one.stat(follow_symlinks=False)
            if stat.S_ISDIR(about.st_mode):
                yield from self._walk(Path(one.path), f"{name}/")
            elif stat.S_ISREG(about.st_mode) and about.st_nlink == 1:
                yield name
            else:
                raise Damaged(name, "neither a folder nor a plain file with one name")
        if empty and above:
            raise Damaged(above, "an empty folder")

    def size(self, path: str) -> int:
        return (self._path / path).stat().st_size

    def open(self, path: str) -> IO[bytes]:
        return (self._path / path).open("rb")

    def check(self, in_order: list[str]) -> None:
        if self.paths != sorted([MANIFEST, *in_order]):
            odd = set(self.paths).symmetric_difference([MANIFEST, *in_order])
            raise Damaged(min(odd), "only the manifest, or only the folder, has it")

    def close(self) -> None:
        pass


_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_CENTRAL = struct.Struct("<4sHHHHHHIIIHHHHHII")
_END = struct.Struct("<4sHHHHIIH")


class Zip:
    """A Mirror in a ``.zip``, whose layout is compared byte by byte."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._end = self._file.seek(0, io.SEEK_END)
        self._places: dict[str, tuple[int, int, int, int]] = {}
        self.paths: list[str] = []
        at = 0
        while self._at(at, 4) == b"PK\x03\x04":
            at = self._local(at)
        self._directory_at = at

    def _at(self, place: int, size: int) -> bytes:
        self._file.seek(place)
        return self._file.read(size)

    def _local(self, at: int) -> int:
        header = self._at(at, _LOCAL.size)
        if len(header) < _LOCAL.size:
            raise Damaged("the zip", "it ends within a header")
        _, _, _, _, _, _, crc, size, _, name_size, _ = _LOCAL.unpack(header)
        raw = self._at(at + _LOCAL.size, name_size)
        if header != _LOCAL.pack(b"PK\x03\x04", 20, 0x0800, 0, 0, 0x0021, crc, size, size, name_size, 0):
            raise Damaged("the zip", f"a header at byte {at} that is not laid out as the format has it")
        try:
            name = raw.decode("utf-8")
        except UnicodeDecodeError:
            raise Damaged("the zip", f"a name at byte {at} that is no UTF-8") from None
        begins = at + _LOCAL.size + name_size
        if name in self._places or begins + size > self._end:
            raise Damaged(name, "there twice, or longer than the zip")
        self._places[name] = (at, begins, size, crc)
        self.paths.append(name)
        return begins + size

    def size(self, path: str) -> int:
        return self._places[path][2]

    def open(self, path: str) -> IO[bytes]:
        return io.BufferedReader(_Part(self._file, *self._places[path][1:3]))

    def check(self, in_order: list[str]) -> None:
        if self.paths != [MANIFEST, *in_order]:
            raise Damaged("the zip", "its entries are not those of the manifest, in that order")
        directory = b"".join(self._central(name) for name in self.paths)
        number = len(self.paths)
        end = _END.pack(b"PK\x05\x06", 0, 0, number, number, len(directory), self._directory_at, 0)
        if self._at(self._directory_at, len(directory) + _END.size + 1) != directory + end:
            raise Damaged("the zip", "its directory is not laid out as the format has it")
        for name in self.paths:
            crc = 0
            with self.open(name) as content:
                while chunk := content.read(CHUNK):
                    crc = zlib.crc32(chunk, crc)
            if crc != self._places[name][3]:
                raise Damaged(name, "its CRC-32 is another")

    def _central(self, name: str) -> bytes:
        at, _, size, crc = self._places[name]
        raw = name.encode("utf-8")
        made_by, attributes = 3 << 8 | 20, 0x81A40000
        return (
            _CENTRAL.pack(
                b"PK\x01\x02", made_by, 20, 0x0800, 0, 0, 0x0021, crc, size, size, len(raw), 0, 0, 0, 0, attributes, at
            )
            + raw
        )

    def close(self) -> None:
        self._file.close()


class _Part(io.RawIOBase):
    """A part of a file."""

    def __init__(self, file: IO[bytes], begins: int, size: int) -> None:
        self._file, self._at, self._left = file, begins, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._file.seek(self._at)
        chunk = self._file.read(min(len(buffer), self._left))
        buffer[: len(chunk)] = chunk
        self._at, self._left = self._at + len(chunk), self._left - len(chunk)
        return len(chunk)


# -- shapes ----------------------------------------------------------------------------------

Check = Callable[[Any], bool]
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)


def is_id(value: Any) -> bool:
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def is_digest(value: Any) -> bool:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def is_time(value: Any) -> bool:
    return isinstance(value, str) and _TIME.fullmatch(value) is not None


def is_name(value: Any) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= 64 and value.isprintable()


def is_result_id(value: Any) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= 200 and value.isprintable()


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def anything(value: Any) -> bool:
    return True


def maybe(check: Check) -> Check:
    return lambda value: value is None or check(value)


def each(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(check(one) for one in value)


def one_of(*texts: str) -> Check:
    return lambda value: value in texts


def values(check: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(check(one) for one in value.values())


def shape(**members: Check) -> Check:
    """An object with exactly these members."""
    return lambda value: (
        isinstance(value, dict) and value.keys() == members.keys() and all(members[n](v) for n, v in value.items())
    )


STEP = {"stage": is_name, "step": is_name, "visit": is_number}
PLACE = {"loomName": is_name, "stageName": is_name}
DEPENDENCY = shape(artifactId=is_result_id, **PLACE, revision=is_number, digest=is_digest, removed=is_flag)
HELD = shape(
    boundary=is_number,
    **STEP,
    outcome=maybe(is_text),
    result=anything,
    visits=values(is_number),
    stateId=maybe(is_id),
    dependencies=each(DEPENDENCY),
    artifactIds=each(is_result_id),
    recordIds=each(is_result_id),
    reachedAt=is_time,
)
LINES: dict[str, Check] = {
    "actions.jsonl": shape(
        actionId=is_id, kind=is_text, request=anything, onlyPerson=is_flag, answer=anything, answeredBy=anything,
        createdAt=is_time, answeredAt=maybe(is_time),
    ),
    "agent-calls.jsonl": shape(
        callId=is_id, agentId=is_text, **STEP, openedSeq=is_number, closedSeq=maybe(is_number), openedAt=is_time,
        claimedBy=maybe(is_text), claimedAt=maybe(is_time), closedAt=maybe(is_time), closedAs=maybe(is_text),
        result=anything,
    ),
    "artifacts.jsonl": shape(
        artifactId=is_result_id, **PLACE, revision=is_number, removed=is_flag, digest=is_digest, data=anything,
        runId=is_id, createdAt=is_time,
    ),
    "events.jsonl": shape(seq=is_number, type=is_text, at=is_time, data=anything),
    "log.jsonl": shape(
        stepSeq=maybe(is_number), eventSeq=maybe(is_number), number=is_number, level=is_text, message=is_text
    ),
    "operations.jsonl": shape(
        operationId=is_id, serviceInstanceId=is_id, kind=is_text, parametersDigest=is_digest, entry=is_text,
        source=is_text, principal=is_text, revision=is_number, createdAt=is_time, decidedAt=maybe(is_time),
    ),
    "records.jsonl": shape(
        recordId=is_result_id, **PLACE, digest=is_digest, data=anything, runId=is_id, createdAt=is_time
    ),
    "release.jsonl": shape(digest=is_digest, loomName=is_name, requires=values(is_text)),
    "run.jsonl": shape(
        runId=is_id, traceId=is_id, loomName=is_name, releaseDigest=is_digest, exclusive=is_flag, input=anything,
        execution=shape(source=is_text, agentExecutor=is_text, profile=maybe(is_text)),
        origin=maybe(shape(operationId=is_id, serviceInstanceId=is_id)),
        restoredFrom=maybe(shape(mirrorId=maybe(is_id), runId=is_id, boundary=is_number)),
        createdAt=is_time, held=HELD,
    ),
    "states.jsonl": shape(stateId=is_id, stage=is_name, digest=is_digest, data=anything, createdAt=is_time),
    "steps.jsonl": shape(
        stepSeq=is_number, **STEP, kind=one_of("initialize", "step", "continuation"), segment=is_number,
        attempt=is_number, status=is_text, outcome=maybe(is_text), error=anything, stateId=maybe(is_id),
        boundary=maybe(is_number), result=anything, eventSeq=maybe(is_number), reads=each(anything),
        writes=each(anything), queuedAt=maybe(is_time), startedAt=maybe(is_time), endedAt=is_time,
    ),
    "tool-receipts.jsonl": shape(
        callId=is_id, toolCallId=is_text, toolId=is_text, status=is_text, input=anything, output=anything,
        error=anything, startedSeq=is_number, settledSeq=is_number, startedAt=is_time, settledAt=is_time,
    ),
}  # fmt: skip
#: What the lines of a file are ordered by; a file of one line needs none.
KEYS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "actions.jsonl": lambda line: line["actionId"],
    "agent-calls.jsonl": lambda line: line["openedSeq"],
    "artifacts.jsonl": lambda line: [line["loomName"], line["stageName"], line["revision"], line["artifactId"]],
    "events.jsonl": lambda line: line["seq"],
    "log.jsonl": lambda line: [line["eventSeq"] or 0, line["stepSeq"] or 0, line["number"]],
    "operations.jsonl": lambda line: line["revision"],
    "records.jsonl": lambda line: line["recordId"],
    "states.jsonl": lambda line: line["stateId"],
    "steps.jsonl": lambda line: line["stepSeq"],
    "tool-receipts.jsonl": lambda line: line["settledSeq"],
}
ENTRY = shape(path=is_text, size=is_number, sha256=is_digest, lines=maybe(is_number))
IN_MANIFEST = shape(
    format=one_of("loomsvc-mirror"), version=lambda value: value == 1, traceId=is_id, runId=is_id, loomName=is_name,
    releaseDigest=is_digest, boundary=is_number, eventSeq=is_number, counts=values(is_number), entries=each(ENTRY),
    digest=is_digest,
)  # fmt: skip


# -- reading and verifying -------------------------------------------------------------------


@dataclass(frozen=True)
class Mirror:
    """A Mirror that holds what it says: its manifest, and its lines by entry, each read when it is asked for."""

    manifest: dict[str, Any]
    _source: Folder | Zip

    def lines(self, entry: str) -> Iterator[dict[str, Any]]:
        return read_lines(self._source, entry)

    def release_file(self, path: str) -> bytes:
        """The bytes of a file of the Release."""
        with self._source.open(RELEASE + path) as file:
            return file.read()

    def mirror_id(self, project_id: str) -> str:
        """What a Project that holds it calls it."""
        return str(uuid.uuid5(uuid.UUID(project_id), self.manifest["digest"]))


@contextlib.contextmanager
def open_mirror(path: Path) -> Iterator[Mirror]:
    """Verify the Mirror in a folder or ``.zip`` and give it; :class:`Damaged` says what is wrong."""
    if not path.exists():
        raise Damaged(str(path), "not there")
    source: Folder | Zip = Folder(path) if path.is_dir() else Zip(path)
    try:
        manifest = _manifest(source)
        _check_bytes(source, manifest)
        _check_lines(source, manifest)
        yield Mirror(manifest, source)
    finally:
        source.close()


def _manifest(source: Folder | Zip) -> dict[str, Any]:
    if MANIFEST not in source.paths:
        raise Damaged(MANIFEST, "not there: this is no Mirror")
    with source.open(MANIFEST) as file:
        manifest = parse(file.read(), MANIFEST)
    if isinstance(manifest, dict) and manifest.get("format") == "loomsvc-mirror" and manifest.get("version") != 1:
        raise Damaged(MANIFEST, f"version {manifest.get('version')} of the format; this reads version 1")
    if not IN_MANIFEST(manifest):
        raise Damaged(MANIFEST, "not of the form that the format has")
    if digest({name: value for name, value in manifest.items() if name != "digest"}) != manifest["digest"]:
        raise Damaged(MANIFEST, "its digest is another")
    paths = [entry["path"] for entry in manifest["entries"]]
    if sorted(set(paths)) != paths:
        raise Damaged(MANIFEST, "its entries are not in order, or one stands there twice")
    release = [entry for entry in manifest["entries"] if entry["path"].startswith(RELEASE)]
    others = {entry["path"] for entry in manifest["entries"]} - {entry["path"] for entry in release}
    if others != LINES.keys():
        raise Damaged(MANIFEST, "its entries are not those of the format")
    for entry in manifest["entries"]:
        if (entry["lines"] is None) != (entry in release):
            raise Damaged(MANIFEST, f"{entry['path']} has lines where it should have none, or none where it should")
    _check_release_paths([entry["path"].removeprefix(RELEASE) for entry in release])
    if len(release) > MOST_FILES or sum(entry["size"] for entry in release) > MOST_RELEASE_BYTES:
        raise Damaged(MANIFEST, "more files in the Release than the format has")
    counts = {path.removesuffix(".jsonl"): 0 for path in LINES} | {"release-files": len(release)}
    counts |= {e["path"].removesuffix(".jsonl"): e["lines"] for e in manifest["entries"] if e["lines"] is not None}
    if manifest["counts"] != counts:
        raise Damaged(MANIFEST, "its counts are not those of its entries")
    return manifest


def _check_release_paths(paths: list[str]) -> None:
    folded: set[str] = set()
    for path in paths:
        parts = path.split("/")
        odd = (
            not 1 <= len(path) <= LONGEST_PATH
            or not path.isprintable()
            or unicodedata.normalize("NFC", path) != path
            or any(part in ("", ".", "..") for part in parts)
            or "\\" in path
            or re.match(r"[A-Za-z]:", path) is not None
        )
        if odd or path.casefold() in folded:
            raise Damaged(RELEASE + path, "a name that the format does not have")
        folded.add(path.casefold())
    folders = {"/".join(path.split("/")[:depth]) for path in folded for depth in range(1, path.count("/") + 1)}
    if both := folders & folded:
        raise Damaged(RELEASE + min(both), "both a file and a folder")


def _check_bytes(source: Folder | Zip, manifest: dict[str, Any]) -> None:
    source.check([entry["path"] for entry in manifest["entries"]])
    for entry in manifest["entries"]:
        if source.size(entry["path"]) != entry["size"]:
            raise Damaged(entry["path"], "its size is another")
        found = hashlib.sha256()
        with source.open(entry["path"]) as file:
            while chunk := file.read(CHUNK):
                found.update(chunk)
        if found.hexdigest() != entry["sha256"]:
            raise Damaged(entry["path"], "its bytes are others")


def read_lines(source: Folder | Zip, entry: str) -> Iterator[dict[str, Any]]:
    """The lines of an entry, each of its shape and in the order of its key."""
    before: Any = None
    with source.open(entry) as file:
        for number, text in enumerate(file, start=1):
            place = f"{entry}:{number}"
            if not text.endswith(b"\n"):
                raise Damaged(place, "no line feed at its end")
            line = parse(text[:-1], place)
            if not LINES[entry](line):
                raise Damaged(place, "not of the shape that the format has")
            if entry in KEYS:
                key = KEYS[entry](line)
                if before is not None and not before < key:
                    raise Damaged(place, "not after the line before")
                before = key
            yield line


def _only_line(source: Folder | Zip, entry: str) -> dict[str, Any]:
    lines = list(read_lines(source, entry))
    if len(lines) != 1:
        raise Damaged(entry, f"{len(lines)} lines; the format has one")
    return lines[0]


def _require(holds: bool, entry: str, problem: str) -> None:
    if not holds:
        raise Damaged(entry, problem)


def _check_lines(source: Folder | Zip, manifest: dict[str, Any]) -> None:
    run, release = _only_line(source, "run.jsonl"), _only_line(source, "release.jsonl")
    held = run["held"]
    for name in ("traceId", "runId", "loomName", "releaseDigest"):
        _require(run[name] == manifest[name], "run.jsonl", f"its {name} is not the manifest's")
    _require(held["boundary"] == manifest["boundary"], "run.jsonl", "its boundary is not the manifest's")
    _require((held["outcome"] is None) == (held["boundary"] == 0), "run.jsonl", "an outcome, and no Step completed")
    files = {
        entry["path"].removeprefix(RELEASE): entry["sha256"]
        for entry in manifest["entries"]
        if entry["path"].startswith(RELEASE)
    }
    _require(
        release["digest"] == run["releaseDigest"] == digest({"files": files, "requires": release["requires"]}),
        "release.jsonl",
        "the Release has another digest",
    )
    _require(release["loomName"] == run["loomName"], "release.jsonl", "the Release of another Loom")
    states = _with_digests(source, "states.jsonl", lambda line: line["stateId"])
    artifacts = _with_digests(source, "artifacts.jsonl", _revision)
    _with_digests(source, "records.jsonl", lambda line: line["recordId"])
    _require(held["stateId"] is None or held["stateId"] in states, "run.jsonl", "its State is not there")
    ids = [one["artifactId"] for one in held["dependencies"]]
    _require(len(set(ids)) == len(ids), "run.jsonl", "two dependencies on one Artifact")
    for one in held["dependencies"]:
        found = artifacts.get(_revision(one))
        same = found == (one["artifactId"], one["digest"], one["removed"])
        _require(same, "run.jsonl", f"the revision of {one['artifactId']} that it depends on is not there")
    _check_steps(source, run, states)
    last = 0
    for event in read_lines(source, "events.jsonl"):
        last += 1
        _require(event["seq"] == last, "events.jsonl", f"event {event['seq']} is number {last}")
    _require(last == manifest["eventSeq"], "events.jsonl", f"it ends at {last}, not at {manifest['eventSeq']}")
    calls = {line["callId"] for line in read_lines(source, "agent-calls.jsonl")}
    for receipt in read_lines(source, "tool-receipts.jsonl"):
        _require(receipt["callId"] in calls, "tool-receipts.jsonl", f"call {receipt['callId']} is not there")
    for entry in manifest["entries"]:
        if entry["lines"] is not None:
            number = sum(1 for _ in read_lines(source, entry["path"]))
            _require(number == entry["lines"], entry["path"], f"{number} lines, not {entry['lines']}")


def _revision(line: dict[str, Any]) -> tuple[Any, ...]:
    return line["loomName"], line["stageName"], line["revision"], line["artifactId"]


def _with_digests(source: Folder | Zip, entry: str, key_of: Callable[[Any], Any]) -> dict[Any, Any]:
    """What stands there, each with the digest of its data; of Artifacts also whose and whether removed."""
    found = {}
    for line in read_lines(source, entry):
        _require(digest(line["data"]) == line["digest"], entry, "a digest that is not that of the data beside it")
        if "removed" in line:
            _require(not line["removed"] or line["data"] is None, entry, "data of a removed Artifact")
        found[key_of(line)] = (line.get("artifactId"), line["digest"], line.get("removed"))
    return found


def _check_steps(source: Folder | Zip, run: dict[str, Any], states: dict[Any, Any]) -> None:
    last = None
    for last in read_lines(source, "steps.jsonl"):
        _require(last["stateId"] is None or last["stateId"] in states, "steps.jsonl", "a State that is not there")
    boundary = run["held"]["boundary"]
    if last is not None:
        _require(last["boundary"] == boundary, "steps.jsonl", "the last attempt did not make the boundary")
    else:
        begins = run["restoredFrom"]["boundary"] if run["restoredFrom"] else 0
        _require(boundary == begins, "steps.jsonl", "no attempt, and a boundary that is not where the Run began")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Read and verify a Mirror in a folder or a .zip.")
    parser.add_argument("path", type=Path)
    parser.add_argument("--project", help="the id of a Project: print what it calls the Mirror")
    options = parser.parse_args(arguments)
    try:
        with open_mirror(options.path) as mirror:
            manifest = mirror.manifest
            print(f"verified  {manifest['loomName']} Run {manifest['runId']} at boundary {manifest['boundary']}")
            for name, number in sorted(manifest["counts"].items()):
                print(f"{number:9} {name}")
            if options.project:
                print(f"mirrorId  {mirror.mirror_id(options.project)}")
    except (Damaged, OSError) as problem:
        print(f"damaged   {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
