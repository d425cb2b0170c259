"""Provider keys: kept encrypted and bound to their row, entered on a page that holds no secret (B5, K5, K17)."""

from __future__ import annotations

import json
import threading
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from background_agents import Client
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import OperationalError, connection
from django.test import Client as Browser

from apps.agent_sessions.models import ModelUsage, ProviderKey
from apps.agent_sessions.runtime.ended import Failed, Usage
from apps.agent_sessions.services import encryption, provider_keys, working
from apps.core import clock
from apps.core.endpoints import all_endpoints
from apps.core.errors import LoomError
from apps.core.redaction import redact_text
from tests.conftest import Service
from tests.loopback_provider import Answer, calls, fails, loopback_provider, says

MODELS = """
providers:
  acme: {kind: openai, base_url: "https://llm.acme.example/v1", models: [small, large]}
  bare: {kind: openai, base_url: "https://bare.acme.example/v1", key: none, models: [tiny]}
"""
KEY = "sk-sentinel-0123456789-abcdef-WXYZ"
OTHER = "sk-another-9876543210-fedcba-QRST"
PAGE = "/admin/agent_sessions/providerkey/setup/trials/acme"


@pytest.fixture
def client(service: Service, settings: Any, tmp_path: Path) -> Client:
    file = tmp_path / "models.yaml"
    file.write_text(MODELS)
    settings.LOOMSVC = replace(settings.LOOMSVC, models_file=file, data_dir=tmp_path)
    return Client(service)


def keep(client: Client, key: str = KEY, provider: str = "acme", project_id: Any = None) -> None:
    project_id = project_id or client.service.caller.project_id
    provider_keys.set_provider_key(project_id=project_id, provider=provider, key=key, by="op", now=clock.now())


def find(client: Client, provider: str = "acme") -> str | None:
    return provider_keys.find_provider_key(project_id=client.service.caller.project_id, provider=provider)


def browser(*, permitted: bool = True, signed_in: bool = True) -> Browser:
    found = Browser(enforce_csrf_checks=False)
    if signed_in:
        user = User.objects.create_user(f"user{uuid.uuid4().hex[:6]}", is_staff=True, is_superuser=permitted)
        user.user_permissions.set(Permission.objects.all())
        found.force_login(user)
    return found


@pytest.mark.rule("B1", "B4", "B5")
def test_a_model_without_its_key_says_where_to_enter_one(client: Client, settings: Any) -> None:
    settings.LOOMSVC = replace(settings.LOOMSVC, public_url="https://looms.example")
    listed = {model["id"]: model for model in client.service.call("list_models")["models"]}
    assert listed["offline"]["available"] and listed["bare/tiny"]["available"]
    assert "setup_url" not in listed["offline"]
    assert (listed["acme/small"]["available"], listed["acme/small"]["provider"]) == (False, "acme")
    assert listed["acme/small"]["setup_url"] == f"https://looms.example{PAGE}"
    refused = client.start(model="acme/small")["error"]
    assert (refused["code"], refused["reason"]) == ("unavailable", "provider_key_missing")
    assert refused["recovery"] == {"action": "configure_provider_key", "setup_url": f"https://looms.example{PAGE}"}
    keep(client)
    listed = {model["id"]: model for model in client.service.call("list_models")["models"]}
    assert listed["acme/large"]["available"] and "setup_url" not in listed["acme/large"]
    assert "error" not in client.start(model="acme/small")


@pytest.mark.rule("B5", "B8")
def test_a_workers_request_carries_the_projects_own_key_and_a_refused_one_says_where_to_mend_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def play(*_: Any, access: Any, before_request: Any, **__: Any) -> Any:
        assert before_request()
        seen.append((access.api_key, repr(access)))
        recovery = {"action": "configure_provider_key", "provider": "acme"}
        return Failed("model_request_failed", "provider_key_refused", "Refused.", Usage(1), recovery)

    monkeypatch.setattr(working, "reason", play)
    keep(client)
    client.start(model="acme/small")
    client.work()
    ((used, shown),) = seen
    assert used == KEY and KEY not in shown
    error = client.status()["error"]
    assert error["recovery"] == {"action": "configure_provider_key", "setup_url": PAGE}
    assert error["reason"] == "provider_key_refused"


