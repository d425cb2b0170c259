"""Operators of the console, and Runs for them to look at."""

from __future__ import annotations

import hashlib
import re
import uuid
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.http import HttpResponse
from django.test import Client

from apps.console.models import ProjectRole


def operator(name: str, *held: str, **more: Any) -> User:
    """An account of the staff with these permissions everywhere."""
    user: User = get_user_model().objects.create_user(name, password="x", is_staff=True, **more)
    user.user_permissions.set(permissions(*held))
    return user


def permissions(*codenames: str) -> list[Permission]:
    found = list(Permission.objects.filter(content_type__app_label="console", codename__in=codenames))
    assert len(found) == len(codenames)
    return found


def with_role(user: User, project_id: uuid.UUID, *codenames: str) -> User:
    """The same account with a group's permissions in one Project."""
    group = Group.objects.create(name=f"{user.username} in {project_id}")
    group.permissions.set(permissions(*codenames))
    ProjectRole.objects.create(user=user, project_id=project_id, group=group)
    return user


def root(name: str = "root") -> User:
    user: User = get_user_model().objects.create_superuser(name, password="x")
    return user


def signed_in(user: User, **more: Any) -> Client:
    client = Client(**more)
    client.force_login(user)
    return client


def page(run_id: str, tab: str = "") -> str:
    return f"/admin/console/runs/{run_id}/" + (f"?tab={tab}" if tab else "")


def text_of(response: HttpResponse) -> str:
    return response.content.decode()


def form(client: Client, address: str, action: str) -> dict[str, str]:
    """The hidden fields of the form on a page that goes to ``action``."""
    shown = text_of(client.get(address))  # type: ignore[arg-type]
    found = re.search(rf'<form[^>]*action="{re.escape(action)}".*?</form>', shown, re.DOTALL)
    assert found, f"no form to {action}"
    return dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', found[0]))


def press(client: Client, run_id: str, verb: str, **filled: str) -> HttpResponse:
    """Fill in and send the form for ``verb`` on the page of a Run."""
    action = f"{page(run_id)}{verb}/"
    return client.post(action, {**form(client, page(run_id), action), **filled})  # type: ignore[return-value]


def digest() -> str:
    """All rows of all tables."""
    found = hashlib.sha256()
    with connection.cursor() as cursor:
        for table in sorted(connection.introspection.table_names(cursor)):
            cursor.execute(f'SELECT * FROM "{table}"')
            found.update(repr((table, sorted(map(repr, cursor.fetchall())))).encode())
    return found.hexdigest()
