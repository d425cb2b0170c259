"""Bundles: the same trace is the same bytes, and whatever is not as it was made is found (M1, M3, K22)."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mirror_samples import JSON, LIMITS, PATHS, entries_of, taken, traces, written, zip_source

from apps.core import json_text
from apps.core.errors import LoomError
from apps.mirrors.bundles import canonical, zipped
from apps.mirrors.bundles.lines import SHAPES, Entry, manifest_digest
from apps.mirrors.bundles.refusals import MirrorInvalid
from apps.mirrors.bundles.sources import open_source
from apps.mirrors.bundles.taking import take, verified
from apps.mirrors.bundles.writing import write_to_path


def wire_lines(bundle: Any) -> dict[str, list[dict[str, Any]]]:
    return {name: [line.to_wire() for line in bundle.lines(shape)] for name, shape in SHAPES.items()}


def zip_of(entries: dict[str, bytes]) -> bytes:
    """A zip laid out as ours are, with anything in it."""
    members = zipped.place([(name, len(data), zlib.crc32(data)) for name, data in entries.items()])
    body = b"".join(member.header + entries[member.name] for member in members)
    return body + zipped.ending(members)


def forged(entries: dict[str, bytes]) -> bytes:
    """Whoever changes an entry can write a manifest that agrees with it, digest and all."""
    manifest = json_text.parse(entries["manifest.json"])
    for entry in manifest["entries"]:
        data = entries.get(entry["path"], b"")
        entry.update(size=len(data), sha256=hashlib.sha256(data).hexdigest())
        if entry["lines"] is not None:
            entry["lines"] = data.count(b"\n")
            manifest["counts"][entry["path"].removesuffix(".jsonl")] = entry["lines"]
    manifest["digest"] = manifest_digest(manifest)
    return zip_of({**entries, "manifest.json": json_text.canonical(manifest)})


def with_line(data: bytes, name: str, /, **changes: Any) -> bytes:
    """A forged bundle in which members of the last line of a file are others."""
    entries = entries_of(data)
    *before, last = entries[name].splitlines()
    members = json_text.parse(last)
    for path, value in changes.items():
        at, *inner = path.split("__")
        if inner:
            members[at] = {**members[at], inner[0]: value}
        else:
            members[at] = value
    entries[name] = b"".join(line + b"\n" for line in [*before, json_text.canonical(members)])
    return forged(entries)


@pytest.mark.rule("M1")
@given(traces())
@settings(max_examples=40, deadline=None)
def test_any_trace_comes_back_as_it_was_and_the_same_again_is_the_same_bytes(made: Any) -> None:
    subject, lines, files = made
    data = written(made)
    assert data == written(made)
    bundle, content = taken(zip_source(data))
    assert wire_lines(bundle) == lines
    assert (content.files, content.run.run_id) == (files, subject.run_id)
    assert sum(entry.size for entry in bundle.manifest.entries) < len(data)


@pytest.mark.rule("M1")
def test_every_zip_tool_opens_it(tmp_path: Path) -> None:
    data = written()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == entries_of(data)
        assert archive.namelist()[0] == "manifest.json"


@pytest.mark.rule("M1", "M6")
def test_a_folder_and_a_zip_are_one_bundle(tmp_path: Path) -> None:
    data = written()
    bundle, _ = taken(zip_source(data))
    write_to_path(bundle, io.BytesIO(data), tmp_path / "folder")
    write_to_path(bundle, io.BytesIO(data), tmp_path / "file.zip")
    assert (tmp_path / "file.zip").read_bytes() == data
    for path in (tmp_path / "folder", tmp_path / "file.zip"):
        with open_source(path, LIMITS) as source:
            again, _ = taken(source)
        assert again.manifest == bundle.manifest


SAMPLE = written()


@pytest.mark.rule("M3", "M7", "K22")
@given(st.integers(0, len(SAMPLE) - 1), st.integers(1, 255))
@settings(max_examples=200, deadline=None)
def test_any_flipped_byte_of_a_zip_is_found(place: int, flip: int) -> None:
    data = bytearray(SAMPLE)
    data[place] ^= flip
    with pytest.raises(MirrorInvalid):
        taken(zip_source(bytes(data)))


@pytest.mark.rule("M3", "M7", "K22")
@given(st.data())
@settings(max_examples=200, deadline=None)
def test_any_dropped_added_or_moved_byte_is_found(data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(SAMPLE) - 2))
    how = data.draw(st.sampled_from(["drop", "add", "swap", "cut", "append"]))
    changed = {
        "drop": SAMPLE[:place] + SAMPLE[place + 1 :],
        "add": SAMPLE[:place] + b"x" + SAMPLE[place:],
        "swap": SAMPLE[:place] + SAMPLE[place + 1 : place + 2] + SAMPLE[place : place + 1] + SAMPLE[place + 2 :],
        "cut": SAMPLE[:place],
        "append": SAMPLE + SAMPLE[:place] + b"\0",
    }[how]
    if changed != SAMPLE:
        with pytest.raises(MirrorInvalid):
            taken(zip_source(changed))


@pytest.mark.rule("M3", "M7", "K22")
@given(st.data())
@settings(max_examples=100, deadline=None)
def test_any_dropped_added_renamed_or_reordered_member_is_found(data: st.DataObject) -> None:
    entries = entries_of(SAMPLE)
    names = list(entries)
    one, other = data.draw(st.permutations(names))[:2]
    how = data.draw(st.sampled_from(["drop", "add", "rename", "reorder", "exchange"]))
    if how == "drop":
        del entries[one]
    elif how == "add":
        entries["release/" + data.draw(PATHS)] = data.draw(st.binary(max_size=10))
    elif how == "rename":
        entries = {(name + "x" if name == one else name): content for name, content in entries.items()}
    elif how == "reorder":
        order = data.draw(st.permutations(names).filter(lambda found: found != names))
        entries = {name: entries[name] for name in order}
    else:
        entries[one], entries[other] = entries[other], entries[one]
    if entries != entries_of(SAMPLE) or list(entries) != names:
        with pytest.raises(MirrorInvalid):
            taken(zip_source(zip_of(entries)))


OTHER = "f" * 64
FORGERIES = {
    "another version": lambda: forged_manifest(version=2),
    "an older version": lambda: forged_manifest(version=0),
    "version true": lambda: forged_manifest(version=True),
    "another format": lambda: forged_manifest(format="tar"),
    "another boundary": lambda: forged_manifest(boundary=2),
    "another trace": lambda: forged_manifest(traceId="00000000-0000-0000-0000-000000000009"),
    "other counts": lambda: forged_manifest(counts={}),
    "an unknown member": lambda: forged_manifest(extra=1),
    "one event less": lambda: forged_manifest(eventSeq=2),
    "an Artifact of another digest": lambda: with_line(SAMPLE, "artifacts.jsonl", data={"forged": 1}),
    "an Artifact with a digest that nobody depends on": lambda: with_line(
        SAMPLE, "artifacts.jsonl", data=1, digest=json_text.digest(1)
    ),
    "a Record of another digest": lambda: with_line(SAMPLE, "records.jsonl", data={"forged": 1}),
    "a State of another digest": lambda: with_line(SAMPLE, "states.jsonl", data={"forged": 1}),
    "a State that is not there": lambda: with_line(
        SAMPLE, "steps.jsonl", stateId="00000000-0000-0000-0000-000000000077"
    ),
    "a Run at another boundary": lambda: with_line(SAMPLE, "run.jsonl", held__boundary=7),
    "a boundary without outcome": lambda: with_line(SAMPLE, "run.jsonl", held__outcome=None),
    "an unknown member of a line": lambda: with_line(SAMPLE, "run.jsonl", token="x"),
    "an event too far": lambda: with_line(SAMPLE, "events.jsonl", seq=9),
    "a call of nobody": lambda: with_line(SAMPLE, "tool-receipts.jsonl", callId="00000000-0000-0000-0000-000000000077"),
    "a Release of another name": lambda: with_line(SAMPLE, "release.jsonl", loomName="other"),
    "a Release that requires something else": lambda: with_line(SAMPLE, "release.jsonl", requires={"x": "1"}),
    "another file in the Release": lambda: forged({**entries_of(SAMPLE), "release/steps.py": b"import os"}),
    "no end of the last line": lambda: forged(
        {**entries_of(SAMPLE), "events.jsonl": entries_of(SAMPLE)["events.jsonl"][:-1]}
    ),
    "an empty line": lambda: forged({**entries_of(SAMPLE), "actions.jsonl": b"\n"}),
    "a line twice": lambda: forged({**entries_of(SAMPLE), "records.jsonl": entries_of(SAMPLE)["records.jsonl"] * 2}),
    "lines in another order": lambda: forged(
        {**entries_of(SAMPLE), "events.jsonl": b"".join(reversed(entries_of(SAMPLE)["events.jsonl"].splitlines(True)))}
    ),
    "spaces in a line": lambda: forged(
        {**entries_of(SAMPLE), "release.jsonl": entries_of(SAMPLE)["release.jsonl"].replace(b":", b": ", 1)}
    ),
    "no UTF-8": lambda: forged({**entries_of(SAMPLE), "events.jsonl": b'{"\xff":1}\n'}),
    "a number beyond 2^53": lambda: with_input(b"9007199254740993"),
    "a number that overflows": lambda: with_input(b"1e999"),
    "NaN": lambda: with_input(b"NaN"),
    "a NUL character": lambda: with_input(b'"\\u0000"'),
    "half a character": lambda: with_input(b'"\\ud800"'),
    "a member twice": lambda: with_input(b'{"n":1,"n":1}'),
    "nested without end": lambda: with_input(b"[" * 99 + b"]" * 99),
    "a time that is none": lambda: with_line(SAMPLE, "run.jsonl", createdAt="2026-02-30T12:00:00.000000Z"),
    "an id in capitals": lambda: with_line(SAMPLE, "run.jsonl", runId="0000000A-0000-0000-0000-000000000002"),
}


def with_input(text: bytes) -> bytes:
    """A forged bundle in which the Run's input is this text."""
    entries = entries_of(SAMPLE)
    return forged({**entries, "run.jsonl": entries["run.jsonl"].replace(b'{"n":1}', text)})


