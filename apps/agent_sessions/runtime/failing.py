"""What went wrong with a provider, in our words: nothing that it sent is repeated (E6, K19)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic_ai import exceptions

from apps.agent_sessions.runtime.addresses import AddressRefused
from apps.agent_sessions.runtime.ended import Access
from apps.agent_sessions.runtime.transport import (
    MAX_RESPONSE_BYTES,
    RedirectRefused,
    ResponseCompressed,
    ResponseTooLarge,
)

MODEL_REQUEST_FAILED = "model_request_failed"


@dataclass(frozen=True, slots=True)
class Fault:
    """Why one request came to nothing.

    ``went_out``: the provider may have seen it.  ``again_after``: seconds after which the same request may be
    taken (0: none said), ``None`` when another try would end alike.
    """

    reason: str
    message: str
    went_out: bool = True
    again_after: float | None = None
    recovery: dict[str, Any] | None = None


def configure_key(access: Access) -> dict[str, Any]:
    """What can be done about a key that is missing or refused."""
    return {"action": "configure_provider_key", "provider": access.provider}


def missing_key(access: Access) -> Fault:
    """The provider wants a key and there is none."""
    message = f"There is no key for the provider {access.provider}. Set one up, then start again."
    return Fault("provider_key_missing", message, went_out=False, recovery=configure_key(access))


def fault_of(error: BaseException, access: Access) -> Fault:
    """The fault that an exception of the library, or of our transport beneath it, stands for."""
    for cause in _chain(error):
        if isinstance(cause, AddressRefused):
            return Fault("address_refused", str(cause), went_out=False)
        if isinstance(cause, RedirectRefused):
            message = f"The provider {access.provider} redirects. Give its final address as base_url."
            return Fault("redirect_refused", message)
        if isinstance(cause, ResponseCompressed):
            message = f"The provider {access.provider} compresses its answers though it was asked not to."
            return Fault("response_broken", message)
        if isinstance(cause, ResponseTooLarge):
            most = MAX_RESPONSE_BYTES // 1024 // 1024
            return Fault("response_too_large", f"The provider {access.provider} sent more than {most} MiB.")
    return _of_library(error, access)


def _chain(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in found:
        found.append(current)
        current = current.__cause__ or current.__context__
    return found


def _of_library(error: BaseException, access: Access) -> Fault:
    provider = f"The provider {access.provider}"
    status = f" (HTTP {error.status_code})" if isinstance(error, exceptions.ModelHTTPError) else ""
    match error:
        case exceptions.ModelAuthenticationError():
            message = f"{provider} refused the key{status}. Set up another one, then start again."
            return Fault("provider_key_refused", message, recovery=configure_key(access))
        case exceptions.ModelNotFoundError():
            message = f"{provider} knows no model {access.model}{status}. Choose one from list_models."
            return Fault("model_not_found", message, recovery={"action": "choose_model"})
        case exceptions.ModelContextWindowExceededError():
            return Fault("context_too_long", f"The conversation is longer than {access.model} can take{status}.")
        case exceptions.ModelQuotaExceededError():
            message = f"{provider} says that the account of this key has used up its quota{status}."
            return Fault("quota_exhausted", message, recovery=configure_key(access))
        case exceptions.ModelRateLimitError():
            seconds = error.retry_after
            recovery = {"action": "retry_later", "retry_after_seconds": round(seconds or 60, 3)}
            message = f"{provider} takes no more requests for now{status}."
            return Fault("rate_limited", message, again_after=seconds or 0.0, recovery=recovery)
        case exceptions.ModelUnavailableError():
            seconds = error.retry_after
            recovery = {"action": "retry_later", "retry_after_seconds": round(seconds or 60, 3)}
            message = f"{provider} is not available{status}."
            return Fault("provider_unavailable", message, again_after=seconds or 0.0, recovery=recovery)
        case exceptions.ModelServerError():
            return Fault("provider_error", f"{provider} had an error of its own{status}.")
        case exceptions.ModelRequestTimeout() | exceptions.ModelTimeoutError():
            went_out = getattr(error, "phase", None) not in ("connect", "pool")
            return Fault("request_timed_out", f"{provider} did not answer in time.", went_out)
        case exceptions.ModelConnectionError(phase="connect" | "pool"):
            return Fault("connection_failed", f"{provider} cannot be reached.", went_out=False, again_after=0.0)
        case exceptions.ModelConnectionError():
            return Fault("connection_lost", f"The connection to {access.provider} broke before its answer was whole.")
        case exceptions.ContentFilterError():
            return filtered(access)
        case exceptions.ModelRequestRejectedError():
            return Fault("request_rejected", f"{provider} refused the request itself{status}.")
        case exceptions.ModelHTTPError():
            return Fault("provider_error", f"{provider} answered with an error{status}.")
        case TimeoutError():
            return Fault("request_timed_out", f"{provider} did not answer in time.")
    return Fault("response_broken", f"{provider} answered with something that is no answer of its protocol.")


def filtered(access: Access) -> Fault:
    """The provider would not answer."""
    message = f"The provider {access.provider} declined to answer: a filter of its own, or the model's refusal."
    return Fault("content_filtered", message)


def truncated(access: Access) -> Fault:
    """The answer ended at the provider's limit of tokens."""
    message = (
        f"The answer of {access.model} was cut off at its limit of tokens before it was whole. An operator raises it "
        "with `max_tokens` in the file of LOOMSVC_MODELS."
    )
    return Fault("response_truncated", message)