@pytest.mark.rule("K17", "B5")
def test_what_is_kept_is_encrypted_outside_the_ledgers_reach(client: Client, tmp_path: Path) -> None:
    keep(client)
    row = ProviderKey.objects.get()
    assert row.last_four == "WXYZ" and find(client) == KEY
    everything = repr([getattr(row, field.attname) for field in ProviderKey._meta.concrete_fields])
    assert KEY not in everything and KEY[:12] not in everything
    assert (tmp_path / "key_secrets").stat().st_mode & 0o777 == 0o600
    assert KEY not in redact_text(f"provider said {KEY}")
    (tmp_path / "key_secrets").write_text("x" * 64)
    with pytest.raises(LoomError, match="cannot be read"):
        find(client)


@pytest.mark.rule("K17", "B5")
@pytest.mark.parametrize(
    ("key", "shown"),
    [("k" * 7, None), ("a b-cdefghijk", None), ("12345678", ""), ("123456789012345", ""), ("1234567890123456", "3456")],
)
def test_the_end_of_a_key_is_shown_only_of_a_long_one_and_what_is_none_is_refused(
    client: Client, key: str, shown: str | None
) -> None:
    if shown is None:
        with pytest.raises(LoomError) as refused:
            keep(client, key)
        assert [(issue.code, issue.path) for issue in refused.value.issues] == [("pattern", "/key")]
        assert not ProviderKey.objects.exists()
    else:
        keep(client, key)
        assert (ProviderKey.objects.get().last_four, find(client)) == (shown, key)


@pytest.mark.rule("B5")
def test_a_key_in_place_of_another_has_not_been_tested(client: Client) -> None:
    project_id = client.service.caller.project_id
    keep(client)
    provider_keys.note_test(project_id=project_id, provider="acme", result="It works.", now=clock.now())
    view = provider_keys.view_provider_key(project_id=project_id, provider="acme")
    assert view is not None and view.tested_at is not None and view.test_result == "It works."
    keep(client, OTHER)
    view = provider_keys.view_provider_key(project_id=project_id, provider="acme")
    assert view is not None and (view.tested_at, view.test_result, view.last_four) == (None, "", "QRST")


@pytest.mark.rule("K17")
def test_a_key_that_is_moved_to_another_row_is_refused(client: Client) -> None:
    keep(client)
    keep(client, OTHER, "bare")
    first, second = ProviderKey.objects.order_by("provider")
    ProviderKey.objects.filter(pk=first.pk).update(ciphertext=second.ciphertext)
    ProviderKey.objects.filter(pk=second.pk).update(ciphertext=first.ciphertext)
    for provider in ("acme", "bare"):
        with pytest.raises(LoomError, match="cannot be read"):
            find(client, provider)


