"""What a background agent can reason with (B1)."""

from __future__ import annotations

from apps.agent_sessions.contracts.errors import ENVELOPE
from apps.agent_sessions.contracts.sessions import ListModelsRequest, ModelList
from apps.agent_sessions.services import models
from apps.core.caller import Caller
from apps.core.endpoints import Endpoint, Kind, Route, register


def _list(caller: Caller, request: ListModelsRequest) -> ModelList:
    return ModelList(models=models.list_models(caller=caller))


LIST_MODELS = register(
    Endpoint(
        name="list_models",
        title="List models",
        description=(
            "List the models that run_agent and build_query can use; call it before them. Where `available` is false, "
            "your Project has no key for the provider: show your human `setup_url`, the page where an operator enters "
            "one. Never ask for the key itself."
        ),
        input=ListModelsRequest,
        output=ModelList,
        handler=_list,
        kind=Kind.READ,
        route=Route("GET", "/models"),
        error_form=ENVELOPE,
    )
)
