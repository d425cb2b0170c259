"""Forking, going on after a change, and Mirrors, from the page of a Run (M3, M8, M9)."""

from __future__ import annotations

import html
from typing import Any

import pytest
from console_people import form, operator, page, press, root, signed_in, text_of

from apps.ledger.models import Operation
from apps.mirrors.models import Mirror
from apps.runs.models import Run, State


def shown(response: Any) -> str:
    return html.unescape(text_of(response))


@pytest.mark.rule("M9", "O10", "K14")
def test_a_run_that_ended_is_forked_at_a_boundary_and_the_fork_is_shown(service: Any) -> None:
    run_id = service.finish(do=[{"ending": "again"}, {"ending": "done"}])["runId"]
    service.reopen()
    client = signed_in(operator("ada", "see_project", "fork_run"))
    address = f"{page(run_id, 'boundaries')}"
    assert [f'id="boundary-{n}"' in shown(client.get(address)) for n in range(4)] == [True, True, True, False]
    fields = form(client, address, f"{page(run_id)}fork/")
    assert fields["boundary"] == "2"
    forked = client.post(f"{page(run_id)}fork/", {**fields, "boundary": "1"}, follow=True)
    (_, status), path = forked.redirect_chain[0], forked.request["PATH_INFO"]
    assert status == 302 and path != page(run_id)
    assert "This is the fork" in shown(forked)
    assert "Forked from" in shown(forked)
    fork = Run.objects.exclude(pk=run_id).get()
    assert (fork.status, fork.boundary, page(str(fork.pk))) == ("paused", 1, path)
    assert Operation.objects.get(kind="fork_run").principal == "operator:ada"
    family = shown(client.get(address))
    assert page(str(fork.pk)) in family
    late = client.post(f"{page(run_id)}fork/", {**fields, "boundary": "2"})
    assert late.status_code == 409
    assert client.post(f"{page(run_id)}fork/", {**fields, "boundary": "-1"}).status_code == 400

    viewer = signed_in(operator("viewer", "see_project"))
    assert "Fork here" not in shown(viewer.get(address))
    assert viewer.post(f"{page(run_id)}fork/", fields).status_code == 403


@pytest.mark.rule("M8", "R10")
def test_a_resume_after_a_change_tells_what_changed_and_goes_on_as_it_is_told(service: Any) -> None:
    client = signed_in(root())
    run_id = service.start(do=[{"ending": "again"}, {"ending": "done"}])
    press(client, run_id, "pause")
    press(client, run_id, "resume-step")
    service.work()
    run = Run.objects.select_related("state").get(pk=run_id)
    changed = State.objects.create(
        run=run, stage="work", data={**run.state.data, "index": 9}, created_at=run.updated_at
    )
    Run.objects.filter(pk=run_id).update(state=changed)
    refused = press(client, run_id, "resume")
    assert refused.status_code == 409
    assert "has changed since it was paused" in shown(refused)
    assert "State of work" in shown(refused)
    assert service.run(run_id)["status"] == "paused"
    address = f"{page(run_id)}resume-anyway/"
    fields = form(client, page(run_id), f"{page(run_id)}resume/")
    assert client.post(address, {**fields, "way": "sideways"}).status_code == 400
    assert client.post(address, {**fields, "way": "state"}).status_code == 302
    service.work()
    assert service.run(run_id)["status"] == "completed"
    viewer = signed_in(operator("viewer", "see_project", "pause_run"))
    assert viewer.post(address, {**fields, "way": "abandon"}).status_code == 403


@pytest.mark.rule("M3", "K14")
def test_a_mirror_is_exported_by_who_may(service: Any) -> None:
    run_id = service.finish(do=[{"ending": "done", "artifact": {"a": 1}}])["runId"]
    address = f"{page(run_id)}export/"
    for user, status in (
        (operator("viewer", "see_project"), 403),
        (operator("ada", "see_project", "export_mirror"), 302),
    ):
        assert signed_in(user).post(address).status_code == status
        assert Mirror.objects.exists() is (status == 302)
    again = signed_in(root()).post(address, follow=True)
    mirror = Mirror.objects.get()
    assert f"Mirror {mirror.mirror_id} holds the trace up to boundary {mirror.boundary}" in shown(again)
    assert f"/admin/console/mirrors/{mirror.mirror_id}/" in shown(again)
