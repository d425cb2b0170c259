"""The Loom Endpoints (contract section 11)."""

from __future__ import annotations

from apps.core.caller import Caller
from apps.core.contracts import Empty
from apps.core.endpoints import Endpoint, Kind, Route, register
from apps.core.errors import not_found
from apps.looms.contracts import (
    DiagnosticView,
    LoomGraphRequest,
    LoomGraphView,
    LoomList,
    LoomSummary,
    StageSummary,
    StepSummary,
)
from apps.looms.domain.graph import LoomGraph
from apps.looms.domain.graph_json import graph_json, kind_of
from apps.looms.pictures import mermaid
from apps.looms.services import catalog
from apps.looms.services.releases import ReleaseUnavailable


def _stages(graph: LoomGraph) -> list[StageSummary]:
    return [
        StageSummary(
            name=stage.name,
            steps=[
                StepSummary(name=step.name, kind="code" if kind_of(step) == "code" else "agent", outcomes=list(step.on))
                for step in stage.steps.values()
            ],
        )
        for stage in graph.stages.values()
    ]


def summary(entry: catalog.CatalogEntry) -> LoomSummary:
    """A Loom as ``list_looms`` shows it."""
    loom = entry.loom
    diagnostics = [DiagnosticView.model_validate(one.to_wire()) for one in entry.diagnostics]
    return LoomSummary(
        loom_name=entry.name,
        title=loom.graph.title if loom else entry.name,
        description=loom.graph.description if loom else "",
        status="ready" if entry.status is catalog.LoomStatus.READY else "invalid",
        release_digest=loom.digest if loom else None,
        exclusive=loom.graph.exclusive if loom else False,
        input_schema=loom.input_schema() if loom else None,
        stages=_stages(loom.graph) if loom else [],
        diagnostics=diagnostics or None,
    )


def list_looms(caller: Caller, request: Empty) -> LoomList:
    """Every Loom, ready or not."""
    return LoomList(looms=[summary(entry) for entry in catalog.entries()])


def loom_graph(caller: Caller, request: LoomGraphRequest) -> LoomGraphView:
    """The graph of the newest loaded Release; ``NOT_FOUND``, or ``RELEASE_UNAVAILABLE`` when none ever loaded."""
    entry = catalog.current(request.loom_name)
    if entry is None:
        raise not_found("Loom", request.loom_name)
    if entry.loom is None:
        raise ReleaseUnavailable(f"No Release of {entry.name} has been loaded; list_looms says what is wrong.")
    return LoomGraphView(
        loom_name=entry.name,
        release_digest=entry.loom.digest,
        mermaid=mermaid(entry.loom.graph),
        graph=graph_json(entry.loom.graph),
    )


def register_endpoints() -> None:
    """Make them known to every face; called once, when Django starts."""
    register(
        Endpoint(
            name="list_looms",
            title="List Looms",
            description=(
                "The workflows that can be run: name, what each is for, the JSON Schema of its input, its Stages, and "
                "whether it is ready. An invalid one cannot be run; its diagnostics say what to correct. A null "
                "inputSchema takes any JSON but blank text."
            ),
            input=Empty,
            output=LoomList,
            handler=list_looms,
            kind=Kind.READ,
            route=Route("GET", "/looms"),
        )
    )
    register(
        Endpoint(
            name="loom_graph",
            title="Loom graph",
            description="The graph of a Loom's newest Release, as Mermaid text and as JSON.",
            input=LoomGraphRequest,
            output=LoomGraphView,
            handler=loom_graph,
            kind=Kind.READ,
            route=Route("GET", "/looms/{loomName}/graph"),
            tool=False,
        )
    )
