"""What an operator reads is what holds, and what is shown can be looked for (K14, R9)."""

from __future__ import annotations

import datetime as dt
import html
import io
import re
from dataclasses import replace
from typing import Any

import pytest
from console_people import form, operator, page, press, root, signed_in, text_of, with_role
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.test import Client

from apps.access.selectors.listing import CredentialEntry
from apps.access.selectors.projects import project_named
from apps.access.services.credentials import create_credential
from apps.access.services.projects import create_project
from apps.console.pages import run as module
from apps.console.sentences import for_people
from apps.console.templatetags.console import last_used, readable
from apps.core import clock
from apps.core.caller import Source
from apps.ledger.models import Operation
from apps.runs.domain.statuses import RunStatus
from apps.runs.selectors.attention import _asked

LIST = "/admin/console/runs/"
AUDIT = "/admin/console/audit/"


def shown(response: Any) -> str:
    return html.unescape(text_of(response))


def test_runs_and_operations_are_found_by_the_end_of_the_id_that_pages_show(service: Any) -> None:
    first, other = (service.start(do=[{"ending": "done"}]) for _ in range(2))
    client = signed_in(root())
    for text in (first[-8:], "…" + first[-8:], first[-12:].upper()):
        found = shown(client.get(LIST, {"text": text}))
        assert re.findall(r'<tr id="run-([0-9a-f-]+)"', found) == [first], text
        assert "Runs looked through" in found
    operation = Operation.objects.get(run_id=other)
    end = str(operation.operation_id)[-8:]
    assert f'title="{operation.operation_id}"' in shown(client.get(AUDIT))
    assert str(operation.operation_id) in shown(client.get(f"{AUDIT}operation/", {"id": f"…{end}"}))
    assert re.findall(r'<tr id="run-([0-9a-f-]+)"', shown(client.get(LIST, {"operation": end}))) == [other]
    for address, name in ((f"{AUDIT}operation/", "id"), (LIST, "operation")):
        assert "ends like this" in shown(client.get(address, {name: "ffffffffffff"}))
        assert "is a UUID, or its last" in shown(client.get(address, {name: "word"}))
    assert first in text_of(client.get(page(first)))  # type: ignore[arg-type]


def test_a_principal_is_found_by_its_name_and_a_credential_is_called_by_what_it_is_for(service: Any) -> None:
    project = project_named(service.caller.project_name)
    kept, _ = create_credential(project=project, source=Source.CLI, label="night build", now=clock.now())
    elsewhere = create_project(name="elsewhere", now=clock.now())
    foreign, _ = create_credential(project=elsewhere, source=Source.CLI, label="not yours", now=clock.now())
    by_kept, by_ana, by_foreign = (service.start(do=[{"ending": "ask"}]) for _ in range(3))
    for run_id, who in (
        (by_kept, f"credential:{kept.public_id}"),
        (by_ana, "operator:ana"),
        (by_foreign, f"credential:{foreign.public_id}"),
    ):
        Operation.objects.filter(run_id=run_id).update(principal=who)
    client = signed_in(operator("ada", "see_project", "manage_credentials"))
    for name in ("ana", "operator:ana"):
        found = shown(client.get(AUDIT, {"principal": name}))
        assert by_ana in found and by_kept not in found, name
    assert by_ana not in shown(client.get(AUDIT, {"principal": "an"}))
    link = '<a href="/admin/console/access/">night build</a>'
    for address in (AUDIT, page(by_kept, "audit")):
        assert f'{link} <span class="dim mono">credential:{kept.public_id}' in shown(client.get(address)), address
    viewer = shown(signed_in(operator("eva", "see_project")).get(AUDIT))
    assert "night build" in viewer and link not in viewer
    here = with_role(operator("ben"), service.caller.project_id, "see_project")
    assert "not yours" not in shown(signed_in(here).get(AUDIT))


@pytest.mark.parametrize(
    ("made", "used", "told"),
    [(8, 24, "within the last hour"), (8, None, "never"), (500, 59, "within the last hour"), (500, 200, "3 h ago")],
)
def test_last_use_is_told_to_the_hour_and_never_before_it_was_made(made: int, used: int | None, told: str) -> None:
    now = clock.now()
    moments = {
        "created_at": now - dt.timedelta(minutes=made),
        "last_used_at": used and now - dt.timedelta(minutes=used),
    }
    entry = CredentialEntry(
        id=None, public_id="x", project_id=None, project="p", source="cli", label="l", expires_at=None,
        revoked_at=None, state="live", **moments,
    )  # type: ignore[arg-type]  # fmt: skip
    assert re.sub("<[^>]+>", "", last_used(entry)) == told


