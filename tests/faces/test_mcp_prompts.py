"""Prompts and completions at every Entry, in every revision, socket-level (N5, E5)."""

# ruff: noqa: F811 - the fixtures come from site_live
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from every_endpoint import things_of
from mcp_live import LEGACY, MODERN
from mcp_types.methods import serialize_server_result
from site_live import ENTRY_OF, Site, _site_port, site, stranger  # noqa: F401
from two_eras import Asker, in_every_revision

from apps.access.domain.entries import MCP_ENTRIES
from apps.core.endpoints import all_endpoints, tools_for
from tests.conftest import Service

CODE = """
from loomsvc.authoring import CodeStep

def act(step: CodeStep):
    return "done"
"""
LOOM = """
loom: {name}
title: {title}
description: {description}
entry: work
stages:
  work:
    entry: act
    steps:
      act: {{code: "steps:act", on: {{done: end}}}}
    on: {{done: end}}
"""


def add(
    loom_paths: Path, name: str, *, title: str = "Title", description: str = "What it is for.", more: str = ""
) -> Path:
    folder = loom_paths / name
    folder.mkdir()
    (folder / "loom.yaml").write_text(LOOM.format(name=name, title=title, description=description) + more)
    (folder / "steps.py").write_text(CODE)
    return folder


def texts(prompt: Any) -> list[str]:
    assert {message["role"] for message in prompt["messages"]} == {"user"}
    return [message["content"]["text"] for message in prompt["messages"]]


@pytest.mark.rule("N5")
@pytest.mark.parametrize("entry", ENTRY_OF)
@in_every_revision
def test_every_entry_has_a_prompt_for_each_ready_loom_and_for_no_other(
    site: Site, service: Service, loom_paths: Path, version: str, entry: str
) -> None:
    broken = add(loom_paths, "broken")
    (broken / "steps.py").write_text("def")
    looms = service.call("list_looms")["looms"]
    assert [loom["status"] for loom in looms if loom["loomName"] == "broken"] == ["invalid"]
    asker = Asker(site, version, entry)
    listed = asker.result("prompts/list")
    assert [prompt["name"] for prompt in listed["prompts"]] == [
        loom["loomName"] for loom in looms if loom["status"] == "ready"
    ]
    for prompt in listed["prompts"]:
        loom = next(loom for loom in looms if loom["loomName"] == prompt["name"])
        assert (prompt["title"], prompt["description"]) == (loom["title"], loom["description"])
        (argument,) = prompt["arguments"]
        assert argument["name"] == "input"
        assert argument["required"] is False
    trial = next(prompt for prompt in listed["prompts"] if prompt["name"] == "trial")
    schema = next(loom["inputSchema"] for loom in looms if loom["loomName"] == "trial")
    shown = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    assert ("inputSchema of loom://looms/trial" if len(shown) > 2000 else shown) in trial["arguments"][0]["description"]
    assert asker.error("prompts/get", name="broken")["code"] == -32602


@pytest.mark.rule("N5")
@pytest.mark.parametrize("entry", MCP_ENTRIES, ids=lambda entry: entry.name)
@in_every_revision
def test_a_prompt_names_tools_of_its_entry_only_in_the_order_of_their_use(
    site: Site, service: Service, version: str, entry: Any
) -> None:
    own = {tool.name for tool in tools_for(entry.source)}
    asker = Asker(site, version, entry.path)
    steps, given = texts(asker.result("prompts/get", name="assist", arguments={"input": " Buy milk\n```\n"}))
    assert given == "The input, as your human gave it:\n\nBuy milk\n```"
    place = 0
    order = ["status", "2. run", "operationId", "get_run", "pendingAction", "interact", "answer_ask", "Never answer"]
    order += ["claim_agent_call", "complete_agent_call"] if "claim_agent_call" in own else []
    for needed in [*order, "get_artifact", "get_record"]:
        assert needed in steps[place:]
        place = steps.index(needed, place)
    others = {endpoint.name for endpoint in all_endpoints() if endpoint.name not in own} - {"run"}
    assert not [name for name in others if name in steps]
    assert "ready is false" in steps


@pytest.mark.rule("N5")
def test_a_loom_without_agents_is_not_told_about_them(site: Site, service: Service) -> None:
    steps, _ = texts(Asker(site).result("prompts/get", name="trial"))
    assert "agent" not in steps.lower().replace("trial", "")


@pytest.mark.rule("N5")
@in_every_revision
def test_without_input_the_agent_is_to_ask_its_human(site: Site, service: Service, version: str) -> None:
    for params in ({}, {"arguments": {}}, {"arguments": {"input": " \n"}}):
        _, given = texts(Asker(site, version).result("prompts/get", name="trial", **params))
        assert "ask for what it needs" in given


@pytest.mark.rule("N5", "E3")
@in_every_revision
def test_arguments_that_no_prompt_takes_are_refused_with_their_place(
    site: Site, service: Service, version: str
) -> None:
    asker = Asker(site, version)
    for arguments, place in (
        ({"loom": "trial"}, "/arguments/loom"),
        ({"input": "a\x00b"}, "/arguments/input"),
        ({"input": "a\ud800b"}, "/arguments/input"),
    ):
        error = asker.error("prompts/get", name="trial", arguments=arguments)
        assert error["code"] == -32602
        assert [issue["path"] for issue in error["data"]["validation"]["issues"]] == [place]
    for arguments in ({"input": 7}, {"input": {}}, [], "x"):
        assert asker.error("prompts/get", name="trial", arguments=arguments)["code"] == -32602
    for params in ({}, {"name": 7}, {"name": ""}, {"name": "no such"}, {"name": "x" * 10_000}, {"name": "../trial"}):
        error = asker.error("prompts/get", **params)
        assert error["code"] == -32602
        assert len(error["message"]) < 400
    assert asker.error("prompts/list", cursor="x")["code"] == -32602


