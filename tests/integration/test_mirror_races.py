"""Restores that meet resumes at the same places (M5, M8)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from apps.core.database import for_update
from apps.results.services import mirroring
from apps.results.services.restoring import restore_artifacts
from apps.runs.services import diverging
from tests.chances import chance
from tests.conftest import Service
from tests.integration.attacking import deadlocks, meet, only_on_postgresql
from tests.integration.diverging_runs import add_keeper, creates, paused, somebody
from tests.integration.mirror_work import export, mirrors_folder
from tests.integration.test_mirror_restore import other, restore

__all__ = ["mirrors_folder", "other"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("mirrors_folder")]


@pytest.mark.rule("M5", "M8", "F13")
def test_a_restore_and_a_resume_that_make_the_same_place_wait_in_one_direction(
    service: Service, other: Service, loom_paths: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_on_postgresql()
    add_keeper(loom_paths)
    somebody(service, "new/main", creates("n", 1))
    somebody(service, "other/main", creates("a", 1))
    run = paused(service, [{"read": [["new", "main"], ["other", "main"]]}, {}])
    mirror = export(service, run)
    somebody(other, "other/main", creates("a", "another's"))
    restored = restore(service, mirror, "run")["run"]
    made, held = threading.Event(), threading.Event()
    lock, bring_back = for_update, restore_artifacts

    def after_making(rows: Any) -> Any:
        made.set()
        held.wait(1)
        return lock(rows)

    def after_holding(**arguments: Any) -> Any:
        held.set()
        return bring_back(**arguments)

    def resumed() -> Any:
        made.wait(5)
        return other.operate(
            "resume_run", runId=restored["runId"], expectedRevision=restored["revision"], scope="artifacts"
        )

    monkeypatch.setattr(mirroring, "for_update", after_making)
    monkeypatch.setattr(diverging, "restore_artifacts", after_holding)
    before = deadlocks()
    done, went = meet(chance("restore/resume"), lambda: restore(service, mirror, "artifacts"), resumed)
    assert done["applied"] is False, "another's data stands there"
    assert "error" not in went, went
    assert deadlocks() == before
