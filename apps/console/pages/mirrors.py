"""Mirrors: which are kept, what is in one and whether it is whole, and restoring it: first as a plan, then for good."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect

from apps.console.page import page, render, require
from apps.console.pages.choosing import choices, choices_named, page_in
from apps.console.permissions import Operator, Permission
from apps.console.record import record_restore
from apps.core import clock
from apps.core.errors import LoomError
from apps.mirrors.bundles.refusals import MirrorInvalid
from apps.mirrors.contracts import ListMirrors, MirrorList, PlanEntry
from apps.mirrors.selectors.mirrors import find_mirror, list_mirrors, view_of
from apps.mirrors.services.inspecting import verify
from apps.mirrors.services.keeping import taken_from_storage
from apps.mirrors.services.planning import Target, has_conflict
from apps.mirrors.services.restoring import Restored, restore_mirror

ROWS = 50
#: Entries of one branch of a plan that are shown; conflicts come first.
MOST_SHOWN = 100
SCOPES = {
    "all": "everything",
    "artifacts": "its Artifacts",
    "records": "its Records",
    "run": "the Run, paused at the boundary",
}
_BRANCHES = {"artifact": "Artifacts", "record": "Records", "release": "Release", "run": "Run"}
_ACTIONS = ("conflict", "replace", "create", "unchanged")


@dataclass(frozen=True, slots=True)
class Branch:
    """The things of one kind in a plan: the first of them, of how many, and how many of each action."""

    title: str
    shown: Sequence[PlanEntry]
    of: int
    actions: dict[str, int]


@page(Permission.SEE)
def mirrors(request: HttpRequest, operator: Operator) -> HttpResponse:
    """A keyset page over the Projects that the operator sees, the newest first."""

    def read(cursor: str | None) -> MirrorList:
        return list_mirrors(projects=operator.projects, query=ListMirrors(limit=ROWS, cursor=cursor))

    found, wrong = page_in(request, read, "this list")
    return render(request, "console/mirrors.html", {"title": "Mirrors", "found": found, "wrong": wrong})


@page(Permission.SEE, long=True)
def mirror(request: HttpRequest, operator: Operator, mirror_id: uuid.UUID) -> HttpResponse:
    """One Mirror; ``?verify=1`` computes its digests anew, ``?project=&scope=`` shows what restoring would do."""
    return _page(request, operator, mirror_id)


def _page(
    request: HttpRequest, operator: Operator, mirror_id: uuid.UUID, refused: str = "", done: Restored | None = None
) -> HttpResponse:
    kept = find_mirror(projects=operator.projects, mirror_id=str(mirror_id))
    asked = request.POST if request.method == "POST" else request.GET
    plan, target = done, None
    if "scope" in asked:
        target = _target(operator, kept.mirror_id, asked)
        if plan is None and not refused:
            plan, refused = _planned(operator, target, kept.digest)
    chosen = operator.projects.get(target.project_id if target else kept.project_id, "")
    context: dict[str, Any] = {
        "title": f"Mirror of {kept.loom_name}",
        "mirror": view_of(kept, operator.projects[kept.project_id]),
        "manifest": kept.manifest,
        "verification": verify(kept.digest) if "verify" in request.GET else None,
        "refused": refused,
        "target": target,
        "target_project": chosen,
        "projects": choices_named(chosen, operator.projects.values()),
        "scopes": choices(target.scope if target else "all", SCOPES),
        "tree": None if plan is None else _tree(plan.plan),
        "is_conflict": plan is not None and has_conflict(plan.plan),
        "may_restore": target is not None and operator.may(Permission.RESTORE, target.project_id),
    }
    return render(request, "console/mirror.html", context, status=409 if refused or done else 200)


def _target(operator: Operator, mirror_id: uuid.UUID, asked: QueryDict) -> Target:
    """What a form asks for; 404 for a Project or scope that the page did not offer."""
    project, scope = operator.project_named(asked.get("project", "")), asked.get("scope", "")
    if project is None or scope not in SCOPES:
        raise Http404
    return Target(mirror_id, project, scope)  # type: ignore[arg-type]  # one of SCOPES


def _planned(operator: Operator, target: Target, digest: str) -> tuple[Restored | None, str]:
    """The plan, or why there can be none."""
    try:
        with taken_from_storage(digest) as found:
            caller = operator.caller(target.project_id)
            return restore_mirror(caller=caller, target=target, found=found, dry_run=True, now=clock.now()), ""
    except MirrorInvalid as damage:
        return None, f"This Mirror is damaged and cannot be restored: {damage.problem}."


def _tree(plan: Sequence[PlanEntry]) -> list[Branch]:
    branches = []
    for kind, title in _BRANCHES.items():
        entries = sorted((entry for entry in plan if entry.kind == kind), key=lambda e: _ACTIONS.index(e.action))
        if entries:
            actions = {action: sum(entry.action == action for entry in entries) for action in _ACTIONS}
            counted = {action: number for action, number in actions.items() if number}
            branches.append(Branch(title, entries[:MOST_SHOWN], len(entries), counted))
    return branches


@page(Permission.RESTORE, methods=("POST",), otherwise="admin:console_mirror", long=True)
def restore(request: HttpRequest, operator: Operator, mirror_id: uuid.UUID) -> HttpResponse:
    """Carry the plan out, whole or not at all; the audit trail keeps who did."""
    kept = find_mirror(projects=operator.projects, mirror_id=str(mirror_id))
    target = _target(operator, kept.mirror_id, request.POST)
    require(operator, Permission.RESTORE, target.project_id)
    project = operator.projects[target.project_id]
    try:
        with taken_from_storage(kept.digest) as found, transaction.atomic():
            done = restore_mirror(
                caller=operator.caller(target.project_id), target=target, found=found, dry_run=False, now=clock.now()
            )
            if done.applied:
                said = f"restored {SCOPES[target.scope]} of Mirror {mirror_id} into Project {project}"
                record_restore(user=request.user, mirror_id=str(mirror_id), said=said)
    except MirrorInvalid as damage:
        return _page(request, operator, mirror_id, f"Nothing was restored: it is damaged. {damage.problem}.")
    except LoomError as error:
        return _page(request, operator, mirror_id, f"Nothing was restored. {error.message}")
    if not done.applied:
        return _page(request, operator, mirror_id, "Nothing was restored: something is in the way.", done)
    messages.success(request, f"Restored into Project {project}.")
    return redirect("admin:console_run", done.run_id) if done.run_id else redirect("admin:console_mirror", mirror_id)
