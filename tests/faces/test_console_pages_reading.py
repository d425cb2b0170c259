"""The pages of Looms, Artifacts, Operations and health: what they show, to whom, and that they cost the same."""

from __future__ import annotations

import datetime as dt
import re
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from console_people import operator, root, signed_in, text_of, with_role
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.access.services.projects import create_project
from apps.core import clock

BASE = "/admin/console"


def words(response: Any) -> str:
    """What a page says, without its markup."""
    assert response.status_code == 200, response.status_code
    shown = re.sub(r"<style.*?</style>|<[^>]+>", " ", text_of(response))
    return re.sub(r"\s+", " ", shown)


@pytest.fixture
def client(service: Any) -> Client:
    return signed_in(root())


@pytest.fixture
def artifact(service: Any) -> str:
    """The id of an Artifact with two revisions: a text of several lines that changed in one of them."""
    for text in ("one\ntwo\nthree", "one\n2\nthree"):
        service.finish(do=[{"ending": "done", "artifact": {"title": "T", "text": text}}])
    (found,) = service.call("list_artifacts")["artifacts"]["data"]
    return str(found["artifactId"])


@pytest.fixture
def failing(service: Any) -> None:
    service.finish(do=[{"failures": 1}, {"ending": "done"}])
    service.finish(do=[{"failures": 9, "error": "ValueError"}])


@pytest.mark.rule("FR-I3")
def test_a_loom_shows_its_graph_how_its_runs_went_and_how_long_its_steps_took(client: Client, failing: None) -> None:
    shown = words(client.get(f"{BASE}/looms/trial/"))
    assert "Does what its input says" in shown
    assert "work/act: again → act" in shown
    assert "All 2 Runs." in shown
    assert re.search(r"✗ failed 1 failed Runs", shown)
    assert "attempts of the latest 2 Runs" in shown
    assert re.search(r"work/act \d ✗ 2", shown)
    assert client.get(f"{BASE}/looms/nonsense/").status_code == 404
    assert client.get(f"{BASE}/looms/trial/?release={'0' * 64}").status_code == 404


def test_the_list_of_looms_has_those_that_load_and_those_that_do_not(
    client: Client, failing: None, loom_paths: Path
) -> None:
    (loom_paths / "broken").mkdir()
    (loom_paths / "broken" / "loom.yaml").write_text("loom: broken\n")
    shown = words(client.get(f"{BASE}/looms/"))
    assert "trial no problem known" in shown
    assert "Do not load ✗ invalid broken never loaded loom.yaml" in shown


def test_two_releases_are_compared_file_by_file(client: Client, service: Any, loom_paths: Path) -> None:
    folder = loom_paths / "changing"
    folder.mkdir()
    yaml = (
        "loom: changing\ntitle: One\ndescription: Changes.\nentry: only\nstages:\n  only:\n    entry: go\n    steps:\n"
        '      go: {code: "steps:go", on: {done: end}}\n    on: {done: end}\n'
    )
    code = "def go(step):\n    return 'done'\n"
    (folder / "loom.yaml").write_text(yaml)
    (folder / "steps.py").write_text(code)
    first = service.run(service.start("changing"))["releaseDigest"]
    (folder / "loom.yaml").write_text(yaml.replace("title: One", "title: Two, and longer"))
    (folder / "more.py").write_text("X = 1\n")
    second = service.run(service.start("changing"))["releaseDigest"]
    assert first != second
    shown = words(client.get(f"{BASE}/looms/changing/"))
    assert "2 Releases, the newest first." in shown
    shown = words(client.get(f"{BASE}/looms/changing/releases/?from={first}&to={second}"))
    assert "2 files differ" in shown
    assert "2 lines added, 1 removed" in shown
    assert "- removed title: One + added title: Two, and longer" in shown
    assert "more.py added" in shown
    assert "They hold the same files" in words(client.get(f"{BASE}/looms/changing/releases/?from={first}&to={first}"))
    assert client.get(f"{BASE}/looms/trial/releases/?from={first}&to={second}").status_code == 404


@pytest.mark.rule("S4")
def test_any_two_revisions_of_an_artifact_are_compared_as_text_and_as_json_patch(
    client: Client, service: Any, artifact: str
) -> None:
    shown = words(client.get(f"{BASE}/artifacts/?project=trials"))
    assert artifact in shown
    one = f"{BASE}/artifacts/one/?{urlencode({'project': 'trials', 'id': artifact})}"
    shown = words(client.get(one))
    assert "1 line added, 1 removed" in shown
    assert "- removed two + added 2" in shown
    assert "replace /text &quot;one\\n2\\nthree&quot;" in shown
    keys = re.findall(r'<option value="([0-9a-f-]{36})"', text_of(client.get(one)))  # type: ignore[arg-type]
    newest, first = keys[0], keys[1]
    assert "+ added two" in words(client.get(f"{one}&from={newest}&to={first}"))
    assert "Both read the same." in words(client.get(f"{one}&from={first}&to={first}"))
    assert client.get(f"{one}&from={uuid.uuid4()}").status_code == 404
    assert client.get(f"{one}&from=nonsense").status_code == 404
    assert client.get(f"{BASE}/artifacts/one/?project=trials&id=nothing").status_code == 404
    assert client.get(f"{BASE}/artifacts/one/?project=trials").status_code == 404


