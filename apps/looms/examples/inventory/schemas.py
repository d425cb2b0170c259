"""What Inventory takes, keeps and files."""

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class Request(BaseModel):
    """Which folder to look at."""

    model_config = ConfigDict(extra="forbid")

    folder: str = Field(
        min_length=1, max_length=4096, description="Absolute path of the folder on the service's machine."
    )
    include_hidden: bool = Field(default=False, description="Whether names that begin with a dot count, .git say.")
    large_bytes: int = Field(default=10_000_000, ge=1, description="Files from this size on are called large.")


class Settings(BaseModel):
    """LOOM_INVENTORY_ROOTS names the folders that may be looked at, separated as PATH is."""

    roots: str = ""

    def folders(self) -> list[Path]:
        """The allowed folders, with links resolved."""
        return [Path(root).resolve() for root in self.roots.split(os.pathsep) if root.strip()]


class File(BaseModel):
    """One regular file; ``path`` is relative to the folder."""

    path: str
    size: int
    sha256: str | None = None


class Survey(BaseModel):
    """The files found so far; ``skipped`` counts links, unreadable and oddly named files, and those past the limit."""

    files: list[File] = []
    skipped: int = 0
    hashed: int = 0


class Duplicates(BaseModel):
    """Files with the same content."""

    sha256: str
    size: int
    paths: list[str]


class Findings(BaseModel):
    """What the report says."""

    version: int = 1
    files: int = 0
    bytes: int = 0
    skipped: int = 0
    wasted_bytes: int = 0
    duplicates: list[Duplicates] = []
    large: list[File] = []
