"""The pages under ``/admin/console/``; their names live in the namespace ``admin``."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.console.pages import rows

urlpatterns: list[URLPattern] = [
    path("rows/", rows.rows, name="console_rows"),
]