@pytest.mark.rule("O10", "K25")
def test_an_operation_is_found_by_its_id_with_who_sent_it_and_what_it_did(client: Client, service: Any) -> None:
    operation_id = str(uuid.uuid4())
    run_id = service.start(do=[{"ending": "ask"}])
    service.operate("pause_run", runId=run_id, operationId=operation_id)
    shown = words(client.get(f"{BASE}/audit/operation/?id={operation_id}"))
    assert "pause_run ✓ accepted" in shown
    assert "credential:test" in shown
    assert "cli at /internal/mcp" in shown
    assert "before and after 1 → 2" in shown
    assert run_id in shown
    again = str(uuid.uuid4())
    service.operate("resume_run", runId=run_id, expectedRevision=99, operationId=again)
    assert "CONFLICT This Run is at revision 2, not 99" in words(client.get(f"{BASE}/audit/operation/?id={again}"))
    assert "nothing was done" in words(client.get(f"{BASE}/audit/operation/?id={uuid.uuid4()}"))
    assert "this is none" in words(client.get(f"{BASE}/audit/operation/?id=x"))


@pytest.mark.rule("K25", "R3")
def test_the_audit_trail_goes_on_page_by_page_without_a_gap(
    client: Client, service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.console.pages import audit as page
    from apps.ledger.selectors import audit

    run_id = service.start(do=[])
    sent = []
    for _ in range(7):
        sent.append(str(uuid.uuid4()))
        service.operate("pause_run", runId=run_id, operationId=sent[-1])
    monkeypatch.setattr(page, "ROWS", 2)
    monkeypatch.setattr(audit, "WINDOW", 3)
    address, met = f"{BASE}/audit/?kind=pause_run", []
    while address:
        shown = text_of(client.get(address))  # type: ignore[arg-type]
        met += re.findall(r"operation/\?id=([0-9a-f-]{36})", shown)
        found = re.search(r'href="\?([^"]*cursor=[^"]*)"', shown)
        address = f"{BASE}/audit/?{found[1].replace('&amp;', '&')}" if found else ""
    assert met == sent[::-1]
    assert "is the first one" in words(client.get(f"{BASE}/audit/?cursor=nonsense"))
    assert "No Operation of these filters" in words(client.get(f"{BASE}/audit/?kind=cancel_run"))


def test_health_shows_the_instance_what_is_due_and_who_holds_what(client: Client, service: Any) -> None:
    from apps.runs.models import Run
    from apps.runs.services.leasing import take_lease

    held, due = service.start(do=[]), service.start(do=[])
    leased = take_lease(owner="host/1", instance_id=uuid.UUID(service.instance_id), now=clock.now())
    assert leased is not None
    assert str(leased.run_id) == held
    shown = words(client.get(f"{BASE}/health/"))
    assert "✓ open since" in shown
    assert "Due now 1, the oldest for" in shown
    assert re.search(rf"host/1 ✓ beats .*{held[-8:]}", shown)
    assert due[-8:] in shown
    Run.objects.filter(pk=held).update(lease_expires_at=clock.now() - dt.timedelta(minutes=1))
    assert "host/1 ✗ silent" in words(client.get(f"{BASE}/health/"))


@pytest.mark.rule("M7")
def test_a_release_from_a_mirror_is_drawn_and_said_not_to_be_trusted(
    client: Client, service: Any, failing: None
) -> None:
    from apps.looms.models import Release

    Release.objects.filter(loom_name="trial").update(trusted=False)
    assert "! not trusted" in words(client.get(f"{BASE}/looms/"))
    shown = words(client.get(f"{BASE}/looms/trial/"))
    assert "Its Code does not run here until somebody who has looked at it says loomsvc release_trust" in shown
    assert "work/act: again → act" in shown


PAGES = ["looms/", "looms/trial/", "artifacts/", "audit/", "health/", "artifacts/one/?project=trials&id={artifact}"]


@pytest.mark.rule("K14")
def test_nothing_of_a_project_that_an_operator_does_not_see_is_shown(service: Any, artifact: str) -> None:
    elsewhere = create_project(name="elsewhere", now=clock.now()).pk
    stranger = signed_in(with_role(operator("stranger"), elsewhere, "see_project"))
    run_id = service.start(do=[])
    operation_id = str(uuid.uuid4())
    service.operate("pause_run", runId=run_id, operationId=operation_id)
    for address in PAGES:
        response = stranger.get(f"{BASE}/{address.format(artifact=artifact)}")
        assert "trials" not in text_of(response), address  # type: ignore[arg-type]
        assert run_id[-8:] not in text_of(response), address  # type: ignore[arg-type]
    assert stranger.get(f"{BASE}/artifacts/?project=trials").status_code == 404
    assert stranger.get(f"{BASE}/looms/trial/?project=trials").status_code == 404
    assert "There is no Run of it in this Project." in words(stranger.get(f"{BASE}/looms/trial/"))
    assert "nothing was done" in words(stranger.get(f"{BASE}/audit/operation/?id={operation_id}"))
    assert signed_in(operator("nobody")).get(f"{BASE}/audit/").status_code == 403


@pytest.mark.rule("R3")
@pytest.mark.parametrize("address", PAGES)
def test_a_page_takes_as_many_statements_however_much_there_is(
    client: Client, service: Any, artifact: str, address: str
) -> None:
    def statements() -> list[str]:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            assert client.get(f"{BASE}/{address.format(artifact=artifact)}").status_code == 200
        return [query["sql"] for query in seen.captured_queries]

    statements()  # what is read once in a process
    few = statements()
    for number in range(6):
        service.finish(do=[{"ending": "again", "record": f"r{number}"}, {"ending": "done", "artifact": number}])
    many = statements()
    assert len(many) == len(few)
    assert not any("COUNT(" in sql or "OFFSET" in sql for sql in many)
