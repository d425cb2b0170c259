"""The console in Chromium, against a real service with real workers."""

from __future__ import annotations

import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from local_service import LOOMS, Services, Up, environment  # noqa: F401
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

#: What the console promises: news are on the page within this many milliseconds.
SOON = 3000
HERE = Path(__file__).parent
#: The title of the Loom `hostile`, and every other text of it.
PAYLOAD = "<img src=x onerror=hit()><script>hit()</script>\"'><svg onload=hit()>[x](javascript:hit())"
WIDE = 500


@pytest.fixture(scope="module")
def looms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Loom of :data:`WIDE` Steps in stages of 25."""
    folder = tmp_path_factory.mktemp("looms") / "wide"
    folder.mkdir()
    last = WIDE // 25 - 1
    lines = ["loom: wide", "title: Wide", "description: Many Steps.", "input: schemas:Work", "entry: s0", "stages:"]
    for n in range(last + 1):
        lines += [f"  s{n}:", "    state: schemas:Work", "    initialize: steps:begin", "    entry: p0", "    steps:"]
        for m in range(25):
            after = f"p{m + 1}" if m < 24 else "end"
            lines += [f"      p{m}:", "        code: steps:go", f"        on: {{done: {after}}}"]
        lines += [f"    on: {{done: {f's{n + 1}' if n < last else 'end'}}}"]
    (folder / "loom.yaml").write_text("\n".join(lines) + "\n")
    (folder / "schemas.py").write_text("from pydantic import BaseModel\n\n\nclass Work(BaseModel):\n    n: int = 0\n")
    (folder / "steps.py").write_text(
        "from loomsvc.authoring import CodeStep, StageContext\n\nfrom .schemas import Work\n\n\n"
        "def begin(context: StageContext[Work]) -> Work:\n    return Work()\n\n\n"
        'def go(step: CodeStep[Work]) -> str:\n    return "done"\n'
    )
    return folder.parent


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, looms: Path) -> Iterator[Up]:
    found = Services()
    yield found.up(tmp_path_factory.mktemp("data"), LOOM_PATHS=f"{LOOMS}:{HERE / 'looms'}:{looms}")
    found.end()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None and os.environ.get("LOOMSVC_REQUIRE_SERVICES"):
        pytest.fail("needs the program chromium")
    if program is None:
        pytest.skip("needs the program chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def cookies(service: Up, browser: Browser) -> list[Any]:
    """The session of the operator whom the first start shows once."""
    operator = next(event for event in service.events if event["event"] == "operator")
    context = browser.new_context(base_url=service.url)
    page = context.new_page()
    page.goto("/admin/")
    page.get_by_label("Username").fill(operator["username"])
    page.get_by_label("Password").fill(operator["password"])
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Needs attention")).to_be_visible()
    found = context.cookies()
    context.close()
    return found


@pytest.fixture
def context(service: Up, browser: Browser, cookies: list[Any]) -> Iterator[BrowserContext]:
    context = browser.new_context(base_url=service.url)
    context.add_cookies(cookies)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page; an error in its script, or something that the policy had to stop, fails the test."""
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "console",
        lambda message: wrong.append(message.text) if "Content Security Policy" in message.text else None,
    )
    yield page
    assert wrong == []


#: Gives a Run 5,000 attempts: ten visits of each of 500 Steps.
FILL = """
import datetime as dt
from apps.runs.models import Run, StepAttempt
run = Run.objects.get(pk="{run_id}")
StepAttempt.objects.filter(run=run).delete()
attempts = []
for n in range(5000):
    at = run.created_at + dt.timedelta(seconds=n)
    attempts.append(StepAttempt(
        run=run, step_seq=n, stage="s%d" % (n // 25 % 20), step="p%d" % (n % 25), visit=n // 500 + 1, kind="step",
        segment=0, attempt=1, status="completed", outcome="done", worker="w/1", queued_at=at, started_at=at,
        ended_at=at + dt.timedelta(milliseconds=700)))
StepAttempt.objects.bulk_create(attempts)
Run.objects.filter(pk=run.pk).update(step_seq=5000)
"""


def run_page(run_id: str) -> str:
    return f"/admin/console/runs/{run_id}/"


def operate(service: Up, run_id: str, what: str, **more: Any) -> None:
    """Something that somebody else does meanwhile, over REST."""
    identity = {"operationId": str(uuid.uuid4()), "serviceInstanceId": service.events[-1]["serviceInstanceId"]}
    service.rest(f"/api/v1/runs/{run_id}/{what}", {**identity, **more})


