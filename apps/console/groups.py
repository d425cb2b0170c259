"""Groups to begin with, so that nobody has to put permissions together: who only looks, and who steers Runs."""

from __future__ import annotations

from django.contrib.auth.models import Group
from django.contrib.auth.models import Permission as Granted

from apps.console.permissions import SUPERUSER_ONLY, Permission

GROUPS: dict[str, tuple[Permission, ...]] = {
    "Viewers": (Permission.SEE,),
    "Operators": tuple(
        each for each in Permission if each not in SUPERUSER_ONLY | {Permission.CREDENTIALS, Permission.MODELS}
    ),
}


def make_groups() -> dict[str, str]:
    """Each group's name and what it gives; a group that is there gets what it lacks and loses nothing."""
    told = {}
    for name, permissions in GROUPS.items():
        group, _ = Group.objects.get_or_create(name=name)
        codenames = [permission.value for permission in permissions]
        group.permissions.add(*Granted.objects.filter(content_type__app_label="console", codename__in=codenames))
        told[name] = ", ".join(codenames)
    return told
