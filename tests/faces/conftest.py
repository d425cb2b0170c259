"""What the tests of all faces share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from apps.access.services.throttling import failure_counts


@pytest.fixture(autouse=True)
def _nobody_has_failed_yet() -> Iterator[None]:
    """Failed authentications of one test do not throttle the next."""
    failure_counts.clear()
    yield
    failure_counts.clear()
