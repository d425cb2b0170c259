"""What the tests that take every registered Endpoint have in common: arguments, and the two faces."""

from __future__ import annotations

import re
import uuid
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode

from site_live import ENTRY_OF, Reply, Site

from apps.core.caller import Source
from apps.core.endpoints import Endpoint, all_endpoints, tools_for

#: Members that name something of a Project; a value for each comes from :func:`things_of`.
IDS = ("runId", "actionId", "callId", "artifactId", "recordId", "operationId", "mirrorId", "traceId", "cursor")


def endpoints() -> list[Endpoint[Any, Any]]:
    """Every Endpoint of the service, Loom Tools and REST-only views alike."""
    import apps.rest.urls  # noqa: F401 - what is served is registered

    return list(all_endpoints())


def arguments_for(endpoint: Endpoint[Any, Any], known: dict[str, Any]) -> dict[str, Any]:
    """The required members, and every optional one that names a thing, with the values of ``known``."""
    schema = endpoint.input.wire_schema()
    required = schema.get("required", ())
    if "callId" in required:
        known = {**known, "runId": known["runOfCall"]}
    return {name: known[name] for name in schema.get("properties", {}) if name in required or name in IDS[:-1]}


def over_rest(site: Site, endpoint: Endpoint[Any, Any], arguments: dict[str, Any], **options: Any) -> Reply:
    """The same call as a REST client makes it."""
    assert endpoint.route is not None
    in_path = re.findall(r"\{(\w+)\}", endpoint.route.path)
    path = endpoint.route.path
    for name in in_path:
        path = path.replace(f"{{{name}}}", quote(str(arguments[name]), safe=""))
    rest = {name: value for name, value in arguments.items() if name not in in_path}
    if endpoint.route.method == "GET":
        query = urlencode({k: v if isinstance(v, str) else str(v).lower() for k, v in rest.items()})
        return site.send("GET", f"/api/v1{path}{'?' if query else ''}{query}", **options)
    return site.send(endpoint.route.method, f"/api/v1{path}", rest, **options)


def entries_of(endpoint: Endpoint[Any, Any]) -> list[str]:
    """The paths of the MCP Entries that list the Endpoint as a Tool."""
    return [path for path, source in ENTRY_OF.items() if endpoint in tools_for(Source(source))]


def unknown_things() -> dict[str, Any]:
    """Values that nothing in any Project has."""
    return {
        "runId": str(uuid.uuid4()),
        "actionId": str(uuid.uuid4()),
        "callId": str(uuid.uuid4()),
        "runOfCall": str(uuid.uuid4()),
        "claimId": "the one that claims",
        "ownerToken": "loom_owner_of_nobody",
        "toolCallId": "the first",
        "toolId": "add",
        "assetId": "manners/example.txt",
        "result": {"outcome": "written", "text": "x"},
        "message": "It cannot be done.",
        "artifactId": f"artifact-{uuid.uuid4()}",
        "recordId": f"record-{uuid.uuid4()}",
        "operationId": str(uuid.uuid4()),
        "loomName": "trial",
        "stageName": "work",
        "input": {},
        "answer": {"isConfirmed": True},
        "expectedRevision": 1,
        "boundary": 0,
        "mirrorId": str(uuid.uuid4()),
        "traceId": str(uuid.uuid4()),
        "targetProject": "nowhere",
        "scope": "all",
        "wish": "What was kept secret?",
        "query": "secret",
        "model": "offline",
        "id": str(uuid.uuid4()),
        "session_secret": "loom_session_of_nobody",
    }


def things_of(service: Any) -> dict[str, Any]:
    """A Project with one of everything: a waiting Run, its Action, results, an Operation, an agent call."""
    plan = [{"ending": "again", "artifact": {"secret": "of this Project"}, "record": "r 1/2+00:00"}, {"ending": "ask"}]
    operation_id = str(uuid.uuid4())
    started = service.operate("run", operationId=operation_id, loomName="trial", input={"do": plan})
    agent = replace(service.caller, source=Source.AGENT_IDE, entry="/mcp")
    for_an_agent = service.operate("run", caller=agent, loomName="assist", input={})["run"]["runId"]
    service.work()
    background = service.call("run_agent", model="offline", input={})
    run = service.run(started["run"]["runId"])
    assert run["status"] == "waiting", run
    exported = service.call("mirror_export", traceId=run["traceId"], targetProject=run["project"])
    return {
        **unknown_things(),
        "runId": run["runId"],
        "traceId": run["traceId"],
        "mirrorId": exported["mirror"]["mirrorId"],
        "actionId": run["pendingAction"]["id"],
        "callId": service.run(for_an_agent)["pendingAgentCall"]["id"],
        "runOfCall": for_an_agent,
        "artifactId": run["results"]["artifactIds"][0],
        "recordId": "r 1/2+00:00",
        "operationId": operation_id,
        "answer": [{"questionId": "q", "isSkipped": False, "answer": "yes"}],
        "expectedRevision": run["revision"],
        "serviceInstanceId": service.instance_id,
        "id": background["id"],
        "session_secret": background["session_secret"],
    }
