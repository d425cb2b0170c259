"""A credential makes no other: not over any door, and not in the console either."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from apps.access.models import Credential
from apps.access.services.credentials import create_credential
from apps.access.services.projects import ensure_default_project
from apps.agent_sessions.models import ProviderKey
from apps.core import clock
from apps.core.caller import Source
from apps.core.endpoints import all_endpoints

pytestmark = pytest.mark.django_db


@pytest.mark.rule("FR-H13", "K13")
@pytest.mark.parametrize("source", [Source.AGENT_IDE, Source.CLI, Source.STUDIO])
def test_a_bearer_cannot_make_a_credential_or_enter_a_key(source: Source) -> None:
    project = ensure_default_project(now=clock.now())
    _, token = create_credential(project=project, source=source, label="agent", now=clock.now())
    client = Client(headers={"Authorization": f"Bearer {token}"})
    places = [
        reverse("admin:console_credential_create"),
        reverse("admin:access_credential_add"),
        "/admin/agent_sessions/providerkey/setup/default/openai",
    ]
    given = {"project": "default", "source": source.value, "label": "another", "key": "sk-0123456789abcdef"}
    for place in places:
        answer = client.post(place, given)
        # Nobody is signed in: they are shown the door to the admin, or refused.
        assert answer.status_code == 403 or "/login/" in answer.get("Location", ""), (place, answer.status_code)
    assert Credential.objects.count() == 1
    assert not ProviderKey.objects.exists()


@pytest.mark.rule("FR-H13")
def test_no_endpoint_makes_a_credential() -> None:
    words = {word for endpoint in all_endpoints() for word in endpoint.name.split("_")}
    assert not words & {"token", "tokens", "credential", "credentials", "key", "keys"}
