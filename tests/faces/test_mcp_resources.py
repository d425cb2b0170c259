"""Resources at every Entry, in every revision, socket-level: one address for each Loom, Run and Artifact (N5, E5)."""

# ruff: noqa: F811 - the fixtures come from site_live
from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext
from every_endpoint import things_of, unknown_things
from mcp_live import LEGACY, MODERN
from mcp_types.methods import serialize_server_result
from site_live import ENTRY_OF, Site, _site_port, site, stranger  # noqa: F401
from two_eras import Asker, in_every_revision

from apps.core import clock, json_text
from apps.mcp import resources
from tests.conftest import Service, caller_in

TEMPLATES = ["loom://looms/{name}", "loom://runs/{id}", "loom://artifacts/{id}", "loom://records/{id}"]
ODD_IDS = ["r 1/2+00:00", "100% of it", "ä🧵", "a?b#c", "..", "x" * 200, "🧵" * 200]


def keep(service: Service, *artifact_ids: str, data: Any = 1) -> None:
    """Artifacts with these ids, each at a Stage of its own."""
    from apps.access.models import Project
    from apps.results.models import Artifact, ArtifactRevision
    from apps.runs.models import Run

    run = Run.objects.get(pk=service.start())
    project = Project.objects.get(pk=service.caller.project_id)
    for number, artifact_id in enumerate(artifact_ids):
        now = clock.now()
        place = Artifact.objects.create(
            project=project, loom_name="trial", stage_name=f"s{number}", artifact_id=artifact_id, revision=1,
            created_at=now, updated_at=now,
        )  # fmt: skip
        ArtifactRevision.objects.create(
            artifact=place, revision=1, artifact_id_then=artifact_id, data=data, digest=json_text.digest(data),
            run_id=run.pk, created_at=now,
        )  # fmt: skip


def contents(result: Any) -> Any:
    (content,) = result["contents"]
    assert content["mimeType"] == "application/json"
    return json.loads(content["text"])


@pytest.mark.rule("N5")
@pytest.mark.parametrize("entry", ENTRY_OF)
@in_every_revision
def test_every_entry_reads_what_the_tools_read(site: Site, service: Service, version: str, entry: str) -> None:
    known = things_of(service)
    asker = Asker(site, version, entry)
    listed = asker.result("resources/templates/list")["resourceTemplates"]
    assert [template["uriTemplate"] for template in listed] == TEMPLATES
    run = asker.result("resources/read", uri=f"loom://runs/{known['runId']}")
    assert run["contents"][0]["uri"] == f"loom://runs/{known['runId']}"
    assert contents(run) == service.run(known["runId"])
    artifact = asker.result("resources/read", uri=f"loom://artifacts/{known['artifactId']}")
    assert contents(artifact) == service.call("get_artifact", artifactId=known["artifactId"])["artifact"]
    record = asker.result("resources/read", uri=f"loom://records/{quote(known['recordId'], safe='')}")
    assert contents(record) == service.call("get_record", recordId=known["recordId"])["record"]
    loom = asker.result("resources/read", uri="loom://looms/trial")
    assert contents(loom) in service.call("list_looms")["looms"]
    for result in (run, artifact, record, loom):
        text = result["contents"][0]["text"]
        assert text.encode() == json_text.canonical(json.loads(text))


@pytest.mark.rule("N5")
@in_every_revision
def test_results_are_what_the_revision_s_own_types_would_write(site: Site, service: Service, version: str) -> None:
    asker = Asker(site, version)
    keep(service, "one")
    for method, params in (
        ("resources/list", {}),
        ("resources/templates/list", {}),
        ("resources/read", {"uri": "loom://looms/trial"}),
    ):
        result = asker.result(method, **params)
        assert serialize_server_result(method, version, result) == result
        if version == MODERN:
            assert result["cacheScope"] == "private"
            assert result["ttlMs"] == (0 if method != "resources/templates/list" else 300_000)