@pytest.mark.rule("FR-I13", "H6")
def test_an_operator_finds_a_question_answers_it_by_keyboard_and_sees_the_run_end(service: Up, page: Page) -> None:
    run_id = service.start("trial", {"do": [{"ending": "ask", "only_person": True}, {"ending": "done"}]})
    service.until(run_id, "waiting")
    page.goto("/admin/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.locator(f"#run-{run_id}").get_by_role("link", name="Answer").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Your answer").focus()
    page.keyboard.type("by all means")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Answer")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Answered. The Run goes on.")).to_be_visible()
    expect(page.locator("#live h1")).to_contain_text("completed", timeout=SOON)
    expect(page.get_by_text("Ended with outcome done.")).to_be_visible()
    expect(page.get_by_text("by all means").first).to_be_visible()
    answered = service.rest(f"/api/v1/runs/{run_id}/events?limit=200")["events"]
    who = next(event["data"]["answeredBy"] for event in answered if event["type"] == "ActionAnswered")
    assert who == {"principal": "operator:operator", "source": "console", "via": "console"}


@pytest.mark.rule("R9", "R10", "R11")
def test_pause_one_step_resume_and_cancel_from_the_page(service: Up, page: Page, tmp_path: Path) -> None:
    gates = [tmp_path / name for name in "ab"]
    steps = [{"ending": "again", "until": str(gate)} for gate in gates]
    run_id = service.start("trial", {"do": [*steps, {"ending": "ask"}]})
    service.until(run_id, "running")
    page.goto(run_page(run_id))
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("Asked to pause")).to_be_visible()
    gates[0].touch()
    page.get_by_role("button", name="Resume one Step").click()
    expect(page.get_by_text("Resumed for one Step")).to_be_visible()
    gates[1].touch()
    expect(page.get_by_role("button", name="Resume", exact=True)).to_be_visible()
    page.get_by_role("button", name="Resume", exact=True).click()
    expect(page.get_by_role("heading", name="Asked")).to_be_visible()
    page.get_by_text("Cancel…").click()
    page.get_by_role("button", name="Cancel this Run").click()
    expect(page.locator("#live h1")).to_contain_text("cancelled")
    assert service.run(run_id)["status"] == "cancelled"


@pytest.mark.rule("FR-I13")
def test_news_come_without_losing_focus_words_scroll_or_open_panels_and_end_with_the_run(
    service: Up, page: Page
) -> None:
    run_id = service.start("trial", {"do": [{"ending": "confirm"}, {"ending": "done"}]})
    service.until(run_id, "waiting")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "x-live" in request.headers else None)
    page.clock.install()
    page.goto(run_page(run_id))
    page.set_viewport_size({"width": 900, "height": 300})
    page.get_by_text("Input", exact=True).click()
    words, choice = page.get_by_label("Anything to say to it"), page.get_by_label("No", exact=True)
    words.fill("half a sent")
    choice.check()
    choice.evaluate("node => node.scrollIntoView()")
    assert page.evaluate("scrollY") > 0
    # What is being filled in stays where the eye is, whatever comes above it.
    before = choice.evaluate("node => node.getBoundingClientRect().top")
    operate(service, run_id, "pause")
    page.clock.run_for(SOON)
    expect(page.get_by_text("It rests after this Step.")).to_be_visible(timeout=SOON)
    expect(choice).to_be_focused()
    expect(choice).to_be_checked()
    assert words.input_value() == "half a sent"
    assert abs(choice.evaluate("node => node.getBoundingClientRect().top") - before) <= 1
    expect(page.locator("#input")).to_have_attribute("open", "")

    action = service.run(run_id)["pendingAction"]["id"]
    said = {"isConfirmed": True, "feedback": "by somebody else"}
    operate(service, run_id, f"actions/{action}/answer", answer=said)
    service.until(run_id, "paused")
    operate(service, run_id, "cancel")
    page.clock.run_for(SOON)
    expect(page.locator("#live")).to_have_attribute("data-live", "off", timeout=SOON)
    expect(page.get_by_text("by somebody else").first).to_be_visible()
    expect(page.locator("#input")).to_have_attribute("open", "")
    seen = len(asked)
    page.clock.run_for(60_000)
    assert len(asked) == seen


