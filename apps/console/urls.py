"""The pages under ``/admin/console/``; their names live in the namespace ``admin``."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.console.pages import bulk, rows, run, runs, steering

urlpatterns: list[URLPattern] = [
    path("runs/", runs.runs, name="console_runs"),
    path("runs/bulk/", bulk.ask, name="console_bulk"),
    path("runs/bulk/do/", bulk.do, name="console_bulk_do"),
    path("runs/<uuid:run_id>/", run.run, name="console_run"),
    *(
        path(f"runs/<uuid:run_id>/{verb}/", steering.steer, {"verb": verb}, name=f"console_run_{verb}")
        for verb in steering.VERBS
    ),
    path("rows/", rows.rows, name="console_rows"),
]