@pytest.mark.rule("K14")
def test_whoever_may_only_look_is_offered_only_that(service: Any) -> None:
    run_id = service.finish(do=[{"ending": "ask"}])["runId"]
    viewer = signed_in(operator("viewer", "see_project"))
    home = shown(viewer.get("/admin/"))
    assert "Answer<" not in home
    assert "answer below" not in shown(viewer.get(page(run_id)))
    bar = home[home.index('class="bar-nav"') : home.index("</nav>")]
    for title in re.findall(r'<a href="([^"]+)"', bar):
        assert viewer.get(title).status_code == 200, title
    assert "Runs<" in bar
    assert "Access<" not in bar and "All rows<" not in bar
    everything = shown(signed_in(root()).get("/admin/"))
    assert "Access<" in everything and "All rows<" in everything and "Answer<" in everything
    told = viewer.get("/admin/auth/user/")
    assert told.status_code == 403
    assert 'class="bar-nav"' in shown(told) and 'href="/admin/"' in shown(told)


@pytest.mark.rule("K14")
def test_what_only_superusers_may_is_refused_without_naming_a_permission_that_is_none(service: Any) -> None:
    told = shown(signed_in(operator("ada", "see_project")).get(f"{LIST}bulk/?do=pause"))
    assert "Only superusers may do this" in told
    assert "bulk_runs" not in told
    assert 'href="/admin/"' in told


@pytest.mark.rule("R9")
def test_what_rests_or_will_rest_is_left_out_of_a_pause_of_many(service: Any) -> None:
    rests, will_rest, goes = (service.start(do=[{"ending": "ask"}]) for _ in range(3))
    service.operate("pause_run", runId=rests)
    service.work()
    service.operate("pause_run", runId=will_rest)
    client = signed_in(root())
    chosen = [("run", run_id) for run_id in (rests, will_rest, goes)]
    asked = shown(client.get(f"{LIST}bulk/", {"do": "pause", "run": [run_id for _, run_id in chosen]}))
    assert "Pause 1 Run?" in asked
    assert "2 rest already, or will after their present Step, and are left out" in asked
    assert "Cancel 3 Runs?" in shown(client.get(f"{LIST}bulk/", {"do": "cancel", "run": [one for _, one in chosen]}))


@pytest.mark.rule("R9")
def test_a_pause_that_was_asked_for_says_how_it_goes_on_until_the_run_rests(service: Any) -> None:
    run_id = service.finish(do=[{"ending": "ask"}, {"ending": "done"}])["runId"]
    client = signed_in(root())
    address = f"{page(run_id)}pause/"
    told = shown(client.post(address, form(client, page(run_id), address), follow=True))
    assert "Asked to pause: the Run rests once this is answered" in told
    assert "cannot be taken back before; resume the Run then" in told
    press(client, run_id, "answer", own0="yes")
    service.work()
    assert service.run(run_id)["status"] in ("paused", "completed")
    assert "Asked to pause" not in shown(client.get(page(run_id)))