@pytest.mark.rule("E5", "K10")
@in_every_revision
def test_another_project_s_ids_read_exactly_as_unknown_ones(
    site: Site, stranger: Site, service: Service, version: str
) -> None:
    foreign, unknown = things_of(service), unknown_things()
    asker = Asker(stranger, version)
    for folder, member in (("runs", "runId"), ("artifacts", "artifactId"), ("records", "recordId")):
        errors = []
        for known in (foreign, unknown):
            uri = f"loom://{folder}/{quote(known[member], safe='')}"
            error = asker.error("resources/read", uri=uri)
            assert error["code"] == (-32602 if version == MODERN else -32002)
            assert error["data"]["uri"] == uri
            errors.append(json.dumps(error).replace(known[member], "ID").replace(quote(known[member], safe=""), "ID"))
        assert errors[0] == errors[1]
    assert asker.error("resources/read", uri="loom://looms/nowhere")["code"] in (-32602, -32002)
    listed = asker.result("resources/list")["resources"]
    assert listed
    assert all(one["uri"].startswith("loom://looms/") for one in listed)


@pytest.mark.rule("E5", "K10")
@pytest.mark.parametrize(
    ("folder", "member"), [("runs", "runId"), ("artifacts", "artifactId"), ("records", "recordId")]
)
def test_an_unknown_id_costs_the_statements_that_another_project_s_costs(
    service: Service, folder: str, member: str
) -> None:
    from apps.access.services.projects import create_project

    foreign, unknown = things_of(service), unknown_things()
    elsewhere = caller_in(create_project(name="elsewhere", now=clock.now()))
    counts = []
    for known in (foreign, unknown):
        with CaptureQueriesContext(connections["default"]) as statements, pytest.raises(Exception, match="No "):
            resources.read(elsewhere, f"loom://{folder}/{quote(known[member], safe='')}")
        counts.append([statement["sql"].replace(known[member].replace("-", ""), "ID") for statement in statements])
    assert len(counts[0]) == len(counts[1]) == 1


@pytest.mark.rule("N5")
@pytest.mark.parametrize("artifact_id", ODD_IDS, ids=lambda value: value[:12])
@in_every_revision
def test_an_odd_id_is_listed_percent_encoded_and_read_from_there(
    site: Site, service: Service, version: str, artifact_id: str
) -> None:
    keep(service, artifact_id)
    asker = Asker(site, version)
    (listed,) = [one for one in asker.result("resources/list")["resources"] if "/artifacts/" in one["uri"]]
    assert listed["uri"] == f"loom://artifacts/{quote(artifact_id, safe='')}"
    assert listed["name"] == artifact_id
    read = asker.result("resources/read", uri=listed["uri"])
    assert contents(read)["artifactId"] == artifact_id


@pytest.mark.rule("N5")
@pytest.mark.parametrize(
    "uri",
    [
        "", "loom", "loom://", "loom://runs", "loom://runs/", "loom:///runs/x", "loom://runs//x", "loom://runs/x/",
        "loom://runs/../artifacts/x", "loom://artifacts/../../etc/passwd", "loom://looms/trial/loom.yaml",
        "loom://looms/trial?x=1", "loom://looms/trial#x", "loom://looms/a trial", "loom://looms/trial\n",
        "LOOM://looms/trial", "loom://Looms/trial", "loom://me@looms/trial", "loom://looms:80/trial",
        "loom://record/x", "file:///etc/passwd", "http://127.0.0.1/loom://looms/trial", "looms/trial",
        "loom://looms/%", "loom://looms/100%", "loom://looms/%4", "loom://looms/%zz",
        "loom://runs/nope", "loom://runs/%2e%2e%2fx", "loom://runs/{id}",
        "loom://artifacts/%00", "loom://artifacts/%ff", "loom://artifacts/%ed%a0%80", "loom://artifacts/" + "x" * 201,
        "loom://looms/" + "x" * 2500, "loom://artifacts/" + "%41" * 1000,
    ],
    ids=lambda uri: repr(uri)[:40],
)  # fmt: skip
@pytest.mark.parametrize("version", [LEGACY[0], MODERN])
def test_what_is_no_address_is_told_what_one_looks_like(site: Site, service: Service, version: str, uri: str) -> None:
    error = Asker(site, version).error("resources/read", uri=uri)
    assert error["code"] == -32602
    (issue,) = error["data"]["validation"]["issues"]
    assert issue["path"] == "/uri"
    assert issue["suggestion"] in error["message"]
    assert len(error["message"]) < 400


