"""A form that was begun is about its own question, and no address of a form is a dead end (H3)."""

from __future__ import annotations

import html
import re
import uuid
from typing import Any

import pytest
from console_people import form, operator, page, press, root, signed_in, text_of

from apps.console.pages.asked import MOST_HELD
from apps.runs.models import Action


def shown(response: Any) -> str:
    return html.unescape(text_of(response))


@pytest.mark.rule("H3")
def test_a_refused_draft_is_kept_to_be_copied_and_not_put_under_the_next_question(service: Any) -> None:
    run_id = service.finish(do=[{"ending": "ask"}, {"ending": "again"}, {"ending": "ask"}, {"ending": "done"}])["runId"]
    ada, ben = (signed_in(operator(name, "see_project", "answer_ask")) for name in ("ada", "ben"))
    address = f"{page(run_id)}answer/"
    fields = form(ben, page(run_id), address)
    press(ada, run_id, "answer", own0="ship it")
    service.work()
    late = ben.post(address, {**fields, "own0": "do not"})
    assert late.status_code == 409
    told = shown(late)
    draft = told[told.index('id="draft"') : told.index('id="live"')]
    assert ">do not</textarea>" in draft
    assert "do not" not in told[told.index('id="live"') :]
    assert Action.objects.filter(run_id=run_id, answered_at=None).count() == 1
    press(ada, run_id, "answer", own0="again")
    service.work()
    assert service.run(run_id)["status"] == "completed"
    ended = ben.post(address, {**fields, "own0": "do not"})
    assert ">do not</textarea>" in shown(ended)


@pytest.mark.rule("H3")
def test_news_say_of_a_begun_form_what_became_of_its_question(service: Any) -> None:
    run_id = service.finish(do=[{"ending": "ask"}, {"ending": "again"}, {"ending": "ask"}])["runId"]
    client = signed_in(operator("ada", "see_project", "answer_ask"))
    first = str(Action.objects.get(run_id=run_id).pk)
    held = {"X-Live": "live", "X-Held": first}
    assert "held-" not in shown(client.get(page(run_id), headers=held))
    press(client, run_id, "answer", own0="ship it")
    service.work()
    told = shown(client.get(page(run_id), headers=held))
    notice = told[told.index(f'id="held-{first}"') : told.index(f'<section id="asked-{first}" data-keep>')]
    assert re.search(r"answered by operator:ada \(console\) at <time.*?>ship it<", notice)
    assert 'href="#question"' in notice
    assert "held-" not in shown(client.get(page(run_id), headers={"X-Live": "live"}))
    service.operate("cancel_run", runId=run_id)
    second = str(Action.objects.get(run_id=run_id, answered_at=None).pk)
    other = service.finish(do=[{"ending": "ask"}])["runId"]
    elsewhere = str(Action.objects.get(run_id=other).pk)
    named = ",".join([second, elsewhere, "x", str(uuid.uuid4())])
    told = shown(client.get(page(run_id), headers={"X-Live": "live", "X-Held": named}))
    assert re.findall(r'id="held-([^"]+)"', told) == [second]
    assert "closed without an answer: the Run is cancelled" in told
    many = ",".join([*(str(uuid.uuid4()) for _ in range(MOST_HELD)), second])
    told = shown(client.get(page(run_id), headers={"X-Live": "live", "X-Held": many}))
    assert "held-" not in told, "as many are looked up for one look and no more"


def test_the_address_of_a_form_leads_to_its_page(service: Any) -> None:
    run_id = service.start(do=[{"ending": "ask"}])
    client = signed_in(root())
    for verb in ("answer", "pause", "resume", "cancel", "fork", "export"):
        assert client.get(f"{page(run_id)}{verb}/")["Location"] == page(run_id)
    assert client.get("/admin/console/runs/bulk/do/")["Location"] == "/admin/console/runs/"
    assert client.get("/admin/console/access/create/")["Location"] == "/admin/console/access/"
    assert client.put(f"{page(run_id)}answer/").status_code == 405
    assert service.run(run_id)["status"] == "queued"


@pytest.mark.rule("H1")
def test_what_is_missing_is_said_at_the_top_with_a_link_and_has_the_focus(service: Any) -> None:
    run_id = service.finish(do=[{"ending": "ask"}])["runId"]
    found = shown(press(signed_in(root()), run_id, "answer"))
    summary = re.search(r'<div [^>]*id="refused"[^>]*autofocus>.*?</div>', found, re.DOTALL)
    assert summary
    field = re.search(r'href="#(own0-[^"]+)"', summary[0])
    assert field
    assert f'<textarea name="own0" id="{field[1]}"' in found
    assert "This one needs an answer." in summary[0]
