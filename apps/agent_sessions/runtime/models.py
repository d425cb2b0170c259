"""The models that this service can reason with: the file that LOOMSVC_MODELS names, and `offline` (B1, B6).

The file is YAML: ``providers`` with their ``models``, ``allow_hosts``, and which model Agent Steps get (``agents``,
``roles``, ``default``).
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from apps.agent_sessions.domain.model_choices import (
    DEFAULT,
    Assigned,
    Resolved,
    Subject,
    SubjectKind,
    resolve_model,
)
from apps.agent_sessions.runtime.addresses import AddressRefused, read_base_url
from apps.agent_sessions.runtime.ended import Access
from apps.agent_sessions.runtime.files import FileShape, ModelsInvalid, read_shape
from apps.agent_sessions.runtime.scripts import OFFLINE, Script, read_script_file
from apps.core import conf

_DEFAULT_URLS = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}
_NAMES = {"openai": "OpenAI", "anthropic": "Anthropic"}


@dataclass(frozen=True, slots=True)
class Model:
    """One model.  ``id`` is ``provider/model`` (the built-in one is ``offline``)."""

    id: str
    provider: str
    kind: str
    name: str
    display_name: str
    needs_key: bool
    base_url: str | None = None
    stream: bool = False
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Provider:
    """Whom a key is kept for."""

    id: str
    display_name: str
    needs_key: bool


_OFFLINE_MODEL = Model(OFFLINE, OFFLINE, OFFLINE, OFFLINE, "Offline (built in, answers from a script)", needs_key=False)


@dataclass(frozen=True)
class Catalogue:
    """Every model by id, in the order of the file, `offline` first; and which one an Agent Step gets."""

    models: Mapping[str, Model] = field(default_factory=lambda: {OFFLINE: _OFFLINE_MODEL})
    allowed_hosts: frozenset[str] = frozenset()
    #: What the file says of agents, roles and the default, in its order; every model named here is there.
    assigned: Assigned = field(default_factory=dict)
    #: An operator's scripts for `offline`, by ``loomName/agentId`` or program digest.
    scripts: Mapping[str, Script] = field(default_factory=dict)

    def find(self, model_id: str) -> Model | None:
        """The model of this id."""
        return self.models.get(model_id)

    def nearest(self, model_id: str) -> str | None:
        """The id that was probably meant."""
        return next(iter(difflib.get_close_matches(model_id, list(self.models), n=1)), None)

    def providers(self) -> list[Provider]:
        """Everybody whom a key may be kept for, in order."""
        found: dict[str, Provider] = {}
        for model in self.models.values():
            shown = model.display_name.partition(": ")[0]
            found.setdefault(model.provider, Provider(model.provider, shown, model.needs_key))
        return [one for one in found.values() if one.id != OFFLINE]

    def resolve(self, *, agent: str | None, role: str | None, chosen: Assigned) -> Resolved:
        """Whom an Agent Step gets in a Project that chose ``chosen``; a choice may name a model that has gone."""
        return resolve_model(agent=agent, role=role, chosen=chosen, setting=self.assigned, built_in=OFFLINE)

    def access(self, model: Model, *, api_key: str | None, script: Script | None = None) -> Access:
        """How it is reached.  ``script`` matters to `offline` only."""
        return Access(
            kind=model.kind,
            provider=model.provider,
            model=model.name,
            base_url=model.base_url,
            api_key=api_key,
            allowed_hosts=self.allowed_hosts,
            stream=model.stream,
            max_tokens=model.max_tokens,
            needs_key=model.needs_key,
            script=script,
        )


_Id = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,62}$")]
_Text = Annotated[str, Field(min_length=1, max_length=200)]


class _ModelShape(FileShape):
    id: _Text
    name: _Text | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None


class _ProviderShape(FileShape):
    kind: Literal["openai", "anthropic"]
    name: _Text | None = None
    base_url: _Text | None = None
    key: Literal["required", "none"] = "required"
    stream: bool = False
    models: Annotated[list[_Text | _ModelShape], Field(min_length=1)]


class _FileShape(FileShape):
    providers: dict[_Id, _ProviderShape] = {}
    allow_hosts: list[_Text] = []
    agents: dict[_Text, _Text] = {}
    roles: dict[_Text, _Text] = {}
    default: _Text | None = None

    def assigned(self) -> dict[Subject, str]:
        """Model ids by what they are assigned to."""
        found = {Subject(SubjectKind.ROLE, name): model for name, model in self.roles.items()}
        found |= {Subject(SubjectKind.AGENT, name): model for name, model in self.agents.items()}
        return found if self.default is None else {**found, DEFAULT: self.default}


def read_catalogue(text: str, file: str, *, scripts: Mapping[str, Script] | None = None) -> Catalogue:
    """The catalogue that a YAML text describes.  Raises :class:`ModelsInvalid`."""
    shape = read_shape(_FileShape, text, file)
    models = {OFFLINE: _OFFLINE_MODEL}
    for provider, described in shape.providers.items():
        if provider == OFFLINE:
            raise ModelsInvalid(f"{file}: `providers.{OFFLINE}`: the name is taken by the built-in model.")
        for model in _models_of(provider, described, file):
            models[model.id] = model
    assigned = shape.assigned()
    for subject, named in assigned.items():
        if named not in models:
            key = subject.name or subject.kind.value
            raise ModelsInvalid(f"{file}: `{key}` names the model {named!r}, which is not there.")
    return Catalogue(
        models=models,
        allowed_hosts=frozenset(host.lower() for host in shape.allow_hosts),
        assigned=assigned,
        scripts=scripts or {},
    )


def _models_of(provider: str, described: _ProviderShape, file: str) -> list[Model]:
    base_url = described.base_url or _DEFAULT_URLS[described.kind]
    try:
        read_base_url(base_url)
    except AddressRefused as refused:
        raise ModelsInvalid(f"{file}: `providers.{provider}.base_url`: {refused}") from None
    shown = described.name or (_NAMES.get(provider) or provider)
    found = []
    for one in described.models:
        model = _ModelShape(id=one) if isinstance(one, str) else one
        found.append(
            Model(
                id=f"{provider}/{model.id}",
                provider=provider,
                kind=described.kind,
                name=model.id,
                display_name=f"{shown}: {model.name or model.id}",
                needs_key=described.key == "required",
                base_url=base_url,
                stream=described.stream,
                max_tokens=model.max_tokens,
            )
        )
    return found


def catalogue() -> Catalogue:
    """The catalogue of this process.  Raises :class:`ModelsInvalid`, which names the file."""
    settings = conf.settings()
    return _read(settings.models_file, settings.offline_script_file)


@lru_cache(maxsize=4)
def _read(models_file: Path | None, script_file: Path | None) -> Catalogue:
    scripts = read_script_file(script_file) if script_file is not None else {}
    if models_file is None:
        return Catalogue(scripts=scripts)
    try:
        text = models_file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise ModelsInvalid(f"The file of LOOMSVC_MODELS ({models_file.name}) cannot be read.") from None
    return read_catalogue(text, models_file.name, scripts=scripts)
