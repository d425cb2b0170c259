from pydantic import BaseModel


class Given(BaseModel):
    text: str


class Work(BaseModel):
    text: str
