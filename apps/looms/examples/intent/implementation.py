"""The third Stage, once for each round: the developer works in the folder, and Code sees what came of it."""

from pydantic import BaseModel

from loomsvc.authoring import CodeStep, StageContext

from .schemas import Built, File, Manifest, Request, Settings
from .workspace import opened, snapshot


class Building(BaseModel):
    """The folder as it was before the developer came."""

    #: The first is the implementation, the others are repairs.
    round: int = 1
    before: list[File] = []


def begin(context: StageContext[Request]) -> Building:
    return Building()


def prepare(step: CodeStep[Building, Request, Settings]) -> str:
    with opened(step.input.folder, step.settings.folders()) as folder:
        step.state = Building(round=step.visit, before=snapshot(folder))
    return "ready"


def file(step: CodeStep[Building, Request, Settings]) -> str:
    """File what is different now, by a look: a write may have outlived a crash that its receipt did not."""
    built: Built = step.previous
    with opened(step.input.folder, step.settings.folders()) as folder:
        now = snapshot(folder)
    before = {one.path: one.sha256 for one in step.state.before}
    manifest = Manifest(
        round=step.state.round,
        summary=built.summary,
        written=[one.path for one in now if before.get(one.path) != one.sha256],
        removed=sorted(before.keys() - {one.path for one in now}),
        files=now,
    )
    step.put_artifact(manifest)
    step.append_record(manifest, record_id=f"implementation-{step.run_id}-{manifest.round}")
    return "filed"
