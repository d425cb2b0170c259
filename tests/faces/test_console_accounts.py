"""Whoever may change accounts does not become a superuser by it (K14)."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, Permission

from tests.faces.console_people import operator, root, signed_in

pytestmark = pytest.mark.django_db

ACCOUNT = {
    "username": "clerk",
    "is_active": "on",
    "is_staff": "on",
    "is_superuser": "on",
    "email": "",
    "date_joined_0": "2026-01-01",
    "date_joined_1": "00:00:00",
    "project_roles-TOTAL_FORMS": "0",
    "project_roles-INITIAL_FORMS": "0",
}
PASSWORD = {"password1": "another-one-7351", "password2": "another-one-7351", "usable_password": "true"}


@pytest.mark.rule("K14")
def test_accounts_and_roles_are_changed_by_superusers_alone() -> None:
    clerk, boss, group = operator("clerk"), root("boss"), Group.objects.create(name="operators")
    clerk.user_permissions.set(Permission.objects.filter(content_type__app_label="auth"))
    clerk.groups.add(group)
    every = list(map(str, Permission.objects.values_list("pk", flat=True)))
    forms = {
        f"/admin/auth/user/{clerk.pk}/change/": ACCOUNT,
        f"/admin/auth/user/{boss.pk}/password/": PASSWORD,
        f"/admin/auth/user/{boss.pk}/delete/": {"post": "yes"},
        "/admin/auth/user/add/": {"username": "second", **PASSWORD},
        f"/admin/auth/group/{group.pk}/change/": {"name": "operators", "permissions": every},
        "/admin/auth/group/add/": {"name": "more", "permissions": every},
    }
    client = signed_in(clerk)
    assert {address: client.post(address, fields).status_code for address, fields in forms.items()} == dict.fromkeys(
        forms, 403
    )
    assert client.get(f"/admin/auth/user/{clerk.pk}/change/").status_code == 200, "looking is another permission"
    clerk.refresh_from_db()
    boss.refresh_from_db()
    assert not clerk.is_superuser
    assert boss.check_password("x")
    assert not group.permissions.exists()
    changed = signed_in(boss).post(f"/admin/auth/user/{clerk.pk}/change/", ACCOUNT)
    assert changed.status_code == 302
    clerk.refresh_from_db()
    assert clerk.is_superuser