@pytest.mark.rule("H3", "FR-I13")
def test_a_begun_answer_stays_about_its_own_question_when_somebody_else_is_first(service: Up, page: Page) -> None:
    run_id = service.start(
        "trial", {"do": [{"ending": "confirm"}, {"ending": "again"}, {"ending": "confirm"}, {"ending": "done"}]}
    )
    service.until(run_id, "waiting")
    first = service.run(run_id)["pendingAction"]["id"]
    page.clock.install()
    page.goto(run_page(run_id))
    begun = page.locator(f"#answer-{first}")
    begun.get_by_label("Yes, confirm").check()
    begun.get_by_label("Anything to say to it").fill("half a sent")
    said = {"isConfirmed": False, "feedback": "by somebody else"}
    operate(service, run_id, f"actions/{first}/answer", answer=said)
    second = service.until(run_id, "waiting", other_than=first)["pendingAction"]["id"]
    page.clock.run_for(SOON)
    notice = page.locator(f"#held-{first}")
    expect(notice).to_contain_text("by somebody else", timeout=SOON)
    expect(notice).to_contain_text("Meanwhile this question was answered by local credential:")
    expect(begun.get_by_label("Anything to say to it")).to_be_focused()
    expect(begun.get_by_label("Yes, confirm")).to_be_checked()
    expect(begun.locator("[name=actionId]")).to_have_value(first)
    expect(page.locator(f"#answer-{second} [name=actionId]")).to_have_value(second)
    assert page.locator(f"#answer-{second}").get_by_label("Anything to say to it").input_value() == ""
    begun.get_by_role("button", name="Answer").click()
    expect(page.locator("#refused")).to_be_focused()
    expect(page.locator("#refused")).to_contain_text("answered already")
    expect(page.locator("#draft textarea").last).to_have_value("half a sent")
    assert service.run(run_id)["pendingAction"]["id"] == second

    page.goto(run_page(run_id))
    words = page.get_by_label("Anything to say to it")
    words.fill("another draft")
    operate(service, run_id, f"actions/{second}/answer", answer={"isConfirmed": True})
    service.until(run_id, "completed")
    page.clock.run_for(SOON)
    expect(page.locator("#live")).to_have_attribute("data-live", "off", timeout=SOON)
    expect(page.locator(f"#held-{second}")).to_contain_text("The Run asks nothing now")
    expect(words).to_be_focused()
    expect(words).to_have_value("another draft")


@pytest.mark.rule("FR-I13")
def test_a_form_that_nobody_touched_makes_room_for_the_next_question(service: Up, page: Page) -> None:
    run_id = service.start("trial", {"do": [{"ending": "confirm"}, {"ending": "again"}, {"ending": "confirm"}]})
    service.until(run_id, "waiting")
    first = service.run(run_id)["pendingAction"]["id"]
    page.clock.install()
    page.goto(run_page(run_id))
    operate(service, run_id, f"actions/{first}/answer", answer={"isConfirmed": True})
    second = service.until(run_id, "waiting", other_than=first)["pendingAction"]["id"]
    page.clock.run_for(SOON)
    expect(page.locator(f"#answer-{second}")).to_be_visible(timeout=SOON)
    expect(page.locator(f"#answer-{first}")).to_have_count(0)
    expect(page.locator(f"#held-{first}")).to_have_count(0)


@pytest.mark.rule("FR-I9")
def test_a_hidden_page_asks_nothing_and_is_right_at_once_when_it_returns(service: Up, page: Page) -> None:
    run_id = service.start("trial", {"do": [{"ending": "ask"}]})
    service.until(run_id, "waiting")
    page.add_init_script("Object.defineProperty(document, 'hidden', {get: () => !!window.tests_hide})")
    page.clock.install()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "x-live" in request.headers else None)
    page.goto(run_page(run_id))
    page.evaluate("window.tests_hide = true; document.dispatchEvent(new Event('visibilitychange'))")
    operate(service, run_id, "cancel")
    page.clock.run_for(300_000)
    assert asked == []
    expect(page.locator("#live h1")).to_contain_text("waiting")
    page.evaluate("window.tests_hide = false; document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator("#live h1")).to_contain_text("cancelled", timeout=SOON)
    assert len(asked) == 1


def test_a_page_asks_no_more_once_its_operator_has_signed_out(service: Up, page: Page) -> None:
    page.clock.install()
    page.goto("/admin/")
    page.context.clear_cookies()
    with page.expect_response(lambda answer: "x-live" in answer.request.headers) as refused:
        page.clock.run_for(SOON)
    assert refused.value.status == 302
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.redirected_from is None else None)
    page.clock.run_for(60_000)
    assert asked == []
    expect(page.get_by_role("heading", name="Needs attention")).to_be_visible()


