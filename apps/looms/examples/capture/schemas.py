"""What Capture takes."""

from pydantic import BaseModel, ConfigDict, Field


class Note(BaseModel):
    """One note."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(min_length=1, max_length=10_000, pattern=r"\S", description="The note, kept as given.")
    tags: list[str] = Field(default=[], max_length=20, description="Words to find it by.")
