"""Somebody's own Loom folder, over the official MCP client, on a service of its own."""

# ruff: noqa: F811 - the fixture comes from local_service
from __future__ import annotations

import asyncio
import shutil
import uuid
from pathlib import Path
from typing import Any

import pytest
from local_service import LOOMS, Services, Up, services  # noqa: F401
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client

CSV = 'city,amount\nRome,10.5\nOslo,"1,5"\nRome,2\nOslo,abc\n,7\n'


class Client:
    """What an agent does: calls Tools and reads their structured results."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self._session.call_tool(tool, arguments)
        assert result.structuredContent is not None
        return result.structuredContent

    async def finish(self, loom: str, given: Any) -> dict[str, Any]:
        instance = (await self.call("status"))["service"]["instanceId"]
        identity = {"operationId": str(uuid.uuid4()), "serviceInstanceId": instance}
        started = await self.call("run", loomName=loom, input=given, **identity)
        assert started["receipt"]["status"] == "accepted", started
        while True:
            run: dict[str, Any] = (await self.call("get_run", runId=started["run"]["runId"]))["run"]
            if run["status"] not in ("queued", "running"):
                return run
            await asyncio.sleep(0.05)


def drive(up: Up, act: Any) -> None:
    async def session() -> None:
        entry = up.connection["entries"]["agent_ide"]
        headers = {"Authorization": f"Bearer {entry['token']}"}
        async with (
            streamablehttp_client(up.url + entry["path"], headers=headers) as (read, write, _),
            ClientSession(read, write) as client,
        ):
            await client.initialize()
            await act(Client(client))

    asyncio.run(asyncio.wait_for(session(), 40))


@pytest.mark.rule("N5", "N8", "O1", "R7", "R12", "S1")
def test_a_folder_in_loom_paths_is_listed_runs_and_leaves_its_results(services: Services, tmp_path: Path) -> None:
    looms = tmp_path / "my looms"
    shutil.copytree(LOOMS / "csv_report", looms / "csv_report")
    up = services.up(tmp_path / "data", LOOM_PATHS=str(looms), LOOM_CSV_REPORT_CURRENCY="NOK")

    async def act(client: Client) -> None:
        listed = {loom["loomName"]: loom for loom in (await client.call("list_looms"))["looms"]}
        assert listed["csv_report"]["status"] == "ready"
        assert listed["csv_report"]["inputSchema"]["required"] == ["csv"]
        run = await client.finish("csv_report", {"csv": CSV, "flaky": True})
        assert (run["status"], run["outcome"]) == ("completed", "done"), run
        found = await client.call("get_artifact", loomName="csv_report", stageName="report")
        report = found["artifact"]["data"]
        assert [(one["group"], one["total"]) for one in report["totals"]] == [("Oslo", 1.5), ("Rome", 12.5)]
        assert (report["dropped"], report["currency"]) == (2, "NOK")
        (record_id,) = run["results"]["recordIds"]
        assert (await client.call("get_record", recordId=record_id))["record"]["data"]["groups"] == ["Oslo", "Rome"]
        refused = await client.call("run", loomName="csv_report", input={}, operationId=str(uuid.uuid4()),
                                    serviceInstanceId=run["origin"]["serviceInstanceId"])  # fmt: skip
        assert refused["error"]["validation"]["issues"][0]["path"] == "/input/csv"

    drive(up, act)
