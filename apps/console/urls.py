"""The pages under ``/admin/console/``; their names live in the namespace ``admin``."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.console.pages import (
    access,
    agents,
    artifacts,
    audit,
    bulk,
    health,
    looms,
    mirrors,
    models,
    rows,
    run,
    runs,
    steering,
)

urlpatterns: list[URLPattern] = [
    path("runs/", runs.runs, name="console_runs"),
    path("runs/bulk/", bulk.ask, name="console_bulk"),
    path("runs/bulk/do/", bulk.do, name="console_bulk_do"),
    path("runs/<uuid:run_id>/", run.run, name="console_run"),
    *(
        path(f"runs/<uuid:run_id>/{verb}/", steering.steer, {"verb": verb}, name=f"console_run_{verb}")
        for verb in steering.VERBS
    ),
    path("runs/<uuid:run_id>/export/", steering.export, name="console_run_export"),
    path("looms/", looms.looms, name="console_looms"),
    path("looms/<str:loom_name>/", looms.loom, name="console_loom"),
    path("looms/<str:loom_name>/releases/", looms.releases_compared, name="console_releases"),
    path("artifacts/", artifacts.artifacts, name="console_artifacts"),
    path("artifacts/one/", artifacts.artifact, name="console_artifact"),
    path("audit/", audit.audit, name="console_audit"),
    path("audit/operation/", audit.operation, name="console_operation"),
    path("health/", health.health, name="console_health"),
    path("mirrors/", mirrors.mirrors, name="console_mirrors"),
    path("mirrors/<uuid:mirror_id>/", mirrors.mirror, name="console_mirror"),
    path("mirrors/<uuid:mirror_id>/restore/", mirrors.restore, name="console_mirror_restore"),
    path("agents/", agents.agents, name="console_agents"),
    path("models/", models.models, name="console_models"),
    path("models/choose/", models.choose, name="console_model_choose"),
    path("access/", access.access, name="console_access"),
    path("access/create/", access.create, name="console_credential_create"),
    path("access/<str:public_id>/revoke/", access.revoke, name="console_credential_revoke"),
    path("rows/", rows.rows, name="console_rows"),
]
