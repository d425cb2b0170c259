import asyncio
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from loomsvc.authoring import CodeStep, StageContext, Wait


class Seen(BaseModel):
    seen: dict[str, Any] = {}


async def start(context: StageContext[Any]) -> Seen:
    await asyncio.sleep(0)
    return Seen()


async def use(step: CodeStep[Seen]) -> str:
    before = step.artifacts.get("asynchronous", "main")
    artifact_id = step.put_artifact({"by": "use"})
    step.append_record({"n": 1}, record_id=f"first-{step.run_id}")
    await asyncio.sleep(0)
    step.log.info("used")
    step.update(
        seen={
            "cancelled": step.cancelled(),
            "before": before is not None,
            "missing": [step.artifacts.get_by_id("nothing"), step.records.get("nothing")],
            "staged": step.artifacts.get_by_id(artifact_id).data,
            "latest": step.records.latest("asynchronous", "main").data,
            "previous": step.previous,
        }
    )
    return "used"


async def again(step: CodeStep[Seen]) -> Wait:
    found = step.artifacts.get("asynchronous", "main")
    step.replace_artifact(found.artifact_id, expected_revision=found.revision, data={"by": "again"})
    step.update(seen={**step.state.seen, "landed": found.data, "previous": step.previous})
    return step.sleep_until(step.now() + timedelta(milliseconds=10), then=woken)


async def woken(step: CodeStep[Seen]) -> str:
    await asyncio.sleep(0)
    found = step.artifacts.get("asynchronous", "main")
    step.put_artifact({"seen": step.state.seen, "found": found.data})
    return "done"
