"""What agent_sessions has to say to `loomsvc doctor`: models, who gets which, keys, and the web search."""

from __future__ import annotations

from collections.abc import Iterator

from apps.agent_sessions.domain.model_choices import DEFAULT, Subject, SubjectKind
from apps.agent_sessions.models import ModelChoice, ProviderKey
from apps.agent_sessions.runtime.files import ModelsInvalid
from apps.agent_sessions.runtime.models import Catalogue, catalogue
from apps.agent_sessions.services import encryption
from apps.core import conf
from apps.core.errors import LoomError
from apps.core.findings import Finding, ok, problem, register_check, warning

_MOST_CHOICES = 200


def check_models() -> Iterator[Finding]:
    """The files can be read; which model an Agent Step gets."""
    try:
        known = catalogue()
    except ModelsInvalid as error:
        yield problem(f"The models cannot be read: {error}", "Correct the file, then start the service again.")
        return
    yield ok(f"Models: {', '.join(known.models)}")
    others = known.resolve(agent=None, role=None, chosen={}).model_id
    named = [(_named(subject), model) for subject, model in known.assigned.items() if subject != DEFAULT]
    yield ok("Agent Steps get: " + ", ".join(f"{who}: {model}" for who, model in [*named, ("others", others)]))


def _named(subject: Subject) -> str:
    return subject.name if subject.kind is SubjectKind.AGENT else str(subject)


def check_choices() -> Iterator[Finding]:
    """What operators chose in the console instead: each model is there, and its Project has the key for it."""
    try:
        known = catalogue()
    except ModelsInvalid:
        return
    keyed = set(ProviderKey.objects.values_list("project_id", "provider"))
    rows = ModelChoice.objects.select_related("project").order_by("project__name", "kind", "name")
    for row in rows[:_MOST_CHOICES]:
        subject = Subject(SubjectKind(row.kind), row.name)
        said = f"In Project {row.project.name} the console's choice for {subject} is {row.model}"
        model = known.find(row.model)
        if model is None:
            yield problem(
                f"{said}, and that model is not there any more: its Agent Steps do not begin.",
                "Choose another on the console's page Models, or put the model back into the file of LOOMSVC_MODELS.",
            )
        elif model.needs_key and (row.project_id, model.provider) not in keyed:
            yield warning(
                f"{said}, and the Project has no key for {model.provider}.",
                "Enter one at the setup_url that list_models shows.",
            )
        else:
            yield ok(said)


def check_keys() -> Iterator[Finding]:
    """Every model that Agent Steps get has its provider's key, and keys can be read; they are never shown."""
    kept: dict[str, list[str]] = {}
    for row in ProviderKey.objects.select_related("project").order_by("project__name", "provider"):
        kept.setdefault(row.provider, []).append(row.project.name)
        if not _is_readable(row):
            yield problem(
                f"The key for {row.provider} in Project {row.project.name} cannot be read.",
                "Give the service the secret of LOOMSVC_KEY_SECRETS again, or enter the key anew.",
            )
    try:
        known = catalogue()
    except ModelsInvalid:
        return
    used = _providers_in_use(known)
    for provider in known.providers():
        if not provider.needs_key:
            continue
        if projects := kept.get(provider.id):
            yield ok(f"Key for {provider.id} in Project {', '.join(projects)}")
        elif provider.id in used:
            yield warning(
                f"Agent Steps get a model of {provider.id}, and no Project has a key for it.",
                "Enter one at the setup_url that list_models shows.",
            )
        else:
            yield ok(f"No key for {provider.id}, which no Agent Step gets")


def _is_readable(row: ProviderKey) -> bool:
    try:
        encryption.decrypt(row.pk, row.ciphertext)
    except (encryption.CannotDecrypt, LoomError):
        return False
    return True


def _providers_in_use(known: Catalogue) -> set[str]:
    others = known.resolve(agent=None, role=None, chosen={}).model_id
    return {known.models[one].provider for one in (others, *known.assigned.values())}


def check_web_search() -> Iterator[Finding]:
    """Whether there is one; it is not asked anything."""
    address = conf.settings().searxng_url
    yield ok(f"Searches of the web go to {address}" if address else "Searches are of the ledger only")


register_check("models", check_models)
register_check("models", check_choices, reads_ledger=True)
register_check("models", check_keys, reads_ledger=True)
register_check("models", check_web_search)