@pytest.mark.rule("FR-I11", "FR-I13")
def test_the_list_follows_along_keeps_what_was_chosen_and_many_runs_are_cancelled(service: Up, page: Page) -> None:
    mark = uuid.uuid4().hex
    asking = [service.start("trial", {"do": [{"ending": "ask", "record": mark}]}) for _ in range(3)]
    for run_id in asking:
        service.until(run_id, "waiting")
    page.goto("/admin/console/runs/")
    page.get_by_label("Text or id").fill(mark)
    page.get_by_label("Status").select_option("open")
    page.get_by_role("button", name="Show").click()
    filtered = page.url
    expect(page.locator("tbody tr")).to_have_count(3)
    for run_id in asking[:2]:
        page.locator(f"#choose-{run_id}").check()
    operate(service, asking[2], "cancel")
    expect(page.locator("tbody tr")).to_have_count(2, timeout=SOON)
    for run_id in asking[:2]:
        expect(page.locator(f"#choose-{run_id}")).to_be_checked()
    page.locator(f"#run-{asking[0]}").get_by_role("link").click()
    page.go_back()
    assert page.url == filtered
    for run_id in asking[:2]:
        page.locator(f"#choose-{run_id}").check()
    page.get_by_role("button", name="Cancel chosen…").click()
    expect(page.get_by_role("heading", name="Cancel 2 Runs?")).to_be_visible()
    assert service.run(asking[0])["status"] == "waiting"
    page.get_by_role("button", name="Cancel 2 Runs").click()
    expect(page.get_by_text("2 of 2 admitted")).to_be_visible()
    page.get_by_role("main").get_by_role("link", name="Runs", exact=True).click()
    assert page.get_by_label("Text or id").input_value() == mark
    expect(page.get_by_text("No Run of these filters.")).to_be_visible()


@pytest.mark.rule("K16", "FR-H9")
def test_script_payloads_in_every_text_are_inert(service: Up, page: Page) -> None:
    run_id = service.start("hostile", {"text": PAYLOAD})
    service.until(run_id, "waiting")
    hits: list[str] = []
    page.expose_function("hit", lambda: hits.append(page.url))
    page.on("dialog", lambda dialog: (hits.append(dialog.message), dialog.dismiss()))
    page.goto(run_page(run_id))
    expect(page.locator("legend")).to_have_text(PAYLOAD)
    page.get_by_label("Or in your own words").fill(PAYLOAD)
    page.get_by_role("button", name="Answer").click()
    expect(page.locator("#live h1")).to_contain_text("failed")
    tabs = page.locator("#tabs a").all_text_contents()
    for tab in tabs:
        page.locator("#tabs").get_by_role("link", name=tab, exact=True).click()
        expect(page.locator("#tabs a[aria-current]")).to_have_text(tab)
        page.evaluate("document.querySelectorAll('details').forEach(panel => { panel.open = true; })")
    pages = ("", "console/runs/?text=<script>hit()</script>", "console/looms/hostile/", "console/artifacts/",
             "console/audit/", f"runs/run/{run_id}/change/")  # fmt: skip
    for address in pages:
        page.goto(f"/admin/{address}")
        page.wait_for_load_state("networkidle")
    assert page.locator("img[src=x]").count() == 0
    assert hits == []


@pytest.mark.rule("FR-I1", "FR-I3")
def test_a_run_of_5000_attempts_in_a_loom_of_500_steps_is_usable_within_three_seconds(service: Up, page: Page) -> None:
    run_id = service.start("wide", {})
    operate(service, run_id, "pause")
    service.until(run_id, "paused", "completed")
    done = service.command("shell", "-c", FILL.format(run_id=run_id))
    assert done.returncode == 0, done.stderr
    began = time.monotonic()
    page.goto(run_page(run_id))
    expect(page.locator("#tab-attempts tbody tr")).to_have_count(100)
    page.get_by_role("link", name="Older").click()
    expect(page.locator("#attempt-4899")).to_be_visible()
    took = time.monotonic() - began
    said = page.locator("#timeline-panel").inner_text() + page.locator("#graph-panel").inner_text()
    assert "5,000" in said.replace("5000", "5,000"), said
    assert re.search(r"\d+ of \d+", said.replace(",", "")), said
    assert took < 2 * SOON / 1000, took


def test_everything_is_readable_without_javascript_and_at_200_percent_or_on_a_phone(
    service: Up, browser: Browser, cookies: list[Any]
) -> None:
    run_id = service.start("trial", {"do": [{"ending": "again", "artifact": {"a": 1}}, {"ending": "confirm"}]})
    service.until(run_id, "waiting")
    context = browser.new_context(
        base_url=service.url, java_script_enabled=False, viewport={"width": 640, "height": 400}
    )
    context.add_cookies(cookies)
    page = context.new_page()
    page.goto(run_page(run_id))
    for tab in ("Events", "State", "Operations", "Artifacts", "Audit"):
        page.locator("#tabs").get_by_role("link", name=tab).click()
        expect(page.locator("#tabs a[aria-current]")).to_have_text(tab)
    page.get_by_label("Yes, confirm").check()
    page.get_by_role("button", name="Answer").click()
    expect(page.get_by_text("Answered. The Run goes on.")).to_be_visible()
    context.close()

    context = browser.new_context(base_url=service.url, viewport={"width": 320, "height": 600})
    context.add_cookies(cookies)
    page = context.new_page()
    for address in ("/admin/", "/admin/console/runs/", run_page(run_id), f"{run_page(run_id)}?tab=audit"):
        page.goto(address)
        wider = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wider <= 0, address
    context.close()
