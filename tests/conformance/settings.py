"""The development profile, with the test-only Tools at ``/mcp``."""

from loomsvc.settings.development import *  # noqa: F403

ASGI_APPLICATION = "tests.conformance.service.application"
