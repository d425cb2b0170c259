"""The YAML files that say with what this service reasons: its models, and scripts of the `offline` one (B1, B6)."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from apps.looms.checking.yaml_tree import read_yaml


class FileShape(BaseModel):
    """A part of such a file."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class ModelsInvalid(ValueError):
    """A file of models or scripts cannot be used; the message says where and why."""


ShapeT = TypeVar("ShapeT", bound=FileShape)


def read_shape(shape: type[ShapeT], text: str, file: str) -> ShapeT:
    """What the text of ``file`` says; an empty one is a mapping of nothing.  Raises :class:`ModelsInvalid`."""
    document, problems = read_yaml(text, file)
    if document is None or problems:
        raise ModelsInvalid(f"{problems[0].place}: {problems[0].message}")
    try:
        return shape.model_validate({} if document.value is None else document.value)
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in detail["loc"]) or "the file"
        line = document.line(detail["loc"])
        raise ModelsInvalid(f"{file}, line {line}: `{place}`: {detail['msg'].lower()}.") from None
