"""Who may see and do what in the console: by permission, everywhere or in single Projects (K14)."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest
from console_people import form, operator, page, press, root, signed_in, text_of, with_role
from django.test import Client

from apps.access.services.projects import create_project
from apps.core import clock

#: Verb, the permission it needs, how a Run is brought to where it makes sense, and what is filled in.
VERBS = [
    ("pause", "pause_run", "waiting", {}),
    ("resume", "resume_run", "paused", {}),
    ("resume-step", "resume_run", "paused", {}),
    ("cancel", "cancel_run", "waiting", {}),
    ("answer", "answer_ask", "waiting", {"own0": "yes"}),
]


def run_in(service: Any, status: str) -> str:
    """A Run that waits for a person, or rests before its first Step."""
    run_id: str = service.start(do=[{"ending": "ask"}])
    if status == "paused":
        service.operate("pause_run", runId=run_id)
    else:
        service.work()
    assert service.run(run_id)["status"] == status
    return run_id


def unmarked(response: Any) -> str:
    """A page without what is made anew for each."""
    return re.sub(r'(nonce|value)="[^"]*"', "", text_of(response))


@pytest.mark.rule("K14")
@pytest.mark.parametrize(("verb", "permission", "status", "filled"), VERBS)
def test_each_action_needs_its_own_permission_in_the_runs_project(
    service: Any, verb: str, permission: str, status: str, filled: dict[str, str]
) -> None:
    here, elsewhere = service.caller.project_id, create_project(name="elsewhere", now=clock.now()).pk
    others = {p for _, p, _, _ in VERBS if p != permission}
    wrong: dict[str, tuple[Any, int]] = {
        "without any": (operator("none"), 403),
        "with the permission but no sight": (operator("blind", permission), 403),
        "view only": (operator("viewer", "see_project"), 403),
        "with every other permission": (operator("other", "see_project", *others), 403),
        "with the permission in another Project": (
            with_role(operator("away", "see_project"), elsewhere, "see_project", permission), 403,
        ),
        "who sees another Project only": (
            with_role(operator("stranger"), elsewhere, "see_project", permission), 404,
        ),
        "no longer active": (operator("gone", "see_project", permission, is_active=False), 302),
    }  # fmt: skip
    run_id = run_in(service, status)
    address = f"{page(run_id)}{verb}/"
    fields = form(signed_in(root()), page(run_id), address)
    before = service.run(run_id)
    for who, (user, expected) in wrong.items():
        assert signed_in(user).post(address, {**fields, **filled}).status_code == expected, who
        assert service.run(run_id) == before, who
    assert Client().post(address, {**fields, **filled}).status_code == 302
    assert service.run(run_id) == before

    right = {
        "everywhere": operator("everywhere", "see_project", permission),
        "in this Project": with_role(operator("here"), here, "see_project", permission),
        "sight everywhere, the rest here": with_role(operator("mixed", "see_project"), here, permission),
        "superuser": root("super"),
    }
    for who, user in right.items():
        run_id = run_in(service, status)
        before = service.run(run_id)
        found = press(signed_in(user), run_id, verb, **filled)
        assert (found.status_code, found.headers.get("Location")) == (302, page(run_id)), who
        assert service.run(run_id)["revision"] > before["revision"], who


@pytest.mark.rule("K14", "K10")
def test_another_projects_run_is_an_unknown_run_wherever_it_is_asked_for(service: Any) -> None:
    elsewhere = create_project(name="elsewhere", now=clock.now()).pk
    run_id = run_in(service, "waiting")
    stranger = signed_in(with_role(operator("stranger"), elsewhere, "see_project", "pause_run"))
    unknown = "0198c1f2-7c7e-7000-8000-000000000000"
    for path in ("", "pause/"):
        send = stranger.post if path else stranger.get
        theirs, nobodys = send(f"{page(run_id)}{path}"), send(f"{page(unknown)}{path}")
        assert theirs.status_code == nobodys.status_code == 404
        assert "Not found" in text_of(theirs)  # type: ignore[arg-type]
        assert unmarked(theirs) == unmarked(nobodys)
    for path in ("/admin/", "/admin/console/runs/", f"/admin/console/runs/?text={run_id}"):
        shown = text_of(stranger.get(path))  # type: ignore[arg-type]
        assert page(run_id) not in shown
        assert "trials" not in shown


@pytest.mark.rule("K14")
def test_view_only_staff_see_everything_and_are_offered_nothing(service: Any) -> None:
    run_id = run_in(service, "waiting")
    viewer = signed_in(operator("viewer", "see_project"))
    shown = text_of(viewer.get(page(run_id)))  # type: ignore[arg-type]
    assert "Go on?" in shown
    assert "Your account may not answer" in shown
    assert "may not change it" in shown
    assert 'action="/admin/console' not in shown
    listed = text_of(viewer.get("/admin/console/runs/"))  # type: ignore[arg-type]
    assert page(run_id) in listed
    assert "Cancel chosen" not in listed


@pytest.mark.rule("K14")
def test_only_superusers_act_on_many_runs_at_once(service: Any) -> None:
    run_id = run_in(service, "waiting")
    everything = ("see_project", "pause_run", "resume_run", "cancel_run", "answer_ask", "fork_run", "export_mirror")
    able = signed_in(operator("able", *everything, "manage_credentials", "choose_model"))
    ask = f"/admin/console/runs/bulk/?do=cancel&run={run_id}"
    assert able.get(ask).status_code == 403
    fields = form(signed_in(root()), ask, "/admin/console/runs/bulk/do/")
    assert able.post("/admin/console/runs/bulk/do/", fields).status_code == 403
    assert service.run(run_id)["status"] == "waiting"


@pytest.mark.rule("K14")
def test_roles_are_given_by_superusers_alone(service: Any) -> None:
    user = operator("able")
    boss = signed_in(root())
    shown = text_of(boss.get(f"/admin/auth/user/{user.pk}/change/"))  # type: ignore[arg-type]
    assert "roles in single Projects" in shown.replace("Roles", "roles")
    from django.contrib.auth.models import Permission

    clerk = operator("clerk")
    clerk.user_permissions.set(Permission.objects.filter(content_type__app_label="auth"))
    shown = text_of(signed_in(clerk).get(f"/admin/auth/user/{user.pk}/change/"))  # type: ignore[arg-type]
    assert "project_roles" not in shown


def test_whoever_sees_nothing_is_told_what_is_missing(service: Any) -> None:
    found = signed_in(operator("new")).get("/admin/")
    assert found.status_code == 403
    assert "see_project" in text_of(found)  # type: ignore[arg-type]
    assert uuid.UUID(service.instance_id).hex not in text_of(found)  # type: ignore[arg-type]
