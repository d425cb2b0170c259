"""Making Projects."""

from __future__ import annotations

import datetime as dt

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from apps.access.models import Project
from apps.core.errors import ErrorCode, Issue, LoomError, invalid_request

DEFAULT_PROJECT = "default"


def create_project(*, name: str, now: dt.datetime) -> Project:
    """A new Project; ``CONFLICT`` when the name is taken, ``INVALID_REQUEST`` when it is none."""
    project = Project(name=name, created_at=now)
    try:
        project.clean_fields()
    except ValidationError as error:
        raise invalid_request("CreateProject", [Issue("pattern", "/name", " ".join(error.messages))]) from None
    try:
        with transaction.atomic():
            project.save(force_insert=True)
    except IntegrityError:
        raise LoomError(ErrorCode.CONFLICT, f"There is a Project {name} already.") from None
    return project


def ensure_default_project(*, now: dt.datetime) -> Project:
    """The Project that every installation has."""
    with transaction.atomic():
        return Project.objects.get_or_create(name=DEFAULT_PROJECT, defaults={"created_at": now})[0]
