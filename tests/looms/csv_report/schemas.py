from pydantic import BaseModel, Field


class Input(BaseModel):
    csv: str
    group_by: str = "city"
    amount: str = "amount"
    flaky: bool = False  # the first attempt of `read` fails, to show the retry


class Settings(BaseModel):
    max_rows: int = 1000
    currency: str = "EUR"


class Problem(BaseModel):
    row: int
    message: str


class Row(BaseModel):
    number: int
    group: str
    amount: str


class Parsed(BaseModel):
    rows: list[Row] = Field(default_factory=list)
    problems: list[Problem] = Field(default_factory=list)  # feedback for `repair`
    dropped: list[Problem] = Field(default_factory=list)
    rounds: int = 0


class RowsArtifact(BaseModel):
    version: int = 1
    rows: list[Row]
    dropped: list[Problem]


class Total(BaseModel):
    group: str
    count: int
    total: float


class Report(BaseModel):
    totals: list[Total] = Field(default_factory=list)
    dropped: int = 0