def forged_manifest(**changes: Any) -> bytes:
    entries = entries_of(SAMPLE)
    manifest = {**json_text.parse(entries["manifest.json"]), **changes}
    manifest["digest"] = manifest_digest(manifest)
    return zip_of({**entries, "manifest.json": json_text.canonical(manifest)})


@pytest.mark.rule("M3", "M7", "K22")
@pytest.mark.parametrize("name", FORGERIES)
def test_what_a_forger_makes_with_hashes_that_agree_is_found_too(name: str) -> None:
    with pytest.raises(MirrorInvalid) as refused:
        taken(zip_source(FORGERIES[name]()))
    assert refused.value.code == "MIRROR_INVALID"


def with_listed(change: Callable[[list[dict[str, Any]]], None]) -> bytes:
    """A forged bundle whose manifest lists its entries otherwise, each standing where it is listed."""
    entries = entries_of(SAMPLE)
    manifest = json_text.parse(entries["manifest.json"])
    change(manifest["entries"])
    manifest["digest"] = manifest_digest(manifest)
    names = [entry["path"] for entry in manifest["entries"]]
    return zip_of({"manifest.json": json_text.canonical(manifest), **{name: entries[name] for name in names}})


def _count_lines(listed: list[dict[str, Any]], path: str, lines: int | None) -> None:
    next(entry for entry in listed if entry["path"] == path)["lines"] = lines