@pytest.mark.rule("N5")
def test_a_long_schema_is_pointed_at_and_a_loom_without_one_takes_anything(
    site: Site, service: Service, loom_paths: Path
) -> None:
    add(loom_paths, "free")
    folder = add(loom_paths, "much", more="input: schemas:Much\n")
    fields = "".join(f"    field_{number}: str = 'a default of some length'\n" for number in range(60))
    (folder / "schemas.py").write_text(f"from pydantic import BaseModel\n\nclass Much(BaseModel):\n{fields}")
    prompts = {prompt["name"]: prompt for prompt in Asker(site).result("prompts/list")["prompts"]}
    assert "Any JSON or text" in prompts["free"]["arguments"][0]["description"]
    shown = prompts["much"]["arguments"][0]["description"]
    assert "inputSchema of loom://looms/much" in shown
    assert len(shown) < 200


@pytest.mark.rule("N5")
@in_every_revision
def test_results_are_what_the_revision_s_own_types_would_write(site: Site, service: Service, version: str) -> None:
    asker = Asker(site, version)
    ref = {"type": "ref/resource", "uri": "loom://looms/{name}"}
    for method, params in (
        ("prompts/list", {}),
        ("prompts/get", {"name": "trial"}),
        ("completion/complete", {"ref": ref, "argument": {"name": "name", "value": ""}}),
    ):
        result = asker.result(method, **params)
        assert serialize_server_result(method, version, result) == result
        assert ("ttlMs" in result) == (version == MODERN and method == "prompts/list")


def complete(asker: Asker, uri: str, name: str, value: str) -> Any:
    ref = {"type": "ref/resource", "uri": uri}
    return asker.result("completion/complete", ref=ref, argument={"name": name, "value": value})["completion"]


@pytest.mark.rule("N5", "K10", "E5")
@pytest.mark.parametrize("entry", ENTRY_OF)
@in_every_revision
def test_names_of_looms_are_completed_and_no_id_of_anything(
    site: Site, stranger: Site, service: Service, version: str, entry: str
) -> None:
    known = things_of(service)
    names = [loom["loomName"] for loom in service.call("list_looms")["looms"]]
    for client in (site, stranger):
        asker = Asker(client, version, entry)
        every = complete(asker, "loom://looms/{name}", "name", "")
        assert every == {"values": names, "total": len(names), "hasMore": False}
        for begun in ("T", "tr"):
            found = complete(asker, "loom://looms/{name}", "name", begun)["values"]
            assert found == [name for name in names if name.startswith(begun.lower())]
            assert "trial" in found
        assert complete(asker, "loom://looms/{name}", "name", "nowhere")["values"] == []
        for uri, member in (("loom://runs/{id}", "runId"), ("loom://artifacts/{id}", "artifactId")):
            for begun in ("", known[member][:4], known[member]):
                assert complete(asker, uri, "id", begun) == {"values": [], "total": 0, "hasMore": False}
        ref = {"type": "ref/prompt", "name": "trial"}
        words = asker.result("completion/complete", ref=ref, argument={"name": "input", "value": "x"})
        assert words["completion"]["values"] == []


@pytest.mark.rule("N5")
def test_a_hundred_names_are_completed_at_most(site: Site, service: Service, loom_paths: Path) -> None:
    for number in range(101):
        (loom_paths / f"many_{number:03}").mkdir()
        (loom_paths / f"many_{number:03}" / "loom.yaml").write_text("loom: 7\n")
    found = complete(Asker(site), "loom://looms/{name}", "name", "many_")
    assert (len(found["values"]), found["total"], found["hasMore"]) == (100, 101, True)


@pytest.mark.rule("N5", "E3")
@pytest.mark.parametrize("version", [LEGACY[0], MODERN])
@pytest.mark.parametrize(
    ("ref", "name", "place"),
    [
        ({"type": "ref/resource", "uri": "loom://looms/{other}"}, "name", "/ref/uri"),
        ({"type": "ref/resource", "uri": "loom://looms/trial"}, "name", "/ref/uri"),
        ({"type": "ref/resource", "uri": ""}, "name", "/ref/uri"),
        ({"type": "ref/resource", "uri": "loom://looms/{name}"}, "id", "/argument/name"),
        ({"type": "ref/prompt", "name": "nowhere"}, "input", "/ref/name"),
        ({"type": "ref/prompt", "name": "trial"}, "name", "/argument/name"),
        ({"type": "ref/tool", "name": "run"}, "input", None),
        ({"type": "ref/prompt", "uri": "loom://looms/{name}"}, "name", None),
        ("loom://looms/{name}", "name", None),
    ],
    ids=str,
)
def test_what_cannot_be_completed_is_refused(
    site: Site, service: Service, version: str, ref: Any, name: str, place: str | None
) -> None:
    error = Asker(site, version).error("completion/complete", ref=ref, argument={"name": name, "value": ""})
    assert error["code"] == -32602
    if place is not None:
        assert error["data"]["validation"]["issues"][0]["path"] == place


@pytest.mark.rule("N5")
def test_the_name_header_says_the_same_prompt_as_the_body(site: Site, service: Service) -> None:
    live = Asker(site).live
    assert live.modern("prompts/get", {"name": "trial"}).status == 200
    for header in (None, "assist"):
        answer = live.modern("prompts/get", {"name": "trial"}, headers={"Mcp-Name": header})
        assert (answer.status, answer.error_code) == (400, -32020)
