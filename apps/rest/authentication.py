"""Who is calling over REST: a bearer credential of source ``studio`` (N1, K4, K24)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import unquote

from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from apps.access.domain.entries import REST_ENTRY
from apps.access.services.throttling import authenticate_from
from apps.core import clock
from apps.core.caller import Caller
from apps.core.errors import ErrorCode, LoomError
from apps.core.exchange import countable_address
from apps.core.redaction import holds_credential
from apps.rest.problems import CHALLENGE

#: Query parameters that clients elsewhere send credentials in.
_CREDENTIAL_PARAMETERS = frozenset({"token", "access_token", "auth", "authorization", "api_key", "apikey", "bearer"})
CREDENTIAL_IN_URL = (
    "Send the credential as `Authorization: Bearer …`, never in a URL. "
    "One that was sent in a URL may be in logs: revoke it."
)


@dataclass(frozen=True, slots=True)
class Principal:
    """What REST framework takes for a user."""

    caller: Caller
    is_authenticated: ClassVar[bool] = True


class BearerAuthentication(BaseAuthentication):
    """``Authorization: Bearer loom_studio_…``; there is no anonymous caller (K9)."""

    def authenticate(self, request: Request) -> tuple[Principal, None]:
        _refuse_credential_in_url(request)
        caller = authenticate_from(
            address=countable_address(request.META.get("REMOTE_ADDR"), forwarded="X-Forwarded-For" in request.headers),
            authorization=request.headers.get("Authorization"),
            entry=REST_ENTRY,
            now=clock.now(),
        )
        return Principal(caller), None

    def authenticate_header(self, request: Request) -> str:
        return CHALLENGE


class StaffSessionAuthentication(BaseAuthentication):
    """A person signed in to the admin, for pages that only read: no CSRF token is asked for."""

    def authenticate(self, request: Request) -> tuple[Any, None] | None:
        user = getattr(request._request, "user", None)
        return (user, None) if user is not None and user.is_active and user.is_staff else None


def _refuse_credential_in_url(request: Request) -> None:
    """URLs end up in logs and histories, so a credential in one is refused before it is looked at (K4)."""
    named = {name.lower().replace("-", "_") for name in request.query_params}
    if named & _CREDENTIAL_PARAMETERS or holds_credential(unquote(request.get_full_path())):
        raise LoomError(ErrorCode.INVALID_REQUEST, CREDENTIAL_IN_URL)
