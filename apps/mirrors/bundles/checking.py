"""Whether a bundle hangs together: what files say of each other, and every value against its digest (M3, K22)."""

from __future__ import annotations

from dataclasses import dataclass, field

from apps.looms.packages import digest_of
from apps.mirrors.bundles.layout import LINE_FILES, RELEASE_FOLDER
from apps.mirrors.bundles.lines import (
    ActionLine,
    AgentCallLine,
    ArtifactLine,
    EventLine,
    LogLine,
    OperationLine,
    RecordLine,
    ReleaseLine,
    RunLine,
    StateLine,
    StepLine,
    ToolReceiptLine,
)
from apps.mirrors.bundles.reading import Bundle
from apps.mirrors.bundles.refusals import MirrorInvalid
from apps.mirrors.bundles.taking import Progress, no_progress


@dataclass(frozen=True, slots=True)
class Content:
    """What a whole bundle is about."""

    run: RunLine
    release: ReleaseLine
    files: dict[str, bytes] = field(repr=False)


def check_content(bundle: Bundle, *, progress: Progress = no_progress) -> Content:
    """Read everything and raise :class:`MirrorInvalid` at the first thing that does not fit the rest."""
    _check_counts(bundle)
    bundle.check_marks()
    run = bundle.only_line(RunLine)
    _same(run, bundle)
    release, files = _check_release(bundle)
    states = _check_states(bundle, progress)
    _check_steps(bundle, run, states, progress)
    _check_events(bundle, progress)
    _check_results(bundle, run, progress)
    _check_calls(bundle, progress)
    for shape in (ActionLine, LogLine, OperationLine):
        for _ in bundle.lines(shape, progress=progress):
            pass
    return Content(run, release, files)


def _check_counts(bundle: Bundle) -> None:
    lines = {
        entry.path.removesuffix(".jsonl"): entry.lines for entry in bundle.manifest.entries if entry.lines is not None
    }
    files = sum(1 for entry in bundle.manifest.entries if entry.path.startswith(RELEASE_FOLDER))
    if bundle.manifest.counts != {**lines, "release-files": files}:
        raise MirrorInvalid("its counts are not those of its entries", entry="manifest.json")
    assert len(lines) == len(LINE_FILES)


def _same(run: RunLine, bundle: Bundle) -> None:
    manifest = bundle.manifest
    pairs = {
        "traceId": (run.trace_id, manifest.trace_id),
        "runId": (run.run_id, manifest.run_id),
        "loomName": (run.loom_name, manifest.loom_name),
        "releaseDigest": (run.release_digest, manifest.release_digest),
        "boundary": (run.held.boundary, manifest.boundary),
    }
    for name, (here, there) in pairs.items():
        if here != there:
            raise MirrorInvalid(f"its {name} is not the manifest's", entry="run.jsonl")
    if (run.held.outcome is None) != (run.held.boundary == 0):
        raise MirrorInvalid("boundary 0 has no outcome, and every other one has", entry="run.jsonl")


def _check_release(bundle: Bundle) -> tuple[ReleaseLine, dict[str, bytes]]:
    release, files = bundle.only_line(ReleaseLine), bundle.release_files()
    if (release.digest, release.loom_name) != (bundle.manifest.release_digest, bundle.manifest.loom_name):
        raise MirrorInvalid("it is not the Release of the manifest", entry="release.jsonl")
    if digest_of(files, release.requires) != release.digest:
        raise MirrorInvalid("the files are not those of the Release's digest", entry=RELEASE_FOLDER)
    return release, files


def _check_states(bundle: Bundle, progress: Progress) -> set[str]:
    found: set[str] = set()
    for state, digest in bundle.valued_lines(StateLine, progress=progress):
        if digest != state.digest:
            raise MirrorInvalid(f"State {state.state_id} is not the one of its digest", entry="states.jsonl")
        found.add(state.state_id)
    return found


def _check_steps(bundle: Bundle, run: RunLine, states: set[str], progress: Progress) -> None:
    used = {run.held.state_id}
    last: StepLine | None = None
    for last in bundle.lines(StepLine, progress=progress):
        used.add(last.state_id)
    if missing := used - states - {None}:
        raise MirrorInvalid(f"State {missing.pop()} is missing", entry="states.jsonl")
    began_at = run.restored_from.boundary if run.restored_from else 0
    if (began_at if last is None else last.boundary) != run.held.boundary:
        raise MirrorInvalid("its last line is not the attempt that made the boundary", entry="steps.jsonl")


def _check_events(bundle: Bundle, progress: Progress) -> None:
    number = 0
    for number, event in enumerate(bundle.lines(EventLine, progress=progress), start=1):
        if event.seq != number:
            raise MirrorInvalid(f"event {number} is missing", entry="events.jsonl")
    if number != bundle.manifest.event_seq:
        raise MirrorInvalid("it does not end with the event that made the boundary", entry="events.jsonl")


def _check_results(bundle: Bundle, run: RunLine, progress: Progress) -> None:
    wanted = {(one.loom_name, one.stage_name, one.revision, one.artifact_id) for one in run.held.dependencies}
    kept: dict[tuple[str, str, int, str], tuple[str, bool]] = {}
    for artifact, digest in bundle.valued_lines(ArtifactLine, progress=progress):
        where = f"{artifact.loom_name}/{artifact.stage_name} revision {artifact.revision}"
        if digest != artifact.digest or (artifact.removed and artifact.data is not None):
            raise MirrorInvalid(f"{where} is not the one of its digest", entry="artifacts.jsonl")
        key = (artifact.loom_name, artifact.stage_name, artifact.revision, artifact.artifact_id)
        if key in wanted:
            kept[key] = (artifact.digest, artifact.removed)
    seen: set[str] = set()
    for one in run.held.dependencies:
        key = (one.loom_name, one.stage_name, one.revision, one.artifact_id)
        if kept.get(key) != (one.digest, one.removed):
            raise MirrorInvalid(f"what the Run last saw as {one.artifact_id} is missing", entry="artifacts.jsonl")
        seen.add(one.artifact_id)
    if len(seen) != len(run.held.dependencies):
        raise MirrorInvalid("an Artifact is named twice", entry="run.jsonl")
    for record, digest in bundle.valued_lines(RecordLine, progress=progress):
        if digest != record.digest:
            raise MirrorInvalid(f"Record {record.record_id} is not the one of its digest", entry="records.jsonl")


def _check_calls(bundle: Bundle, progress: Progress) -> None:
    calls = {call.call_id for call in bundle.lines(AgentCallLine, progress=progress)}
    for receipt in bundle.lines(ToolReceiptLine, progress=progress):
        if receipt.call_id not in calls:
            raise MirrorInvalid(f"there is no agent call {receipt.call_id}", entry="tool-receipts.jsonl")
