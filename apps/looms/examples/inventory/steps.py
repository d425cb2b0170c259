"""The Steps of Inventory."""

from loomsvc.authoring import CodeStep, StageContext

from .scanning import allowed_folder, hash_file, list_folder
from .schemas import Duplicates, File, Findings, Request, Settings, Survey

#: Files and bytes that are hashed at one visit.
SLICE_FILES = 500
SLICE_BYTES = 500_000_000
#: Entries of each list in the report.
SHOWN = 100


def begin(context: StageContext[Request, Settings]) -> Survey:
    """Refuse a folder that is not allowed before anything is looked at."""
    allowed_folder(context.input.folder, context.settings.folders())
    return Survey()


def list_files(step: CodeStep[Survey, Request, Settings]) -> str:
    folder = allowed_folder(step.input.folder, step.settings.folders())
    files, skipped = list_folder(folder, include_hidden=step.input.include_hidden)
    step.log.info("%d files, %d skipped", len(files), skipped)
    step.state = Survey(files=files, skipped=skipped)
    return "listed" if files else "empty"


def hash_slice(step: CodeStep[Survey, Request, Settings]) -> str:
    folder = allowed_folder(step.input.folder, step.settings.folders())
    files = list(step.state.files)
    position, budget = step.state.hashed, SLICE_BYTES
    end = min(len(files), position + SLICE_FILES)
    while position < end and budget > 0:
        file = files[position]
        files[position] = file.model_copy(update={"sha256": hash_file(folder, file.path, step.cancelled)})
        budget -= file.size
        position += 1
    step.update(files=files, hashed=position)
    return "hashed" if position == len(files) else "more"


def hand_over(step: CodeStep[Survey, Request, Settings]) -> str:
    """Stages share no State: the survey travels as a Record of this Run."""
    step.append_record(step.state, record_id=f"survey-{step.run_id}")
    return "surveyed"


def begin_report(context: StageContext[Request]) -> Findings:
    return Findings()


def find(step: CodeStep[Findings, Request]) -> str:
    record = step.records.get(f"survey-{step.run_id}")
    if record is None:
        raise LookupError("The survey of this Run is not there.")
    survey = Survey.model_validate(record.data)
    readable = [file for file in survey.files if file.sha256 is not None]
    duplicates = _duplicates(readable)
    large = sorted((file for file in readable if file.size >= step.input.large_bytes), key=lambda f: (-f.size, f.path))
    step.state = Findings(
        files=len(readable),
        bytes=sum(file.size for file in readable),
        skipped=survey.skipped + len(survey.files) - len(readable),
        wasted_bytes=sum(group.size * (len(group.paths) - 1) for group in duplicates),
        duplicates=duplicates[:SHOWN],
        large=large[:SHOWN],
    )
    return "found"


def _duplicates(files: list[File]) -> list[Duplicates]:
    """Groups of the same content, the most wasteful first; empty files do not count."""
    groups: dict[str, list[File]] = {}
    for file in files:
        if file.size and file.sha256:
            groups.setdefault(file.sha256, []).append(file)
    found = [
        Duplicates(sha256=digest, size=group[0].size, paths=[file.path for file in group][:SHOWN])
        for digest, group in groups.items()
        if len(group) > 1
    ]
    return sorted(found, key=lambda group: (-group.size * (len(group.paths) - 1), group.sha256))


def file_report(step: CodeStep[Findings, Request]) -> str:
    step.put_artifact(step.state)
    summary = step.state.model_dump(include={"version", "files", "bytes", "skipped", "wasted_bytes"})
    step.append_record(summary, record_id=f"inventory-{step.run_id}")
    return "filed"