def test_the_picture_says_of_a_run_what_its_badge_says(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = service.finish(do=[{"ending": "ask"}])["runId"]
    real = module.timeline_of
    monkeypatch.setattr(module, "timeline_of", lambda **asked: replace(real(**asked), status=RunStatus.RUNNING))
    found = shown(signed_in(root()).get(page(run_id)))
    assert "The Run is waiting." in found
    assert "The Run is running." not in found
    assert "? waiting, 1 visit" in found


def test_a_browser_at_the_bare_address_is_led_to_the_console(service: Any) -> None:
    assert Client().get("/", headers={"Accept": "text/html,*/*"})["Location"] == "/admin/"
    assert Client().get("/", headers={"Accept": "application/json"}).status_code == 404
    assert Client().post("/", headers={"Accept": "text/html"}).status_code == 404


@pytest.mark.rule("R11")
def test_a_looms_page_leads_to_stopping_what_runs_of_it(service: Any) -> None:
    run_id = service.start(do=[{"ending": "ask"}])
    found = shown(signed_in(root()).get("/admin/console/looms/trial/"))
    link = re.search(r'href="(/admin/console/runs/bulk/\?do=cancel[^"]+)"', found)
    assert link
    assert run_id in shown(signed_in(root("other")).get(link[1]))
    viewer = shown(signed_in(operator("eva", "see_project")).get("/admin/console/looms/trial/"))
    assert "runs/bulk" not in viewer and "Show them" in viewer


def test_a_runs_artifacts_lead_to_what_changed_in_them(service: Any) -> None:
    run_id = service.finish(do=[{"ending": "done", "artifact": {"a": 1}}])["runId"]
    found = shown(signed_in(root()).get(page(run_id, "artifacts")))
    link = re.search(r'</details><p><a href="(/admin/console/artifacts/one/[^"]+)#compare"', found)
    assert link
    assert signed_in(root("other")).get(link[1]).status_code == 200


@pytest.mark.parametrize(
    ("text", "markup"),
    [
        ("# Plan\n\n- **one** `a*b`", "<strong>Plan</strong>\n\n• <strong>one</strong> <code>a*b</code>"),
        ("2 ** 3 ** 4", "2 ** 3 ** 4"),
        ("**<b>**", "<strong>&lt;b&gt;</strong>"),
        ("`<script>`", "<code>&lt;script&gt;</code>"),
        ("[x](javascript:hit())", "[x](javascript:hit())"),
        ("#1 is no heading", "#1 is no heading"),
    ],
)
def test_markdown_in_a_question_is_readable_and_inert(text: str, markup: str) -> None:
    assert readable(text) == markup


@pytest.mark.parametrize(
    ("context", "asked"),
    [
        ("# The draft\n\nIt is long.\n\nGo **on**?", "Go on?"),
        ("# The draft\n\nIt is `long`.", "It is long."),
        ("# Only this", "Only this"),
        ("", ""),
    ],
)
def test_home_says_what_is_asked_and_not_what_the_document_is_called(context: str, asked: str) -> None:
    assert _asked("confirmation", {"context": context}) == asked


def test_what_is_refused_names_no_call_of_a_client() -> None:
    assert for_people("It is at revision 3. Read the Run with `get_run`.") == (
        "It is at revision 3. Look at the Run as it is now."
    )
    assert for_people("This Run has ended.") == "This Run has ended."


@pytest.mark.rule("K14")
def test_the_groups_to_begin_with_let_one_look_and_the_other_steer(service: Any) -> None:
    run_id = service.finish(do=[{"ending": "ask"}])["runId"]
    for _ in range(2):
        call_command("console_groups", stdout=(said := io.StringIO()))
    assert "Viewers: see_project\n" in said.getvalue()
    eva, ada = operator("eva"), operator("ada")
    eva.groups.set(Group.objects.filter(name="Viewers"))
    ada.groups.set(Group.objects.filter(name="Operators"))
    assert signed_in(eva).get(page(run_id)).status_code == 200
    assert signed_in(eva).post(f"{page(run_id)}cancel/").status_code == 403
    assert signed_in(ada).get("/admin/console/access/").status_code == 403
    assert signed_in(ada).get(f"{LIST}bulk/?do=cancel").status_code == 403
    assert press(signed_in(ada), run_id, "cancel").status_code == 302
    assert service.run(run_id)["status"] == "cancelled"


@pytest.mark.rule("FR-I3")
def test_a_change_of_a_state_is_cut_where_it_is_long_and_says_so(service: Any) -> None:
    from apps.runs.models import State, StepAttempt

    run_id = service.finish(do=[{"ending": "leave"}])["runId"]
    attempts = StepAttempt.objects.filter(run_id=run_id, stage="work").order_by("step_seq")
    before, after = list(dict.fromkeys(attempts.values_list("state_id", flat=True)))[:2]
    State.objects.filter(pk=before).update(data={})
    State.objects.filter(pk=after).update(data={str(number): "long " * 100 for number in range(600)})
    shown = text_of(signed_in(root()).get(page(run_id, "state")))  # type: ignore[arg-type]
    assert "600 changes" in shown
    _, said, below = shown.partition("The first 500 of 600 steps.")
    steps = below.partition("</table>")[0]
    assert said
    assert steps.count("<td>add</td>") == 500
    assert "long " * 100 not in steps