@pytest.mark.rule("K17", "B5")
def test_a_rotation_encrypts_all_anew_and_lets_the_old_secret_go(
    client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(client)
    before = ProviderKey.objects.get()
    secret = (tmp_path / "key_secrets").read_text()
    call_command("provider_key_rotate")
    after = ProviderKey.objects.get()
    assert "1 provider keys" in capsys.readouterr().out
    assert after.encrypted_with != before.encrypted_with and find(client) == KEY
    now = (tmp_path / "key_secrets").read_text().split()
    assert len(now) == 1 and secret not in now


@pytest.mark.rule("K17")
def test_a_rotation_that_could_not_read_a_key_keeps_the_secret_that_it_needs(
    client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(client)
    rows = ProviderKey.objects.all()
    whole = rows.get().ciphertext
    rows.update(ciphertext=whole[:-4])
    call_command("provider_key_rotate")
    assert "1 could not be read" in capsys.readouterr().out
    assert len((tmp_path / "key_secrets").read_text().split()) == 2
    rows.update(ciphertext=whole)
    assert find(client) == KEY
    call_command("provider_key_rotate")
    assert len((tmp_path / "key_secrets").read_text().split()) == 1 and find(client) == KEY


@pytest.mark.rule("K17", "B5")
def test_a_key_is_found_though_it_is_rotated_between_two_looks(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(client)
    decrypt = provider_keys.encryption.decrypt

    def late(*arguments: Any) -> str:
        monkeypatch.setattr(provider_keys.encryption, "decrypt", decrypt)
        call_command("provider_key_rotate")
        return decrypt(*arguments)

    monkeypatch.setattr(provider_keys.encryption, "decrypt", late)
    assert find(client) == KEY


@pytest.mark.django_db(transaction=True)
@pytest.mark.rule("K17", "B5")
def test_of_two_rotations_at_once_neither_loses_the_others_secret(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(client)
    write = encryption._write

    def rotate_elsewhere() -> None:
        try:
            call_command("provider_key_rotate")
        finally:
            connection.close()

    other = threading.Thread(target=rotate_elsewhere)

    def late(kept: list[str]) -> None:
        """The other one runs whole, if nothing keeps it from that, before this one writes what it has read."""
        monkeypatch.setattr(encryption, "_write", write)
        other.start()
        other.join(timeout=1)
        write(kept)

    monkeypatch.setattr(encryption, "_write", late)
    call_command("provider_key_rotate")
    other.join()
    assert find(client) == KEY


@pytest.mark.rule("K17")
def test_secrets_from_the_environment_rotate_by_their_order(client: Client, settings: Any) -> None:
    old, new = "o" * 40, "n" * 40
    settings.LOOMSVC = replace(settings.LOOMSVC, key_secrets=(old,))
    keep(client)
    settings.LOOMSVC = replace(settings.LOOMSVC, key_secrets=(new, old))
    assert find(client) == KEY
    call_command("provider_key_rotate")
    settings.LOOMSVC = replace(settings.LOOMSVC, key_secrets=(new,))
    assert find(client) == KEY


@pytest.mark.rule("K17")
def test_a_scaled_out_service_without_a_secret_keeps_no_key(client: Client, settings: Any) -> None:
    settings.EMBEDDED = False
    with pytest.raises(LoomError, match="LOOMSVC_KEY_SECRETS"):
        keep(client)
    assert not ProviderKey.objects.exists()


@pytest.mark.rule("K5", "K14", "B5")
def test_the_page_takes_a_superuser_only(client: Client) -> None:
    for visitor, expected in ((browser(signed_in=False), 302), (browser(permitted=False), 403), (browser(), 200)):
        assert visitor.get(PAGE).status_code == expected
        if expected != 200:
            sent = visitor.post(PAGE, {"action": "keep", "key": KEY})
            assert sent.status_code == expected and not ProviderKey.objects.exists()


@pytest.mark.rule("K5", "K2")
def test_the_page_keeps_shows_and_forgets_a_key_and_holds_no_secret(client: Client) -> None:
    visitor = browser()
    shown = visitor.get(PAGE)
    assert shown["Referrer-Policy"] == "no-referrer" and "no-store" in shown["Cache-Control"]
    assert "There is no key yet" in shown.content.decode() and not ProviderKey.objects.exists()
    sent = visitor.post(PAGE, {"action": "keep", "key": f"  {KEY} "})
    assert (sent.status_code, sent["Location"], sent["Referrer-Policy"]) == (303, PAGE, "no-referrer")
    assert find(client) == KEY
    text = visitor.get(PAGE).content.decode()
    assert "WXYZ" in text and KEY not in text and ProviderKey.objects.get().ciphertext not in text
    assert visitor.get(PAGE + "?action=forget&key=x").status_code == 200
    assert find(client) == KEY, "GET changes nothing"
    visitor.post(PAGE, {"action": "keep", "key": "too short"})
    visitor.post(PAGE, {"action": "keep"})
    visitor.post(PAGE, {"action": "what"})
    assert find(client) == KEY
    visitor.post(PAGE, {"action": "forget"})
    assert find(client) is None
    for nowhere in (PAGE.replace("trials", "nobody"), PAGE.replace("acme", "bare"), PAGE.replace("acme", "x")):
        assert visitor.get(nowhere).status_code == 404


@pytest.mark.rule("K25", "K17")
def test_the_audit_trail_keeps_who_entered_a_key_and_who_had_it_forgotten(client: Client) -> None:
    visitor = browser()
    for filled in ({"action": "keep", "key": "short"}, {"action": "forget"}, {"action": "keep", "key": KEY}):
        visitor.post(PAGE, filled)
    visitor.post(PAGE, {"action": "keep", "key": OTHER})
    visitor.post(PAGE, {"action": "forget"})
    name = User.objects.get().username
    kept = [(row.user.username, row.object_repr, row.change_message) for row in LogEntry.objects.order_by("id")]
    entered, forgotten = (name, "trials: acme", "entered a key"), (name, "trials: acme", "had the key forgotten")
    assert kept == [entered, entered, forgotten]
    shown = visitor.get("/admin/console/audit/").content.decode()
    assert shown.count("providerkey trials: acme") == 3
    assert KEY not in shown and OTHER not in shown


@pytest.mark.rule("K25")
def test_no_key_is_forgotten_without_its_record(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.agent_sessions import setup_page

    def full(**_: Any) -> None:
        raise OperationalError("the disk is full")

    keep(client)
    monkeypatch.setattr(setup_page, "record_change", full)
    with pytest.raises(OperationalError):
        browser().post(PAGE, {"action": "forget"})
    assert find(client) == KEY


@pytest.mark.rule("K5", "K15")
def test_the_page_takes_no_post_without_a_csrf_token(client: Client) -> None:
    visitor = browser()
    visitor.handler.enforce_csrf_checks = True
    assert visitor.post(PAGE, {"action": "keep", "key": KEY}).status_code == 403
    assert not ProviderKey.objects.exists()


@pytest.mark.rule("B5")
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (says("yes"), "works"),
        (says(""), "works"),
        (calls("what", {}), "works"),
        (says("ye", stop="length"), "works"),
        (says("", stop="content_filter"), "works"),
        (fails(401), "provider_key_refused"),
        (fails(503), "provider_unavailable"),
    ],
)
@pytest.mark.django_db(transaction=True)
def test_a_key_is_tested_when_somebody_asks_and_works_once_the_provider_answers(
    client: Client, settings: Any, tmp_path: Path, answer: Answer, said: str
) -> None:
    with loopback_provider() as provider:
        file = tmp_path / "loopback.yaml"
        described = f"{{kind: openai, base_url: '{provider.base_url('openai')}', models: [small, large]}}"
        file.write_text(f"providers: {{acme: {described}}}\nallow_hosts: ['{provider.host}']\n")
        settings.LOOMSVC = replace(settings.LOOMSVC, models_file=file)
        provider.answers = [answer]
        visitor = browser()
        visitor.post(PAGE, {"action": "test"})
        assert provider.requests == [], "there is none yet"
        keep(client)
        visitor.post(PAGE, {"action": "test"})
    assert [seen.headers["authorization"] for seen in provider.requests] == [f"Bearer {KEY}"]
    assert provider.requests[0].body["model"] == "small"
    assert ProviderKey.objects.get().test_result.startswith(said)
    assert said in visitor.get(PAGE).content.decode()
    used = ModelUsage.objects.get()
    assert (used.model, used.sessions, used.requests) == ("acme/small", 0, 1)


@pytest.mark.rule("K14", "K17")
def test_the_admin_shows_the_last_four_characters_and_no_more(client: Client) -> None:
    keep(client)
    client.start()
    admin = Browser()
    admin.force_login(User.objects.create_superuser("root", password="x"))
    row = ProviderKey.objects.get()
    for page in (
        "/admin/agent_sessions/providerkey/",
        f"/admin/agent_sessions/providerkey/{row.pk}/change/",
        "/admin/agent_sessions/agentsession/",
        f"/admin/agent_sessions/agentsession/{client.proof['id']}/change/",
        "/admin/agent_sessions/modelusage/",
    ):
        answer = admin.get(page)
        text = answer.content.decode()
        assert answer.status_code == 200, page
        assert KEY not in text and row.ciphertext not in text and client.proof["session_secret"] not in text
    assert "…WXYZ" in admin.get("/admin/agent_sessions/providerkey/").content.decode()


@pytest.mark.rule("FR-H13", "K13", "K17")
def test_no_endpoint_reads_sets_or_makes_a_key_or_a_credential(client: Client) -> None:
    keep(client)
    for endpoint in all_endpoints():
        assert not {"key", "api_key", "token", "provider_key"} & set(endpoint.input.wire_schema().get("properties", {}))
        assert "key" not in endpoint.name and "token" not in endpoint.name
    said = json.dumps([client.service.call(name) for name in ("status", "list_models")])
    assert KEY[:12] not in said and "WXYZ" not in said
