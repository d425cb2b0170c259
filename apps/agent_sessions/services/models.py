"""The models that a Project can use, and how one is reached with the Project's own key (B1, B5)."""

from __future__ import annotations

import uuid
from urllib.parse import quote

from apps.access.connection import read_connection
from apps.agent_sessions.contracts.sessions import ModelView
from apps.agent_sessions.domain.refusals import Action, Reason, Recovery, Refusal
from apps.agent_sessions.runtime.ended import Access
from apps.agent_sessions.runtime.files import ModelsInvalid
from apps.agent_sessions.runtime.models import Catalogue, Model, catalogue
from apps.agent_sessions.runtime.scripts import OFFLINE, script_of
from apps.agent_sessions.services.provider_keys import find_provider_key, keyed_providers
from apps.core import conf
from apps.core.caller import Caller
from apps.core.errors import ErrorCode, Issue, LoomError
from apps.looms.loaded import LoadedLoom

#: Where an operator enters a key; ``setup_page`` serves it.
SETUP_PATH = "/admin/agent_sessions/providerkey/setup"


def known_models() -> Catalogue:
    """The catalogue; ``UNAVAILABLE`` when its file cannot be used."""
    try:
        return catalogue()
    except ModelsInvalid as error:
        raise LoomError(ErrorCode.UNAVAILABLE, f"The models of this service cannot be read: {error}") from None


def list_models(*, caller: Caller) -> list[ModelView]:
    """Every model, and whether the caller's Project can use it."""
    keyed = keyed_providers(caller.project_id)
    return [_view(model, caller, keyed) for model in known_models().models.values()]


def _view(model: Model, caller: Caller, keyed: frozenset[str]) -> ModelView:
    available = not model.needs_key or model.provider in keyed
    return ModelView(
        id=model.id,
        provider=model.provider,
        display_name=model.display_name,
        available=available,
        setup_url=None if available else setup_url(caller.project_name, model.provider),
    )


def unknown_model(known: Catalogue, name: str, cure: str = "Use the `id` of a model that list_models shows.") -> Issue:
    """What is wrong with a `model` that is not there."""
    nearest = known.nearest(name)
    meant = f" Did you mean {nearest}?" if nearest else ""
    return Issue("choice", "/model", f"{cure}{meant}")


def require_key(model: Model, caller: Caller) -> None:
    """Refuse a model that the Project has no key for, saying where to enter one."""
    if not model.needs_key or model.provider in keyed_providers(caller.project_id):
        return
    raise key_missing(model.provider, caller.project_name)


def access_to(
    model: Model, known: Catalogue, *, project_id: uuid.UUID, loom: LoadedLoom | None = None, agent_id: str = ""
) -> Access:
    """How a Project reaches the model: with its own key, if it has one.  `offline` plays the agent of the Loom.

    Raises ``UNAVAILABLE`` for a key that cannot be read, :class:`ModelsInvalid` for a script.
    """
    key = find_provider_key(project_id=project_id, provider=model.provider) if model.needs_key else None
    script = None
    if loom is not None and model.kind == OFFLINE:
        script = script_of(loom, agent_id, given=known.scripts)
    return known.access(model, api_key=key, script=script)


def key_missing(provider: str, project_name: str) -> Refusal:
    """The refusal, with its way out."""
    return Refusal(
        ErrorCode.UNAVAILABLE,
        Reason.PROVIDER_KEY_MISSING,
        f"Project {project_name} has no key for {provider}. An operator enters one at recovery.setup_url.",
        recovery=Recovery(Action.CONFIGURE_PROVIDER_KEY, setup_url(project_name, provider)),
    )


def setup_url(project_name: str, provider: str) -> str:
    """The page for a provider's key: it holds no secret, and may be shown to anybody."""
    return f"{public_url()}{SETUP_PATH}/{quote(project_name, safe='')}/{quote(provider, safe='')}"


def public_url() -> str:
    """Where people reach this service; blank where nobody said, so that addresses are paths."""
    settings = conf.settings()
    if settings.public_url:
        return settings.public_url
    connection = read_connection(settings.data_dir)
    return str(connection["url"]) if connection is not None and connection.get("url") else ""