@pytest.mark.rule("N5")
@pytest.mark.parametrize("uri", ["loom://looms/..", "loom://looms/%00", "loom://looms/%ff", "loom://artifacts/%2e"])
@in_every_revision
def test_an_address_of_nothing_is_not_found(site: Site, service: Service, version: str, uri: str) -> None:
    error = Asker(site, version).error("resources/read", uri=uri)
    assert error["code"] == (-32602 if version == MODERN else -32002)
    assert error["data"]["code"] == "NOT_FOUND"


@pytest.mark.rule("E6")
@in_every_revision
def test_a_credential_in_the_place_of_an_id_is_not_repeated(site: Site, service: Service, version: str) -> None:
    token = site.tokens["studio"]
    answer = Asker(site, version).ask("resources/read", uri=f"loom://artifacts/{token}")
    assert token.rpartition("_")[2].encode() not in answer.body
    assert answer.json["error"]["data"]["code"] == "NOT_FOUND"


@pytest.mark.rule("N5")
@in_every_revision
def test_what_is_too_large_for_a_conversation_is_refused_with_the_tool_that_reads_it(
    site: Site, service: Service, version: str
) -> None:
    asker = Asker(site, version)
    keep(service, "large", data="x" * resources.MOST_BYTES)
    error = asker.error("resources/read", uri="loom://artifacts/large")
    assert (error["code"], error["data"]["code"]) == (-32600, "PAYLOAD_TOO_LARGE")
    assert "the Tool get_artifact" in error["message"]
    keep_size = len(json_text.canonical(service.call("get_artifact", artifactId="large")["artifact"]))
    assert str(keep_size) in error["message"]
    run_id = service.start(effects="x" * resources.MOST_BYTES)
    assert "the Tool get_run" in asker.error("resources/read", uri=f"loom://runs/{run_id}")["message"]


