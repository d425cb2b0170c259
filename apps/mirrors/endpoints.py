"""Mirrors as every face has them (M2–M6)."""

from __future__ import annotations

from apps.core import clock
from apps.core.caller import Caller
from apps.core.endpoints import Endpoint, Kind, Route, register
from apps.mirrors import contracts
from apps.mirrors.selectors import mirrors
from apps.mirrors.services import exporting, inspecting, keeping, restoring
from apps.mirrors.services.planning import Target
from apps.runs.selectors.runs import get_run


def _list(caller: Caller, query: contracts.ListMirrors) -> contracts.MirrorList:
    return mirrors.list_mirrors(projects=mirrors.projects_of(caller), query=query)


def _inspect(caller: Caller, request: contracts.InspectMirror) -> contracts.MirrorInspection:
    projects = mirrors.projects_of(caller)
    mirror = mirrors.find_mirror(projects=projects, mirror_id=request.mirror_id)
    return contracts.MirrorInspection(
        mirror=mirrors.view_of(mirror, projects[mirror.project_id]),
        manifest=mirror.manifest,
        verification=inspecting.verify(mirror.digest),
    )


def _export(caller: Caller, request: contracts.ExportMirror) -> contracts.MirrorExported:
    target = mirrors.target_project(mirrors.projects_of(caller), request.target_project)
    held = exporting.find_boundary(project_id=caller.project_id, trace_id=request.trace_id)
    mirror = exporting.export_mirror(caller=caller, held=held, project_id=target, now=clock.now())
    return contracts.MirrorExported(mirror=mirrors.view_of(mirror, request.target_project))


def _restore(caller: Caller, request: contracts.RestoreMirror) -> contracts.MirrorRestored:
    projects = mirrors.projects_of(caller)
    mirror = mirrors.find_mirror(projects=projects, mirror_id=request.mirror_id)
    project_id = mirrors.target_project(projects, request.target_project)
    target = Target(mirror.mirror_id, project_id, request.scope)
    with keeping.taken_from_storage(mirror.digest) as found:
        done = restoring.restore_mirror(
            caller=caller, target=target, found=found, dry_run=request.dry_run, now=clock.now()
        )
    run = None if done.run_id is None else get_run(project_id=project_id, run_id=str(done.run_id))
    return contracts.MirrorRestored(plan=done.plan, applied=done.applied, run=run)


LIST = register(
    Endpoint(
        name="mirror_list",
        title="List Mirrors",
        description=(
            "Mirrors, newest first: each holds one Run's whole trace up to a boundary and can be restored anywhere. "
            "You see those of your Project and of the Projects that you may write Mirrors into."
        ),
        input=contracts.ListMirrors,
        output=contracts.MirrorList,
        handler=_list,
        kind=Kind.READ,
        route=Route("GET", "/mirrors"),
    )
)
INSPECT = register(
    Endpoint(
        name="mirror_inspect",
        title="Inspect a Mirror",
        description=(
            "A Mirror with its manifest, and whether it is whole: every digest is computed anew. `damaged` names what "
            "is wrong; such a Mirror cannot be restored."
        ),
        input=contracts.InspectMirror,
        output=contracts.MirrorInspection,
        handler=_inspect,
        kind=Kind.READ,
        route=Route("GET", "/mirrors/{mirrorId}"),
        long_running=True,
    )
)
EXPORT = register(
    Endpoint(
        name="mirror_export",
        title="Export a Mirror",
        description=(
            "Mirror the newest Run of a trace (`traceId` of a Run) at its latest boundary into `targetProject`. The "
            "Run goes on undisturbed, and the same content again is the same Mirror."
        ),
        input=contracts.ExportMirror,
        output=contracts.MirrorExported,
        handler=_export,
        kind=Kind.IDEMPOTENT,
        route=Route("POST", "/mirrors"),
        long_running=True,
    )
)
RESTORE = register(
    Endpoint(
        name="mirror_restore",
        title="Restore a Mirror",
        description=(
            "Restore Artifacts, Records, the Run, or all of a Mirror into `targetProject`, whole or not at all. `plan` "
            "says what becomes of each thing; with a `conflict`, or with `dryRun`, nothing is written and `applied` is "
            "false. The Run is a new one of the same trace, paused at the Mirror's boundary: go on with `resume_run`. "
            "A Release that came in a Mirror runs once an operator trusts it. Repeating a restore changes nothing."
        ),
        input=contracts.RestoreMirror,
        output=contracts.MirrorRestored,
        handler=_restore,
        kind=Kind.IDEMPOTENT,
        route=Route("POST", "/mirrors/{mirrorId}/restore"),
        destructive=True,
        long_running=True,
    )
)
