"""The one file that the Mirrors of several Projects share (M1, M3)."""

from __future__ import annotations

from typing import Any

import pytest

from apps.mirrors import storage
from tests.conftest import Service
from tests.integration.mirror_work import export, mirrors_folder
from tests.integration.test_mirror_restore import other

__all__ = ["mirrors_folder", "other"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("mirrors_folder")]


@pytest.mark.rule("M1", "M3")
def test_a_file_that_is_whole_is_not_put_at_risk_by_another_project(
    service: Service, other: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = service.finish(do=[{"ending": "ask"}])
    mirror = export(service, run)

    def full(*_: Any, **__: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(storage.storage()), "save", full)
    held = export(service, run, "target")
    assert held["mirrorId"] != mirror["mirrorId"]
    for one in (mirror, held):
        assert service.call("mirror_inspect", mirrorId=one["mirrorId"])["verification"]["status"] == "verified"