@pytest.mark.rule("N5")
def test_the_largest_that_is_let_through_is_let_through(
    site: Site, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(service, "just", data="x")
    size = len(json_text.canonical(service.call("get_artifact", artifactId="just")["artifact"]))
    asker = Asker(site)
    monkeypatch.setattr(resources, "MOST_BYTES", size)
    assert contents(asker.result("resources/read", uri="loom://artifacts/just"))["data"] == "x"
    monkeypatch.setattr(resources, "MOST_BYTES", size - 1)
    assert asker.error("resources/read", uri="loom://artifacts/just")["data"]["code"] == "PAYLOAD_TOO_LARGE"


@pytest.mark.rule("N5", "S2")
@in_every_revision
def test_the_list_has_the_looms_and_then_every_artifact_once(site: Site, service: Service, version: str) -> None:
    ids = [f"artifact-{number:03}" for number in range(120)]
    keep(service, *ids)
    asker = Asker(site, version)
    pages = [asker.result("resources/list")]
    while "nextCursor" in pages[-1]:
        pages.append(asker.result("resources/list", cursor=pages[-1]["nextCursor"]))
    assert [len([one for one in page["resources"] if "/artifacts/" in one["uri"]]) for page in pages] == [50, 50, 20]
    listed = [one["uri"] for page in pages for one in page["resources"]]
    looms = [f"loom://looms/{loom['loomName']}" for loom in service.call("list_looms")["looms"]]
    assert listed == looms + [f"loom://artifacts/{artifact_id}" for artifact_id in ids]
    artifact = pages[1]["resources"][0]
    assert (
        artifact["annotations"]["lastModified"]
        == service.call("get_artifact", artifactId=ids[50])["artifact"]["updatedAt"]
    )


@pytest.mark.rule("N5", "K10")
@in_every_revision
def test_a_cursor_that_no_list_gave_is_refused(site: Site, service: Service, version: str) -> None:
    for cursor in ("x", "", "ü", "x" * 3000):
        error = Asker(site, version).error("resources/list", cursor=cursor)
        assert error["code"] == -32602
        assert error["data"]["validation"]["issues"][0]["path"] == "/cursor"
    for cursor in (7, [], {}):
        assert Asker(site, version).error("resources/list", cursor=cursor)["code"] == -32602
    assert Asker(site, version).error("resources/templates/list", cursor="x")["code"] == -32602


@pytest.mark.rule("N5")
@in_every_revision
def test_an_invalid_loom_is_listed_and_read_with_what_is_wrong(
    site: Site, service: Service, loom_paths: Any, version: str
) -> None:
    (loom_paths / "my loom").mkdir()
    (loom_paths / "my loom" / "loom.yaml").write_text("loom: 7\n")
    asker = Asker(site, version)
    (listed,) = [one for one in asker.result("resources/list")["resources"] if "my%20loom" in one["uri"]]
    assert "invalid" in listed["description"]
    loom = contents(asker.result("resources/read", uri=listed["uri"]))
    assert (loom["status"], loom["loomName"]) == ("invalid", "my loom")
    assert loom["diagnostics"]


@pytest.mark.rule("N5")
def test_names_of_files_that_are_no_text_hide_nothing(site: Site, service: Service, loom_paths: Any) -> None:
    for folder in (loom_paths / "\udcff", loom_paths / "other"):
        folder.mkdir()
        (folder / "loom.yaml").write_text("loom: 7\n")
    (loom_paths / "other" / "\udcfe.py").touch()
    asker = Asker(site)
    uris = {one["uri"] for one in asker.result("resources/list")["resources"]}
    assert {"loom://looms/%5Cudcff", "loom://looms/other", "loom://looms/trial"} <= uris
    assert contents(asker.result("resources/read", uri="loom://looms/%5Cudcff"))["status"] == "invalid"
    other = contents(asker.result("resources/read", uri="loom://looms/other"))
    assert "\\udcfe.py" in [diagnostic["file"] for diagnostic in other["diagnostics"]]


@pytest.mark.rule("N5")
@in_every_revision
def test_parameters_of_another_shape_are_invalid(site: Site, version: str) -> None:
    for params in ({}, {"uri": 7}, {"uri": None}, {"uri": ["loom://looms/trial"]}):
        assert Asker(site, version).error("resources/read", **params)["code"] == -32602


@pytest.mark.rule("N5")
def test_the_name_header_says_the_same_address_as_the_body(site: Site, service: Service) -> None:
    live = Asker(site).live
    keep(service, "ä")
    for uri in ("loom://looms/trial", "loom://artifacts/ä"):
        assert live.modern("resources/read", {"uri": uri}).status == 200
        for header in (None, "loom://looms/tally", uri.encode().decode("latin-1") + "x"):
            answer = live.modern("resources/read", {"uri": uri}, headers={"Mcp-Name": header})
            assert (answer.status, answer.error_code) == (400, -32020)


@pytest.mark.rule("K7", "K9", "N1", "N3", "K12")
@pytest.mark.parametrize("method", ["resources/list", "resources/read", "prompts/list", "completion/complete"])
@pytest.mark.parametrize("version", [LEGACY[0], MODERN])
def test_what_a_tool_is_not_told_a_resource_is_not_told_either(site: Site, method: str, version: str) -> None:
    asker = Asker(site, version)
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"uri": "loom://looms/trial"}}

    def status(source: str = "agent_ide", **headers: str | None) -> int:
        return asker.live.send(message, source=source, headers={"MCP-Protocol-Version": version, **headers}).status

    assert status(Host="evil.example") == 421
    assert status(Origin="https://evil.example") == 403
    assert status(Authorization=None) == 401
    assert status("cli") == 403


@pytest.mark.rule("K12")
@in_every_revision
def test_a_revoked_credential_reads_nothing_more(site: Site, service: Service, version: str) -> None:
    from apps.access.services.credentials import revoke_credential

    asker = Asker(site, version)
    assert asker.result("resources/read", uri="loom://looms/trial")
    revoke_credential(public_id=site.tokens["agent_ide"].split("_")[2], now=clock.now())
    assert asker.ask("resources/read", uri="loom://looms/trial").status == 401


@pytest.mark.rule("N5")
@in_every_revision
def test_before_an_instance_is_open_a_run_is_unavailable_and_not_unknown(
    site: Site, service: Service, version: str
) -> None:
    from apps.ledger.models import ServiceInstance

    run_id = service.start()
    assert resources.read(service.caller, f"loom://runs/{run_id}")
    ServiceInstance.objects.update(current=None)
    answer = Asker(site, version).ask("resources/read", uri=f"loom://runs/{run_id}")
    assert (answer.status, answer.error_code) == (503, -32603)
    assert answer.json["error"]["data"]["code"] == "UNAVAILABLE"
