"""The index of words on a ledger that was there before it: earlier results are entered, and it can be taken out."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from apps.access.services.projects import create_project
from apps.core import clock
from apps.core.database import missing_triggers
from apps.results.doctoring import TRIGGERS_POSTGRESQL, TRIGGERS_SQLITE
from apps.results.selectors.searching import search_results


def migrate(name: str) -> Any:
    executor = MigrationExecutor(connection)
    executor.migrate([("results", name)])
    return executor.loader.project_state([("results", name)]).apps


@pytest.mark.django_db(transaction=True)
@pytest.mark.rule("B7")
def test_what_was_there_before_the_index_is_found() -> None:
    triggers = TRIGGERS_POSTGRESQL if connection.vendor == "postgresql" else TRIGGERS_SQLITE
    try:
        earlier = migrate("0001_initial")
        assert missing_triggers(triggers) == list(triggers)
        project, now = create_project(name="earlier", now=clock.now()), clock.now()
        about = {"loom_name": "notes", "stage_name": "work"}
        once: dict[str, Any] = {"digest": "0" * 64, "run_id": uuid.uuid4(), "created_at": now}
        earlier.get_model("results", "Record").objects.create(
            project_id=project.pk, record_id="r", data={"text": "spring"}, **about, **once
        )
        place = earlier.get_model("results", "Artifact").objects.create(
            project_id=project.pk, artifact_id="a", revision=2, created_at=now, updated_at=now, **about
        )
        for number, text in ((1, "summer"), (2, "autumn")):
            earlier.get_model("results", "ArtifactRevision").objects.create(
                artifact=place, revision=number, artifact_id_then="a", data=text, **once
            )
    finally:
        migrate("0003_enter_earlier_results")
    assert missing_triggers(triggers) == []

    def found(query: str) -> list[str]:
        page = search_results(project_id=project.pk, query=query, limit=10, cursor=None)
        return [one.url for one in page.results]

    assert (found("spring"), found("summer"), found("autumn")) == (["loom://records/r"], [], ["loom://artifacts/a"])
