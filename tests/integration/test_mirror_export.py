"""Exporting, inspecting and listing Mirrors over the real ledger (M1–M4, M6)."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.access.services.credentials import create_credential, grant_mirror_writes
from apps.access.services.projects import create_project
from apps.core import clock
from apps.core.caller import Source
from apps.mirrors.models import Mirror
from tests.conftest import Service, caller_in
from tests.integration.mirror_work import RICH, export, file_of, lines_of, mirrors_folder

__all__ = ["mirrors_folder"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("mirrors_folder")]


@pytest.mark.rule("M1", "M4")
def test_a_mirror_holds_the_trace_up_to_its_boundary_and_no_more(service: Service) -> None:
    run = service.finish(do=RICH)
    assert (run["status"], run["boundary"]) == ("waiting", 2)
    mirror = export(service, run)
    assert mirror == {
        "mirrorId": mirror["mirrorId"], "traceId": run["traceId"], "runId": run["runId"], "loomName": "trial",
        "releaseDigest": run["releaseDigest"], "boundary": 2, "kind": "exported", "sizeBytes": len(file_of(mirror)),
        "project": "trials", "createdAt": mirror["createdAt"],
    }  # fmt: skip
    lines = lines_of(mirror)
    (held,) = [line["held"] for line in lines["run"]]
    assert (held["stage"], held["step"], held["outcome"], held["artifactIds"]) == (
        "work", "act", "again", run["results"]["artifactIds"],
    )  # fmt: skip
    assert [step["status"] for step in lines["steps"]] == ["completed", "completed", "failed", "completed"]
    assert [line["data"] for line in lines["artifacts"]] == [{"n": 1}, {"n": 2.5, "t": "α"}]
    assert [line["recordId"] for line in lines["records"]] == ["first"]
    assert lines["events"][-1]["data"]["boundary"] == 2
    assert lines["actions"] == [], "the question came after the boundary"
    assert [line["kind"] for line in lines["operations"]] == ["run"]
    assert lines["release"][0]["loomName"] == "trial"


@pytest.mark.rule("M1")
def test_the_same_boundary_is_the_same_bytes_whatever_came_later(service: Service) -> None:
    from apps.mirrors.services.exporting import export_mirror, find_boundary

    run = service.finish(do=RICH)
    mirror = export(service, run)
    first = file_of(mirror)
    assert export(service, run) == mirror, "the same content again is the same Mirror"
    action = run["pendingAction"]["id"]
    answer = [{"questionId": "q", "isSkipped": False, "answer": "yes"}]
    service.operate("answer_ask", runId=run["runId"], actionId=action, answer=answer)
    service.work()
    later = service.run(run["runId"])
    assert (later["status"], later["boundary"]) == ("completed", 3)
    held = find_boundary(project_id=service.caller.project_id, trace_id=run["traceId"], boundary=2)
    again = export_mirror(caller=service.caller, held=held, project_id=service.caller.project_id, now=clock.now())
    assert str(again.mirror_id) == mirror["mirrorId"]
    assert Mirror.objects.count() == 1
    newest = export(service, later)
    assert newest["boundary"] == 3
    assert file_of(newest) != first
    answered = lines_of(newest)["actions"]
    assert [(line["answer"], line["answeredBy"]["source"]) for line in answered] == [(answer, "cli")]
    assert [line["kind"] for line in lines_of(newest)["operations"]] == ["run", "answer_ask"]


@pytest.mark.rule("M4", "M7")
def test_a_trace_that_is_too_large_is_refused_saying_what_can_be_done(
    service: Service, settings: Any, mirrors_folder: Path
) -> None:
    run = service.finish(do=RICH)
    settings.LOOMSVC = replace(settings.LOOMSVC, mirror_bytes=4096)
    error = service.call("mirror_export", traceId=run["traceId"], targetProject="trials")["error"]
    assert error["code"] == "MIRROR_INVALID"
    assert "more than the 4096" in error["message"] and "LOOMSVC_MIRROR_BYTES" in error["message"]
    assert "get it again" not in error["message"], "there is nowhere else to get it"
    assert (Mirror.objects.count(), list(mirrors_folder.rglob("*.zip"))) == (0, [])


@pytest.mark.rule("M1")
def test_a_mirror_of_boundary_0_is_what_the_run_was_admitted_with(service: Service) -> None:
    run_id = service.start(do=RICH)
    mirror = export(service, service.run(run_id))
    first = file_of(mirror)
    lines = lines_of(mirror)
    assert (mirror["boundary"], lines["steps"], lines["states"], len(lines["events"])) == (0, [], [], 1)
    service.work()
    from apps.mirrors.services.exporting import find_boundary, written

    held = find_boundary(project_id=service.caller.project_id, trace_id=run_id, boundary=0)
    with written(held) as found:
        found.file.seek(0)
        assert found.file.read() == first


@pytest.mark.rule("M1", "A5", "K11")
def test_agent_calls_and_their_receipts_come_from_the_events(service: Service) -> None:
    agent = replace(service.caller, source=Source.AGENT_IDE, entry="/mcp", principal="credential:agent")
    run_id = service.operate("run", caller=agent, loomName="assist", input={})["run"]["runId"]
    service.work()
    task = {"runId": run_id, "callId": service.run(run_id)["pendingAgentCall"]["id"]}
    claimed = service.call("claim_agent_call", caller=agent, **task, claimId="mine")
    owned = {**task, "ownerToken": claimed["ownerToken"]}
    used = service.call("call_agent_tool", caller=agent, **owned, toolCallId="t-1", toolId="add", input={"line": "x"})
    assert "error" not in used, used
    result = {"outcome": "written", "text": "x"}
    done = service.call("complete_agent_call", caller=agent, **owned, result=result)
    assert "error" not in done, done
    service.work()
    mirror = export(service, service.run(run_id))
    lines = lines_of(mirror)
    assert [(line["closedAs"], line["claimedBy"], line["result"]["outcome"]) for line in lines["agent-calls"]] == [
        ("completed", "credential:agent", "written")
    ]
    assert [(line["toolCallId"], line["input"]) for line in lines["tool-receipts"]] == [("t-1", {"line": "x"})]
    assert claimed["ownerToken"] not in file_of(mirror).decode("utf-8", "replace")


@pytest.mark.rule("M3")
def test_inspecting_computes_every_digest_anew(service: Service, mirrors_folder: Path) -> None:
    mirror = export(service, service.finish(do=RICH))
    found = service.call("mirror_inspect", mirrorId=mirror["mirrorId"])
    assert found["mirror"] == mirror
    assert found["verification"] == {"status": "verified", "problems": []}
    assert found["manifest"]["counts"]["artifacts"] == 2
    (path,) = mirrors_folder.rglob("*.zip")
    data = bytearray(path.read_bytes())
    at = data.index(b'"artifactId"')
    data[at + 1] ^= 1
    path.write_bytes(data)
    damaged = service.call("mirror_inspect", mirrorId=mirror["mirrorId"])
    assert damaged["verification"]["status"] == "damaged"
    assert damaged["verification"]["problems"][0]["entry"] == "artifacts.jsonl"
    assert damaged["manifest"] == found["manifest"]
    path.unlink()
    gone = service.call("mirror_inspect", mirrorId=mirror["mirrorId"])["verification"]
    assert gone == {"status": "damaged", "problems": [{"entry": "", "problem": "its file is missing"}]}
    assert export(service, service.run(mirror["runId"])) == mirror, "exporting again makes it whole"
    assert service.call("mirror_inspect", mirrorId=mirror["mirrorId"]) == found


@pytest.mark.rule("M2", "M4", "M6", "N1", "E5")
def test_a_credential_sees_and_writes_the_projects_it_was_granted_and_no_other(service: Service) -> None:
    from apps.access.selectors.projects import project_named

    create_project(name="friends", now=clock.now())
    create_project(name="strangers", now=clock.now())
    credential, _ = create_credential(project=project_named("trials"), source=Source.CLI, label="x", now=clock.now())
    service.caller = replace(service.caller, credential_id=credential.pk)
    run = service.finish(do=RICH)

    def refused(target: str) -> Any:
        return service.call("mirror_export", traceId=run["traceId"], targetProject=target)["error"]

    unknown, foreign = refused("nowhere"), refused("strangers")
    assert unknown["code"] == "NOT_FOUND"
    assert unknown["message"].replace("nowhere", "strangers") == foreign["message"]
    assert refused("friends")["code"] == "NOT_FOUND"
    assert refused("../strangers")["code"] == "NOT_FOUND"
    grant_mirror_writes(public_id=credential.public_id, projects=[project_named("friends")])
    here, there = export(service, run), export(service, run, "friends")
    assert here["mirrorId"] != there["mirrorId"]
    assert file_of(here) == file_of(there)
    assert [m["project"] for m in service.call("mirror_list")["mirrors"]] == ["friends", "trials"]
    assert service.call("mirror_inspect", mirrorId=there["mirrorId"])["mirror"] == there
    stranger = caller_in(project_named("strangers"))
    assert service.call("mirror_list", caller=stranger)["mirrors"] == []
    secret = service.call("mirror_inspect", caller=stranger, mirrorId=here["mirrorId"])["error"]
    none = service.call("mirror_inspect", caller=stranger, mirrorId=str(uuid.uuid4()))["error"]
    assert secret["code"] == none["code"] == "NOT_FOUND"
    assert (
        service.call("mirror_export", caller=stranger, traceId=run["traceId"], targetProject="strangers")["error"][
            "message"
        ]
        == f"No trace {run['traceId']} in this Project; `get_run` shows the traceId of a Run."
    )
    grant_mirror_writes(public_id=credential.public_id, projects=[project_named("friends")], revoke=True)
    assert [m["project"] for m in service.call("mirror_list")["mirrors"]] == ["trials"]


@pytest.mark.rule("M2")
def test_the_list_is_paged_newest_first_in_few_statements(service: Service) -> None:
    made = [export(service, service.finish(do=[]))["mirrorId"] for _ in range(5)]
    with CaptureQueriesContext(connection) as said:
        page = service.call("mirror_list", limit=2)
    assert len(said) == 2
    found = [m["mirrorId"] for m in page["mirrors"]]
    while "nextCursor" in page:
        page = service.call("mirror_list", limit=2, cursor=page["nextCursor"])
        found += [m["mirrorId"] for m in page["mirrors"]]
    assert found == made[::-1]


@pytest.mark.rule("M1")
def test_no_setting_and_no_digest_of_a_credential_is_in_a_mirror(service: Service) -> None:
    from apps.access.models import Credential
    from apps.access.selectors.projects import project_named

    credential, text = create_credential(project=project_named("trials"), source=Source.CLI, label="x", now=clock.now())
    data = file_of(export(service, service.finish(do=RICH)))
    for secret in (text, Credential.objects.get(pk=credential.pk).secret_digest, str(Path.cwd())):
        assert secret.encode() not in data
