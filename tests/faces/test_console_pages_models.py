"""Models in the console: who gets which and why, another one chosen, and what has gone."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from console_people import digest, operator, root, signed_in, text_of, with_role
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.access.services.projects import create_project
from apps.agent_sessions.models import ModelChoice
from apps.agent_sessions.services.provider_keys import set_provider_key
from apps.core import clock

MODELS = "/admin/console/models/"
CHOOSE = f"{MODELS}choose/"
ACME = "providers: {acme: {kind: openai, name: Acme, models: [one, two]}}\n"


@pytest.fixture
def models(settings: Any, tmp_path: Path) -> Any:
    """Has the file of models say this, from now on."""
    files = iter(range(9))

    def says(text: str) -> None:
        file = tmp_path / f"models-{next(files)}.yaml"
        file.write_text(text)
        settings.LOOMSVC = replace(settings.LOOMSVC, models_file=file)

    says(f"{ACME}roles: {{planning: acme/one}}\n")
    return says


def rows(response: Any) -> dict[str, str]:
    """The table, but for the lists to choose from: the words of each row by who it is about."""
    found = {}
    for row in re.findall(r'<tr><th scope="row">.*?</tr>', text_of(response), re.DOTALL):
        row = re.sub(r"<form.*?</form>", "", row, flags=re.DOTALL)
        cells = [re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", cell)).strip() for cell in re.split("</t[hd]>", row)]
        found[unescape(cells[0])] = unescape(" | ".join(cells[1:4]))
    return found


def post(client: Client, **fields: str) -> Any:
    given = {"project": "trials", "kind": "agent", "name": "agentic/thinker", "model": "acme/two"}
    return client.post(CHOOSE, {**given, **fields})


@pytest.mark.rule("R15")
def test_each_agent_role_and_the_default_is_shown_with_its_model_and_why(service: Any, models: Any) -> None:
    client = signed_in(root("ada"))
    shown = rows(client.get(MODELS))
    assert shown["the default"] == "offline | built in: nothing else is said | ✓ yes"
    assert shown["planning role"] == "acme/one | the setting | ✗ no key Enter one for acme"
    assert shown["agentic/thinker agent"].startswith("offline | built in")
    assert '/admin/agent_sessions/providerkey/setup/trials/acme"' in text_of(client.get(MODELS))  # type: ignore[arg-type]
    set_provider_key(
        project_id=service.caller.project_id, provider="acme", key="sk-for-acme-1234", by="ada", now=clock.now()
    )
    assert rows(client.get(MODELS))["planning role"] == "acme/one | the setting | ✓ yes"

    assert post(client, kind="default", name="").status_code == 302
    shown = rows(client.get(MODELS))
    assert re.fullmatch(r"acme/two \| chosen here by ada, .* \| ✓ yes", shown["the default"])
    assert shown["agentic/thinker agent"] == "acme/two | chosen here for the default | ✓ yes"
    assert shown["planning role"] == "acme/one | the setting | ✓ yes"


@pytest.mark.rule("R15", "K25")
def test_a_choice_is_made_changed_and_taken_back_and_the_audit_page_keeps_each(service: Any, models: Any) -> None:
    client = signed_in(root("ada"))
    assert post(client).headers["Location"] == f"{MODELS}?project=trials"
    assert "Agent agentic/thinker gets acme/two in Project trials" in text_of(client.get(MODELS))  # type: ignore[arg-type]
    # Pressed twice, it is one choice and one record.
    assert "had that already" in text_of(client.get(post(client).headers["Location"]))  # type: ignore[arg-type]
    assert post(client, model="acme/one").status_code == 302
    assert ModelChoice.objects.get().model == "acme/one"
    assert post(client, model="").status_code == 302
    assert post(client, model="").status_code == 302
    assert not ModelChoice.objects.exists()
    trail = re.findall(r"agent agentic/thinker (?:gets|has)[^<]*", text_of(client.get("/admin/console/audit/")))  # type: ignore[arg-type]
    assert trail == [
        "agent agentic/thinker has no choice of its own any more in Project trials; before: acme/one",
        "agent agentic/thinker gets acme/one in Project trials; before: acme/two",
        "agent agentic/thinker gets acme/two in Project trials",
    ]


@pytest.mark.rule("R15")
def test_a_choice_whose_model_has_gone_is_shown_until_there_is_another(service: Any, models: Any) -> None:
    client = signed_in(root())
    post(client)
    models("{}")
    found = client.get(MODELS)
    gone = rows(found)["agentic/thinker agent"]
    assert gone.startswith("acme/two | chosen here by root")
    assert gone.endswith("✗ not there any more Its Steps do not begin; choose another.")
    assert '<option value="acme/two" selected>acme/two (not there any more)</option>' in text_of(found)  # type: ignore[arg-type]
    assert post(client).status_code == 400
    assert post(client, model="offline").status_code == 302
    assert rows(client.get(MODELS))["agentic/thinker agent"].startswith("offline | chosen here")


@pytest.mark.rule("R15")
@pytest.mark.parametrize(
    ("fields", "status", "said"),
    [
        ({"model": "acme/tow"}, 400, "Did you mean acme/two?"),
        ({"model": "x" * 5000}, 400, "Choose a model that is there."),
        ({"name": "nobody/here"}, 400, "choose for one of the rows"),
        ({"kind": "role"}, 400, "choose for one of the rows"),
        ({"kind": "nonsense\x00"}, 400, "choose for one of the rows"),
        ({"project": "nonsense"}, 404, "Not found"),
        ({"project": ""}, 404, "Not found"),
    ],
)
def test_what_cannot_be_chosen_is_said_and_changes_nothing(
    service: Any, models: Any, fields: dict[str, str], status: int, said: str
) -> None:
    client = signed_in(root())
    before = digest()
    answer = post(client, **fields)
    assert (answer.status_code, said in text_of(answer)) == (status, True)
    assert digest() == before


@pytest.mark.rule("R15")
def test_a_file_that_cannot_be_read_is_said_and_nothing_can_be_chosen(service: Any, models: Any) -> None:
    models("providers: [")
    client = signed_in(root())
    shown = client.get(MODELS)
    assert (shown.status_code, "cannot be read" in text_of(shown)) == (200, True)  # type: ignore[arg-type]
    assert rows(shown) == {}
    assert post(client).status_code == 400


@pytest.mark.rule("K14", "K15")
def test_only_who_may_in_that_project_sees_and_chooses(service: Any, models: Any) -> None:
    here, elsewhere = service.caller.project_id, create_project(name="elsewhere", now=clock.now()).pk
    everything = ("pause_run", "resume_run", "cancel_run", "answer_ask", "fork_run", "export_mirror")
    for user, expected in (
        (operator("none"), 403),
        (operator("blind", "choose_model"), 403),
        (operator("other", "see_project", "manage_credentials", *everything), 403),
        (with_role(operator("away", "see_project"), elsewhere, "choose_model"), 403),
        (with_role(operator("stranger"), elsewhere, "see_project", "choose_model"), 404),
    ):
        client = signed_in(user)
        assert client.get(f"{MODELS}?project=trials").status_code == expected, user.username
        assert post(client).status_code == expected, user.username
    assert Client().post(CHOOSE).status_code == 302
    strict = signed_in(root("strict"), enforce_csrf_checks=True)
    assert (post(strict).status_code, strict.get(CHOOSE).headers["Location"]) == (403, MODELS)
    assert not ModelChoice.objects.exists()

    allowed = signed_in(with_role(operator("here"), here, "see_project", "choose_model"))
    shown = allowed.get(MODELS)
    assert rows(shown)["planning role"] == "acme/one | the setting | ✗ no key A superuser enters one for acme."
    assert "providerkey" not in text_of(shown)  # type: ignore[arg-type]
    assert post(allowed).status_code == 302
    assert ModelChoice.objects.get().project_id == here
    assert "elsewhere" not in text_of(shown)  # type: ignore[arg-type]


@pytest.mark.django_db
def test_where_there_is_no_project_there_is_nothing_to_choose() -> None:
    assert signed_in(root()).get(MODELS).status_code == 404


@pytest.mark.rule("K14")
def test_the_bar_leads_there_whoever_may_choose(service: Any) -> None:
    for user, is_there in ((operator("viewer", "see_project"), False), (root(), True)):
        assert (f'href="{MODELS}"' in text_of(signed_in(user).get("/admin/"))) is is_there  # type: ignore[arg-type]


@pytest.mark.rule("K15")
def test_looking_writes_nothing_and_costs_the_same_whatever_is_chosen(service: Any, models: Any) -> None:
    client = signed_in(root())
    client.get(MODELS)

    def cost() -> int:
        before = digest()
        with CaptureQueriesContext(connection) as seen:
            assert client.get(MODELS).status_code == 200
        assert digest() == before
        return len(seen)

    first = cost()
    for subject in ({}, {"kind": "default", "name": ""}, {"kind": "role", "name": "planning"}):
        post(client, **subject)
    client.get(MODELS)
    assert cost() == first
