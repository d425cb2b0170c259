from typing import Literal

from pydantic import BaseModel

from loomsvc.authoring import StageContext


class Nothing(BaseModel):
    pass


class Thought(BaseModel):
    outcome: Literal["done"]


def begin(context: StageContext) -> Nothing:
    return Nothing()
