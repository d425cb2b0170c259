"""Mirrors in the console: seen, verified, planned as a tree, and restored by superusers, whole or not at all."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from console_people import digest, form, operator, root, signed_in, text_of, with_role
from django.db import OperationalError

from apps.access.services.projects import create_project
from apps.core import clock
from apps.mirrors.models import Mirror
from apps.runs.models import Run
from tests.integration.mirror_work import RICH, export, mirrors_folder  # noqa: F401

MIRRORS = "/admin/console/mirrors/"


def words(response: Any, status: int = 200) -> str:
    assert response.status_code == status, response.status_code
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text_of(response)))


@pytest.fixture
def mirror(service: Any, mirrors_folder: Path) -> dict[str, Any]:  # noqa: F811
    create_project(name="target", now=clock.now())
    return export(service, service.finish(do=RICH))


def address(mirror: dict[str, Any]) -> str:
    return f"{MIRRORS}{mirror['mirrorId']}/"


@pytest.mark.rule("M3", "K15")
def test_a_mirror_is_listed_verified_and_planned_without_changing_anything(mirror: dict[str, Any]) -> None:
    client = signed_in(root())
    before = digest()
    assert mirror["mirrorId"][-8:] in words(client.get(MIRRORS))
    assert "✓ verified" in words(client.get(f"{address(mirror)}?verify=1"))
    shown = words(client.get(f"{address(mirror)}?scope=all&project=target"))
    assert "The plan for Project target; nothing was changed" in shown
    assert "Artifacts 1 create + create" in shown
    assert "Records 1 create + create first" in shown
    assert re.search(r"Run 1 create \+ create [0-9a-f-]{36}", shown)
    assert digest() == before


@pytest.mark.rule("M5", "K25")
def test_a_superuser_restores_what_the_plan_says_and_the_audit_trail_keeps_it(mirror: dict[str, Any]) -> None:
    client = signed_in(root("ada"))
    planned = f"{address(mirror)}?scope=all&project=target"
    action = f"{address(mirror)}restore/"
    done = client.post(action, form(client, planned, action))
    run = Run.objects.get(project__name="target")
    assert done.status_code == 302
    assert done["Location"] == f"/admin/console/runs/{run.pk}/"
    assert run.status == "paused"
    trail = words(client.get("/admin/console/audit/"))
    assert f"restored everything of Mirror {mirror['mirrorId']} into Project target" in trail
    again = words(client.get(planned))
    assert "Run 1 unchanged" in again


@pytest.mark.rule("K25")
def test_nothing_is_restored_without_its_record(mirror: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.console.pages import mirrors

    client = signed_in(root())
    action = f"{address(mirror)}restore/"
    filled = form(client, f"{address(mirror)}?scope=all&project=target", action)

    def full(**_: Any) -> None:
        raise OperationalError("the disk is full")

    monkeypatch.setattr(mirrors, "record_restore", full)
    before = digest()
    with pytest.raises(OperationalError):
        client.post(action, filled)
    assert digest() == before


@pytest.mark.rule("M5")
def test_with_a_conflict_nothing_is_restored_and_it_says_what_is_in_the_way(
    mirror: dict[str, Any], service: Any
) -> None:
    client = signed_in(root())
    client.post(f"{address(mirror)}restore/", {"scope": "artifacts", "project": "target"})
    other = export(service, service.finish(do=[{"ending": "done", "artifact": {"other": True}}]))
    shown = words(client.get(f"{address(other)}?scope=artifacts&project=target"))
    assert "Artifacts 1 conflict ✗ conflict" in shown
    assert "With a conflict nothing at all is restored." in shown
    before = digest()
    refused = client.post(f"{address(other)}restore/", {"scope": "artifacts", "project": "target"})
    assert "Nothing was restored: something is in the way." in words(refused, 409)
    assert digest() == before


def test_a_damaged_mirror_says_so_and_restores_nothing(mirror: dict[str, Any], mirrors_folder: Path) -> None:  # noqa: F811
    (file,) = [path for path in mirrors_folder.rglob("*") if path.is_file()]
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(bytes(content))
    client = signed_in(root())
    assert "✗ damaged" in words(client.get(f"{address(mirror)}?verify=1"))
    assert "is damaged and cannot be restored" in words(client.get(f"{address(mirror)}?scope=all&project=target"), 409)
    refused = client.post(f"{address(mirror)}restore/", {"scope": "all", "project": "target"})
    assert "Nothing was restored: it is damaged." in words(refused, 409)
    assert not Run.objects.filter(project__name="target").exists()


@pytest.mark.rule("K14", "K15")
def test_only_superusers_restore_and_strangers_see_nothing(mirror: dict[str, Any], service: Any) -> None:
    target = Mirror.objects.get().project_id
    elsewhere = create_project(name="elsewhere", now=clock.now()).pk
    stranger = signed_in(with_role(operator("stranger"), elsewhere, "see_project"))
    assert "None." in words(stranger.get(MIRRORS))
    assert stranger.get(address(mirror)).status_code == 404
    viewer = signed_in(with_role(operator("viewer"), target, "see_project", "export_mirror"))
    assert "Restoring is for superusers." in words(viewer.get(f"{address(mirror)}?scope=all&project=trials"))
    assert viewer.get(f"{address(mirror)}?scope=all&project=target").status_code == 404
    assert viewer.post(f"{address(mirror)}restore/", {"scope": "all", "project": "trials"}).status_code == 403
    superuser = signed_in(root(), enforce_csrf_checks=True)
    assert superuser.post(f"{address(mirror)}restore/", {"scope": "all", "project": "target"}).status_code == 403
    assert superuser.get(f"{address(mirror)}restore/")["Location"] == address(mirror)
    assert superuser.get(f"{address(mirror)}?scope=nonsense&project=target").status_code == 404
    assert not Run.objects.filter(project__name="target").exists()
