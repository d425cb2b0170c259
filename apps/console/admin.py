"""Operators: Django's own accounts, with what they may do in single Projects beside them (K14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group
from django.http import HttpRequest

from apps.console.models import ProjectRole

if TYPE_CHECKING:

    class _Inline(admin.TabularInline[ProjectRole, Any]): ...
else:
    _Inline = admin.TabularInline


class ProjectRoleInline(_Inline):
    """For superusers: whoever may give roles could give themselves any."""

    model = ProjectRole
    extra = 0
    verbose_name = "role in one Project"
    verbose_name_plural = "roles in single Projects"

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_superuser)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_view_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_view_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_view_permission(request)


class _ForSuperusers:
    """Others may look, as their permissions have it; whoever may change accounts could become a superuser."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_superuser)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_superuser)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_superuser)


admin.site.unregister(get_user_model())
admin.site.unregister(Group)


@admin.register(get_user_model())
class OperatorAdmin(_ForSuperusers, UserAdmin):  # type: ignore[type-arg]
    """An account, its permissions everywhere, and its roles in single Projects."""

    inlines = [ProjectRoleInline]


@admin.register(Group)
class RoleAdmin(_ForSuperusers, GroupAdmin):
    """The permissions that a role gives."""
