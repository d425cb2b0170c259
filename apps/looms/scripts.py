"""Scripts for ``loom_test``: a YAML file that plays a Run and says what must come of it."""

from __future__ import annotations

import datetime as dt
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from apps.looms.checking.operator_settings import variable
from apps.looms.checking.yaml_tree import read_yaml
from apps.looms.diagnostics import Diagnostic, did_you_mean, errors_in
from apps.looms.memory_results import MemoryResults
from apps.looms.testing import LoomInvalid, load_folder, run_loom
from apps.looms.trial import START, AgentPlay, LoomRun, StepTrace, ToolUse

#: In `input` and `settings`: the fresh folder that holds the script's `files`.
FILES = "{files}"


def _inside(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts:
        raise ValueError("name a file inside the folder")
    return path


def _moment(text: Any) -> dt.datetime:
    try:
        when = dt.datetime.fromisoformat(text)
    except (TypeError, ValueError):
        when = None
    if when is None or when.utcoffset() is None:
        raise ValueError("write a time with its zone, such as 2026-03-01T08:00:00Z")
    return when.astimezone(dt.UTC)


class _Shape(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class CallShape(_Shape):
    """One Tool call; with ``output`` or ``error`` it must end so."""

    tool: str
    input: dict[str, Any] = {}
    output: Any = None
    error: str | None = None


class PlayShape(_Shape):
    """What an agent does in one visit."""

    calls: list[CallShape] = []
    output: dict[str, Any]


class ResultShape(_Shape):
    """An Artifact or Record; as an expectation, ``data`` names the members that matter."""

    stage: str
    loom: str | None = None
    id: str | None = None
    data: Any = None


class GivenShape(_Shape):
    """Results that are there before the Run."""

    artifacts: list[ResultShape] = []
    records: list[ResultShape] = []


class ErrorShape(_Shape):
    """How the Run must fail; ``message`` is a part of the message."""

    code: str
    message: str = ""


class ExpectShape(_Shape):
    """What must come of the Run; what is left out is not looked at."""

    outcome: str | None = None
    error: ErrorShape | None = None
    steps: list[str] | None = None
    state: dict[str, Any] | None = None
    artifacts: list[ResultShape] = []
    records: list[ResultShape] = []


class ScriptShape(_Shape):
    """A whole script."""

    description: str | None = None
    input: Any = None
    settings: dict[str, str] = {}
    now: Annotated[dt.datetime, BeforeValidator(_moment)] = START
    random_seed: int = 0
    files: dict[Annotated[str, AfterValidator(_inside)], str] = {}
    given: GivenShape = GivenShape()
    agents: dict[str, list[PlayShape]] = {}
    answers: list[Any] = []
    expect: ExpectShape = Field(default_factory=ExpectShape)


@dataclass(frozen=True)
class Played:
    """A script that was played: the Run, and what is not as expected (nothing: it passed)."""

    run: LoomRun
    mismatches: tuple[str, ...]


def read_script(text: str, file: str) -> tuple[ScriptShape | None, list[Diagnostic]]:
    """The script, or what is wrong with the file."""
    document, problems = read_yaml(text, file)
    if document is None or problems:
        return None, problems
    try:
        return ScriptShape.model_validate(document.value), []
    except ValidationError as error:
        found: list[Diagnostic] = []
        for detail in error.errors(include_url=False):
            location = detail["loc"]
            place = ".".join(str(part) for part in location) or "the script"
            message, hint = f"`{place}`: {_plain(detail['msg'])}.", None
            if detail["type"] == "extra_forbidden":
                keys = _shape_at(location).model_fields
                message, hint = f"`{place}` is no key of a script.", did_you_mean(str(location[-1]), keys)
            elif detail["type"] == "missing":
                message, hint = f"`{place}` is missing.", f"Add `{location[-1]}:`."
            found.append(Diagnostic.error(file, document.line(location), message, hint))
        return None, found


def _plain(message: str) -> str:
    message = message.removeprefix("Value error, ")
    return message[0].lower() + message[1:]


def _shape_at(location: tuple[int | str, ...]) -> type[_Shape]:
    """The shape that has the key at ``location``."""
    match location[:-1]:
        case ("agents", _, _, "calls", _):
            return CallShape
        case ("agents", _, _):
            return PlayShape
        case (_, "artifacts" | "records", _):
            return ResultShape
        case ("expect", "error"):
            return ErrorShape
        case ("given",):
            return GivenShape
        case ("expect",):
            return ExpectShape
    return ScriptShape


def play_script(
    folder: Path,
    script: ScriptShape,
    *,
    until: str | None = None,
    on_step: Callable[[StepTrace], None] | None = None,
    on_exception: Callable[[BaseException], None] | None = None,
) -> Played:
    """Run the Loom in ``folder`` as the script has it.  Raises what :func:`run_loom` raises."""
    with tempfile.TemporaryDirectory(prefix="loomsvc-files-") as made:
        files = Path(made).resolve()
        for path, content in script.files.items():
            (files / path).parent.mkdir(parents=True, exist_ok=True)
            (files / path).write_text(content, encoding="utf-8")
        # The name is needed for the settings' variables, so the Loom is read twice if there are any.
        name = load_folder(folder).name
        settings = {variable(name, key): filled(value, files) for key, value in script.settings.items()}
        checked = load_folder(folder, {**os.environ, **settings})
        if checked.loom is None:
            raise LoomInvalid(errors_in(checked.diagnostics))
        run = run_loom(
            checked.loom,
            filled(script.input, files),
            answers=script.answers,
            agents={step: [_play(play) for play in plays] for step, plays in script.agents.items()},
            results=_given(script.given, name),
            until=until,
            now=script.now,
            random_seed=script.random_seed,
            on_step=on_step,
            on_exception=on_exception,
        )
    expected = ExpectShape() if until else script.expect
    return Played(run, tuple(_mismatches(expected, run)))


def filled(value: Any, files: Path) -> Any:
    """``value`` with the folder of the script's files put where it names it."""
    if isinstance(value, str):
        return value.replace(FILES, str(files))
    if isinstance(value, dict):
        return {key: filled(child, files) for key, child in value.items()}
    return [filled(child, files) for child in value] if isinstance(value, list) else value


def _play(play: PlayShape) -> AgentPlay:
    uses = []
    for one in play.calls:
        expected = one.output if "output" in one.model_fields_set else ...
        uses.append(ToolUse(one.tool, one.input, expected, one.error))
    return AgentPlay(play.output, uses)


def _given(given: GivenShape, loom: str) -> MemoryResults:
    results = MemoryResults()
    for number, one in enumerate(given.artifacts, start=1):
        key = one.id or f"given-{number}"
        results.give_artifact(key, one.loom or loom, one.stage, one.data)
    for number, one in enumerate(given.records, start=1):
        key = one.id or f"given-{number}"
        results.give_record(key, one.loom or loom, one.stage, one.data)
    return results


def _mismatches(expect: ExpectShape, run: LoomRun) -> Iterator[str]:
    if run.problem is not None:
        stood = f"failed in {run.problem.place} with {run.problem.code}: {run.problem.message}"
    else:
        stood = f"ended with {run.outcome!r}" if run.outcome else f"is {run.status}"
    if expect.outcome is not None and run.outcome != expect.outcome:
        yield f"outcome: expected {expect.outcome!r}, the Run {stood}"
    if expect.error is not None:
        wanted = expect.error
        if not run.problem or run.problem.code != wanted.code or wanted.message not in run.problem.message:
            yield f"error: expected {wanted.code} {wanted.message!r}, the Run {stood}"
    elif run.problem is not None and expect.outcome is None:
        yield f"the Run {stood}"
    if expect.steps is not None and expect.steps != run.path():
        yield f"steps: expected {', '.join(expect.steps)}; they were {', '.join(run.path())}"
    if expect.state is not None:
        yield from _differences(expect.state, run.state, "state")
    for kind, listed, found in (
        ("artifacts", expect.artifacts, list(run.results.artifacts.values())),
        ("records", expect.records, list(run.results.records.values())),
    ):
        for index, result in enumerate(listed):
            yield from _missing(result, found, run.loom.name, f"{kind}.{index}")


def _missing(wanted: ResultShape, found: list[Any], loom: str, place: str) -> Iterator[str]:
    """Nothing if some result is as wanted; else how the nearest differs."""
    here = [one for one in found if (one.loom_name, one.stage_name) == (wanted.loom or loom, wanted.stage)]
    if wanted.id is not None:
        here = [
            one for one in here if wanted.id in (getattr(one, "artifact_id", None), getattr(one, "record_id", None))
        ]
    differences = [list(_differences(wanted.data, one.data, place)) for one in here] if wanted.data is not None else []
    if not here:
        yield f"{place}: there is none of Stage {wanted.stage}"
    elif differences:
        yield from min(differences, key=len)


def _differences(wanted: Any, found: Any, place: str) -> Iterator[str]:
    """Mappings may have more members than wanted; everything else must be equal."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        for key, value in wanted.items():
            if key in found:
                yield from _differences(value, found[key], f"{place}.{key}")
            else:
                yield f"{place}.{key}: expected {value!r}, there is none"
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for index, (one, other) in enumerate(zip(wanted, found, strict=True)):
            yield from _differences(one, other, f"{place}.{index}")
    elif wanted != found or isinstance(wanted, bool) is not isinstance(found, bool):
        yield f"{place}: expected {wanted!r}, it is {found!r}"
