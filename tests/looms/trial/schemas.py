from typing import Any

from pydantic import BaseModel


class Do(BaseModel):
    """One thing to do: how a segment ends, and what it stages first."""

    ending: str = "done"
    failures: int = 0
    error: str = "ConnectionError"
    artifact: Any = None
    record: str | None = None
    seconds: float = 0
    only_person: bool = False


class Plan(BaseModel):
    do: list[Do] = []
    effects: str | None = None
    close: Do = Do()


class Work(BaseModel):
    index: int = 0
    trail: list[str] = []
