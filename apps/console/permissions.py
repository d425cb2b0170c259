"""What an operator may do, and in which Projects (K14).

A permission that Django gives a person (by themselves or by a group) holds in every Project.  A
:class:`~apps.console.models.ProjectRole` gives them a group's permissions in one Project only.
Whoever lacks ``SEE`` in a Project may do nothing there.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.contrib.auth.models import User
from django.http import HttpRequest

from apps.access.domain.entries import CONSOLE_ENTRY
from apps.access.selectors.projects import project_names
from apps.console.models import ProjectRole
from apps.core.caller import Caller


class Permission(enum.StrEnum):
    """One thing an operator may be allowed; the value is Django's codename in the app ``console``."""

    SEE = "see_project"
    PAUSE = "pause_run"
    RESUME = "resume_run"
    CANCEL = "cancel_run"
    ANSWER = "answer_ask"
    FORK = "fork_run"
    EXPORT = "export_mirror"
    CREDENTIALS = "manage_credentials"
    MODELS = "choose_model"
    # No role gives these: they are for superusers.
    BULK = "bulk_runs"
    RESTORE = "restore_mirror"
    KEYS = "manage_keys"


SUPERUSER_ONLY = frozenset({Permission.BULK, Permission.RESTORE, Permission.KEYS})


@dataclass(frozen=True, slots=True)
class Operator:
    """A person of the staff: what they may do everywhere, and what in single Projects besides.

    ``projects`` are those they see, by id, in order of their names.
    """

    name: str
    is_superuser: bool
    projects: Mapping[uuid.UUID, str] = field(default_factory=dict)
    everywhere: frozenset[str] = frozenset()
    in_project: Mapping[uuid.UUID, frozenset[str]] = field(default_factory=dict)

    def may(self, permission: Permission, project_id: uuid.UUID | None = None) -> bool:
        """In this Project; without one: in at least one Project."""
        if self.is_superuser:
            return True
        if permission in SUPERUSER_ONLY:
            return False
        if project_id is None:
            return any(self.may(permission, project) for project in self.projects)
        held = self.everywhere | self.in_project.get(project_id, frozenset())
        return Permission.SEE in held and permission in held

    def where(self, permission: Permission) -> dict[uuid.UUID, str]:
        """The Projects in which they may, as ``projects`` has them."""
        return {key: name for key, name in self.projects.items() if self.may(permission, key)}

    def project_named(self, name: str) -> uuid.UUID | None:
        """The Project of this name, if they see it."""
        return next((key for key, known in self.projects.items() if known == name), None)

    def caller(self, project_id: uuid.UUID) -> Caller:
        """This person as who calls, in one of the Projects they see (O10)."""
        return Caller(
            project_id=project_id,
            project_name=self.projects[project_id],
            principal=f"operator:{self.name}",
            source=CONSOLE_ENTRY.source,
            entry=CONSOLE_ENTRY.path,
        )


def operator_of(request: HttpRequest) -> Operator:
    """The operator behind a signed-in account, read once at each request."""
    found: Operator | None = getattr(request, "operator", None)
    if found is None:
        found = Operator("", False) if request.user.is_anonymous else _read(request.user)
        request.operator = found  # type: ignore[attr-defined]
    return found


def _read(user: User) -> Operator:
    names = project_names()
    if user.is_superuser:
        return Operator(user.get_username(), True, {project.id: project.name for project in names})
    everywhere = frozenset(
        codename
        for label, _, codename in (text.partition(".") for text in user.get_all_permissions())
        if label == ProjectRole._meta.app_label
    )
    in_project: dict[uuid.UUID, set[str]] = {}
    rows = ProjectRole.objects.filter(user=user, group__permissions__content_type__app_label="console")
    for project_id, codename in rows.values_list("project_id", "group__permissions__codename"):
        in_project.setdefault(project_id, set()).add(codename)
    seen = {
        project.id: project.name
        for project in names
        if Permission.SEE in everywhere or Permission.SEE in in_project.get(project.id, set())
    }
    return Operator(
        user.get_username(), False, seen, everywhere, {key: frozenset(held) for key, held in in_project.items()}
    )
