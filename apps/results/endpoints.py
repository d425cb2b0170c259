"""Reading results."""

from __future__ import annotations

from apps.core.caller import Caller
from apps.core.endpoints import Endpoint, Kind, Route, register
from apps.core.errors import Issue, invalid_request
from apps.results import contracts
from apps.results.selectors import results


def _get_artifact(caller: Caller, query: contracts.ArtifactQuery) -> contracts.ArtifactFound:
    by_place = query.loom_name is not None and query.stage_name is not None
    nothing_of_place = query.loom_name is None and query.stage_name is None
    if query.artifact_id is not None and nothing_of_place:
        found = results.artifact_by_id(project_id=caller.project_id, artifact_id=query.artifact_id)
    elif by_place and query.artifact_id is None:
        assert query.loom_name is not None and query.stage_name is not None
        found = results.artifact_at(
            project_id=caller.project_id, loom_name=query.loom_name, stage_name=query.stage_name
        )
    else:
        hint = "Give `artifactId` alone, or both `loomName` and `stageName`."
        raise invalid_request("ArtifactQuery", [Issue("combination", "", hint)])
    return contracts.ArtifactFound(artifact=found)


def _artifact_by_id(caller: Caller, query: contracts.ArtifactById) -> contracts.ArtifactFound:
    found = results.artifact_by_id(project_id=caller.project_id, artifact_id=query.artifact_id)
    return contracts.ArtifactFound(artifact=found)


def _list_artifacts(caller: Caller, query: contracts.ListArtifacts) -> contracts.ArtifactList:
    return contracts.ArtifactList(artifacts=results.list_artifacts(project_id=caller.project_id, query=query))


def _list_revisions(caller: Caller, query: contracts.ListRevisions) -> contracts.RevisionList:
    return results.list_revisions(project_id=caller.project_id, query=query)


def _get_record(caller: Caller, query: contracts.GetRecord) -> contracts.RecordFound:
    return contracts.RecordFound(record=results.record_by_id(project_id=caller.project_id, record_id=query.record_id))


GET_ARTIFACT = register(
    Endpoint(
        name="get_artifact",
        title="Get an Artifact",
        description=(
            "The current Artifact with its data, by `artifactId`, or by `loomName` and `stageName`. `artifact` is "
            "null when nothing stands there."
        ),
        input=contracts.ArtifactQuery,
        output=contracts.ArtifactFound,
        handler=_get_artifact,
        kind=Kind.READ,
    )
)
LIST_ARTIFACTS = register(
    Endpoint(
        name="list_artifacts",
        title="List Artifacts",
        description=(
            "Metadata of the current Artifacts, ordered by artifactId, optionally of one Loom or Stage. Read the "
            "data with `get_artifact`; continue with `nextCursor` and the same filters."
        ),
        input=contracts.ListArtifacts,
        output=contracts.ArtifactList,
        handler=_list_artifacts,
        kind=Kind.READ,
        route=Route("GET", "/artifacts"),
    )
)
ARTIFACT_BY_ID = register(
    Endpoint(
        name="get_artifact_by_id",
        title="Get an Artifact by its id",
        description="The current Artifact with its data.",
        input=contracts.ArtifactById,
        output=contracts.ArtifactFound,
        handler=_artifact_by_id,
        kind=Kind.READ,
        route=Route("GET", "/artifacts/{artifactId}", null_is_missing="artifact"),
        tool=False,
    )
)
LIST_REVISIONS = register(
    Endpoint(
        name="list_artifact_revisions",
        title="List an Artifact's revisions",
        description="Every kept revision of an Artifact with its data, newest first.",
        input=contracts.ListRevisions,
        output=contracts.RevisionList,
        handler=_list_revisions,
        kind=Kind.READ,
        route=Route("GET", "/artifacts/{artifactId}/revisions"),
        tool=False,
    )
)
GET_RECORD = register(
    Endpoint(
        name="get_record",
        title="Get a Record",
        description="A Record with its data. `record` is null when there is none.",
        input=contracts.GetRecord,
        output=contracts.RecordFound,
        handler=_get_record,
        kind=Kind.READ,
        route=Route("GET", "/records/{recordId}", null_is_missing="record"),
    )
)
