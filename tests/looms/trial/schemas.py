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
    #: Kills its own process in the attempts up to this one.
    kills: int = 0
    #: Waits, for a minute at most, until this file is there.
    until: str | None = None
    #: Asks for this many bytes at once.
    allocate: int = 0
    #: Lets this process live on when its parent dies.
    outlive: bool = False


class Plan(BaseModel):
    do: list[Do] = []
    effects: str | None = None
    close: Do = Do()


class Work(BaseModel):
    index: int = 0
    trail: list[str] = []
