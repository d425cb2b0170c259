"""The search Tools of background agents: they find and read what is the Project's, and refuse the rest in words."""

from __future__ import annotations

from typing import Any

import pytest

from apps.access.services.projects import create_project
from apps.agent_sessions.services.search_tools import search_tools
from apps.core import clock
from apps.core.errors import LoomError
from tests.conftest import Service


def use(name: str, project_id: Any, **arguments: Any) -> Any:
    tool = next(one for one in search_tools() if one.declared.id == name)
    return tool.run(project_id, arguments)


@pytest.mark.rule("B2", "B7")
def test_an_agent_finds_results_and_reads_them(service: Service) -> None:
    service.finish(do=[{"artifact": {"text": "the notes of spring"}, "record": "r/1 ü"}])
    mine = service.caller.project_id
    assert [tool.declared.id for tool in search_tools()] == ["search", "read_result"]
    (found,) = use("search", mine, query="spring notes", source="ledger")["results"]
    assert use("read_result", mine, url=found["url"]) == {"url": found["url"], "data": {"text": "the notes of spring"}}
    (record,) = use("search", mine, query="r 1 ü")["results"]
    assert use("read_result", mine, url=record["url"])["data"] == {"index": 0}


@pytest.mark.rule("K10", "E5")
def test_another_project_s_address_reads_as_one_of_nothing(service: Service) -> None:
    service.finish(do=[{"artifact": 1, "record": "r-1"}])
    stranger = create_project(name="elsewhere", now=clock.now()).pk

    def told(url: str) -> str:
        with pytest.raises(LoomError) as refused:
            use("read_result", stranger, url=url)
        return refused.value.message.replace(url, "URL")

    assert told("loom://records/r-1") == told("loom://records/r-2")
    assert use("search", stranger, query="r 1") == {"results": []}


@pytest.mark.parametrize(
    "url",
    [None, 7, "", "loom://runs/x", "https://example.org", "loom://records/", "loom://records/a/b", "loom://records/%00",
     "loom://artifacts/%ed%a0%80", "file:///etc/passwd"],
)  # fmt: skip
def test_what_is_no_address_of_a_result_is_refused_in_words(service: Service, url: Any) -> None:
    with pytest.raises(LoomError, match=r"Send the loom:// `url`|There is nothing at"):
        use("read_result", service.caller.project_id, url=url)


def test_what_is_too_large_for_a_conversation_is_refused(service: Service) -> None:
    service.finish(do=[{"artifact": "x" * 300_000}])
    (artifact,) = service.call("list_artifacts")["artifacts"]["data"]
    with pytest.raises(LoomError, match="bytes of JSON"):
        use("read_result", service.caller.project_id, url=f"loom://artifacts/{artifact['artifactId']}")
