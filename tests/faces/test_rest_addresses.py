"""The project serves the REST face where the contract says, once."""

import pytest
from django.test import Client


@pytest.mark.django_db
@pytest.mark.rule("N1", "K9")
@pytest.mark.parametrize("path", ["/api/v1/runs", "/api/v1/runs/", "/api/v1/status", "/api/v1/nothing"])
def test_an_address_of_the_api_asks_for_a_credential(path: str) -> None:
    response = Client().get(path)
    assert response.status_code == 401
    assert response["Content-Type"] == "application/problem+json"


@pytest.mark.django_db
@pytest.mark.rule("K9")
def test_health_needs_no_credential() -> None:
    assert Client().get("/health").json() == {"status": "ok"}
