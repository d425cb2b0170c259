"""The bearer security scheme of the OpenAPI document."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How drf-spectacular describes :class:`~apps.rest.authentication.BearerAuthentication`."""

    target_class = "apps.rest.authentication.BearerAuthentication"
    name = "bearer"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "loom_studio_<id>_<secret>",
            "description": "A credential of source `studio`, made by `loomsvc token_create --source studio`.",
        }