@pytest.mark.rule("M1", "M7", "K22")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda listed: listed.reverse(), "not in the order of their names"),
        (lambda listed: _count_lines(listed, "events.jsonl", None), "events.jsonl: the manifest counts lines in JSON"),
        (lambda listed: _count_lines(listed, "release/steps.py", 1), "steps.py: the manifest counts lines in JSON"),
    ],
    ids=["another order", "lines not counted", "lines of what has none"],
)
def test_a_manifest_lists_its_entries_in_one_way_only(
    change: Callable[[list[dict[str, Any]]], None], said: str
) -> None:
    assert with_listed(lambda _: None) == SAMPLE
    with pytest.raises(MirrorInvalid, match=said):
        taken(zip_source(with_listed(change)))


@pytest.mark.rule("K21", "M7")
def test_no_more_is_read_of_an_entry_that_grows_than_its_manifest_says() -> None:
    read: list[int] = []

    def growing() -> Iterator[bytes]:
        for number in range(100):
            read.append(number)
            yield b"x" * 10

    entry = Entry(path="release/x", size=25, sha256=hashlib.sha256(b"x" * 25).hexdigest(), lines=None)
    kept: list[bytes] = []
    with pytest.raises(MirrorInvalid, match="not those that the manifest names"):
        kept.extend(verified(entry, growing()))
    assert (len(read), len(kept)) == (3, 2)


