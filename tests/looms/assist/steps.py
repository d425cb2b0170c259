from pydantic import BaseModel

from loomsvc.authoring import CodeStep, StageContext


class Input(BaseModel):
    """``gate``: a Tool that lingers goes on once this file is there; ``mark``: it makes this one first."""

    gate: str = ""
    mark: str = ""


class Notes(BaseModel):
    lines: list[str] = []


class Written(BaseModel):
    outcome: str
    text: str


def begin(context: StageContext[Input]) -> Notes:
    return Notes()


def prepare(step: CodeStep[Notes, Input]) -> str:
    return "ready"


def keep(step: CodeStep[Notes, Input]) -> str:
    step.put_artifact({"text": step.previous.text, "lines": step.state.lines})
    step.append_record({"outcome": step.previous.outcome})
    return "kept"
