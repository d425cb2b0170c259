from pydantic import BaseModel

from loomsvc.authoring import CodeStep


class Amount(BaseModel):
    n: int
    looks: bool = True  # False: puts without a look at what stands there


def add(step: CodeStep[None, Amount]) -> str:
    found = step.artifacts.get(step.loom_name, step.stage_name) if step.input.looks else None
    step.put_artifact({"total": (found.data["total"] if found else 0) + step.input.n})
    step.append_record({"n": step.input.n, "attempt": step.attempt}, record_id=f"tally-{step.run_id}")
    return "added"