@given(st.dictionaries(st.sampled_from(["aa", "data", "digest", "zz"]), JSON).filter(lambda found: "data" in found))
def test_a_members_digest_is_taken_from_the_text_as_it_stands(members: dict[str, Any]) -> None:
    text = json_text.canonical(members)
    assert canonical.member_digest(text, members, "data") == json_text.digest(members["data"])


def test_the_forger_is_good_at_it() -> None:
    assert forged(entries_of(SAMPLE)) == SAMPLE


@pytest.mark.rule("M7")
def test_a_newer_format_is_refused_saying_so() -> None:
    with pytest.raises(MirrorInvalid, match="newer loomsvc"):
        taken(zip_source(forged_manifest(version=2)))


@pytest.mark.rule("M7", "K22")
@pytest.mark.parametrize("added", ["more", "release/more", "release/more/and/more"])
def test_a_folder_with_a_folder_of_nothing_is_refused(tmp_path: Path, added: str) -> None:
    folder = tmp_path / "folder"
    write_to_path(taken(zip_source(SAMPLE))[0], io.BytesIO(SAMPLE), folder)
    with open_source(folder, LIMITS) as source:
        take(source, io.BytesIO())
    (folder / added).mkdir(parents=True)
    with pytest.raises(MirrorInvalid), open_source(folder, LIMITS):
        pass


@pytest.mark.rule("M7")
@pytest.mark.parametrize("name", ["steps.jsonl", "release/steps.py", "manifest.json"])
def test_a_folder_that_changes_while_it_is_read_is_found(tmp_path: Path, name: str) -> None:
    bundle, _ = taken(zip_source(SAMPLE))
    folder = tmp_path / "folder"
    write_to_path(bundle, io.BytesIO(SAMPLE), folder)

    def change(_: int) -> None:
        """The first bytes are being copied: what is read later is other than what was listed."""
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[:-2] + b"~\n")

    out = io.BytesIO()
    with open_source(folder, LIMITS) as source:
        if name == "manifest.json":
            # It was read by then: what it said then is what was taken.
            assert take(source, out, progress=change) == bundle.manifest
        else:
            with pytest.raises(MirrorInvalid):
                take(source, out, progress=change)


@pytest.mark.rule("M7")
def test_a_file_that_is_exchanged_for_a_link_while_it_is_read_is_found(tmp_path: Path) -> None:
    bundle, _ = taken(zip_source(SAMPLE))
    folder, secret = tmp_path / "folder", tmp_path / "secret"
    write_to_path(bundle, io.BytesIO(SAMPLE), folder)
    secret.write_bytes((folder / "steps.jsonl").read_bytes())

    def change(_: int) -> None:
        (folder / "steps.jsonl").unlink(missing_ok=True)
        (folder / "steps.jsonl").symlink_to(secret)

    with open_source(folder, LIMITS) as source, pytest.raises(MirrorInvalid, match="link"):
        take(source, io.BytesIO(), progress=change)


@pytest.mark.rule("FR-H7", "K20")
@pytest.mark.parametrize("name", ["there", "there.zip"])
def test_nothing_is_written_where_something_is_or_through_a_link(tmp_path: Path, name: str) -> None:
    bundle, _ = taken(zip_source(SAMPLE))
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "kept").write_text("kept")
    target = tmp_path / name
    target.symlink_to(victim)
    with pytest.raises(LoomError) as refused:
        write_to_path(bundle, io.BytesIO(SAMPLE), target)
    assert refused.value.code == "CONFLICT"
    target.unlink()
    target.write_text("mine")
    with pytest.raises(LoomError) as refused:
        write_to_path(bundle, io.BytesIO(SAMPLE), target)
    assert refused.value.code == "CONFLICT"
    assert target.read_text() == "mine"
    assert os.listdir(victim) == ["kept"]
    assert sorted(os.listdir(tmp_path)) == sorted([name, "victim"])
