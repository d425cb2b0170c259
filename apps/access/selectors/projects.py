"""Reads of Projects and credentials."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from django.db.models import Q

from apps.access.models import Credential, Project
from apps.core.errors import ErrorCode, LoomError


@dataclass(frozen=True, slots=True)
class ProjectName:
    """A Project as it is referred to."""

    id: uuid.UUID
    name: str


def project_names(*, most: int | None = None) -> list[ProjectName]:
    """Every Project by name, or the first ``most`` of them."""
    return [ProjectName(*row) for row in Project.objects.order_by("name").values_list("id", "name")[:most]]


def project_named(name: str) -> Project:
    """The Project called ``name``; ``NOT_FOUND`` when there is none."""
    project = Project.objects.filter(name=name).first()
    if project is None:
        raise LoomError(
            ErrorCode.NOT_FOUND, f"There is no Project {name}; `loomsvc project_create {name}` makes one of that name."
        )
    return project


def mirror_projects(*, project_id: uuid.UUID, credential_id: uuid.UUID | None) -> list[Project]:
    """The home Project and those that the credential may write Mirrors into, by name (N1, M2)."""
    mine = Q(pk=project_id)
    if credential_id is not None:
        granted = Credential.mirror_projects.through.objects.filter(credential_id=credential_id)
        mine |= Q(pk__in=granted.values("project_id"))
    return list(Project.objects.filter(mine).order_by("name"))


def credentials() -> list[Credential]:
    """Every credential, revoked ones too, oldest first."""
    return list(Credential.objects.select_related("project").prefetch_related("mirror_projects").order_by("id"))


def credential(credential_id: uuid.UUID) -> Credential | None:
    """The credential with this internal id."""
    return Credential.objects.filter(pk=credential_id).first()
