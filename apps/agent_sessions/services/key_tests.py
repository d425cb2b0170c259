"""Testing a Project's key for a provider, when somebody asks (B5)."""

from __future__ import annotations

import datetime as dt
import uuid

from django.db import connection, transaction

from apps.agent_sessions.domain.programs import Program
from apps.agent_sessions.runtime.ended import Failed, Limits, Succeeded
from apps.agent_sessions.runtime.reasoning import reason
from apps.agent_sessions.services.models import access_to, known_models
from apps.agent_sessions.services.provider_keys import note_test
from apps.agent_sessions.services.usage import count_usage

_LIMITS = Limits(turns=1, seconds=20, request_seconds=20, output_repairs=0, request_retries=0)
WORKS = "works"
#: Ways to fail that prove that the key was taken.
_ANSWERED = frozenset({"output_invalid", "turn_limit", "response_truncated", "content_filtered"})


def check_provider_key(*, project_id: uuid.UUID, provider: str, now: dt.datetime) -> str:
    """Send one small request to the provider's first model; how that ended, in words without any of its answer."""
    catalogue = known_models()
    model = next(model for model in catalogue.models.values() if model.provider == provider)
    access = access_to(model, catalogue, project_id=project_id)
    if access.api_key is None:
        return "There is no key to test."
    # Nothing of the ledger is held while the provider thinks.
    connection.close()
    ended = reason(
        Program(model=model.id, instructions="This tests a key. Answer with the one word: yes"),
        "Do you read this?",
        tools={},
        access=access,
        limits=_LIMITS,
        before_request=lambda: True,
        report=lambda usage: None,
    )
    # What the model said does not matter: that it was asked and answered does.
    answered = isinstance(ended, Succeeded) or (isinstance(ended, Failed) and ended.reason in _ANSWERED)
    result = WORKS if answered else f"{ended.reason}: {ended.message}" if isinstance(ended, Failed) else "stopped"
    with transaction.atomic():
        note_test(project_id=project_id, provider=provider, result=result, now=now)
        count_usage(project_id=project_id, model=model.id, usage=ended.usage, now=now, sessions=0)
    return result
