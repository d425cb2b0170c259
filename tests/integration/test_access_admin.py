"""The admin pages of Projects and credentials: for looking, whatever is asked of them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import path

from apps.access.models import Credential, Project
from apps.access.services.credentials import create_credential, revoke_credential
from apps.access.services.projects import create_project, ensure_default_project
from apps.core import admin as core_admin
from apps.core import clock
from apps.core.caller import Source

pytestmark = pytest.mark.django_db
LIST = "/admin/access/credential/"


@pytest.fixture
def rows() -> list[Credential]:
    project = ensure_default_project(now=clock.now())
    return [
        create_credential(project=project, source=Source.CLI, label=f"label {n}", now=clock.now())[0] for n in range(3)
    ]


@pytest.fixture
def root(settings: Any) -> Client:
    settings.ROOT_URLCONF = _urls()
    client = Client(raise_request_exception=False)
    client.force_login(get_user_model().objects.create_superuser("root", password="x"))
    return client


def _urls() -> Any:
    import types

    urls = types.ModuleType("admin_urls")
    urls.urlpatterns = [path("admin/", admin.site.urls)]  # type: ignore[attr-defined]
    return urls


@pytest.mark.rule("N2", "K1", "K2")
def test_no_page_shows_a_secret_digest(root: Client, rows: list[Credential]) -> None:
    for url in (LIST, f"{LIST}{rows[0].pk}/change/", f"{LIST}{rows[0].pk}/history/", f"{LIST}?q=label"):
        response = root.get(url)
        assert response.status_code == 200
        assert not any(row.secret_digest[:8] in response.content.decode() for row in rows)
    assert rows[0].public_id in root.get(LIST).content.decode()


@pytest.mark.rule("K14", "K15", "K25")
@pytest.mark.parametrize("model", ["project", "credential"])
def test_not_even_a_superuser_adds_changes_or_deletes(root: Client, rows: list[Credential], model: str) -> None:
    pk = rows[0].pk if model == "credential" else rows[0].project_id
    before = list(Credential.objects.values()), list(Project.objects.values())
    base = f"/admin/access/{model}/"
    assert root.get(f"{base}add/").status_code == 403
    assert root.post(f"{base}add/", {"name": "x", "label": "x"}).status_code == 403
    assert root.post(f"{base}{pk}/change/", {"name": "x", "label": "x"}).status_code == 403
    assert root.get(f"{base}{pk}/delete/").status_code == 403
    assert root.post(f"{base}{pk}/delete/", {"post": "yes"}).status_code == 403
    root.post(base, {"action": "delete_selected", "_selected_action": [str(pk)], "post": "yes"})
    assert (list(Credential.objects.values()), list(Project.objects.values())) == before


@pytest.mark.rule("K14")
def test_staff_sees_what_it_may_view_and_no_more(settings: Any, rows: list[Credential]) -> None:
    settings.ROOT_URLCONF = _urls()
    user = get_user_model().objects.create_user("staff", password="x", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_project"))
    client = Client()
    client.force_login(user)
    assert client.get("/admin/access/project/").status_code == 200
    assert client.get(LIST).status_code == 403


@pytest.mark.rule("FR-D23", "K1")
@pytest.mark.parametrize(
    "query",
    [
        "secret_digest__startswith=a", "secret_digest=a", "secret_digest__gt=a",
        "project__credentials__secret_digest=a",
        "project__name__contains=d", "project__credentials__label=x", "label__regex=(a+)%2B", "label__2147483648=1",
        "source__iregex=a", "source__exact=%00", "source__startswith=a", "pk__in=1", "nothing=1", "__=1", "id__exact=x",
        "project__secret_digest__exact=1",
    ],
)  # fmt: skip
def test_a_filter_that_no_page_offers_is_refused(root: Client, rows: list[Credential], query: str) -> None:
    response = root.get(f"{LIST}?{query}")
    assert response.status_code in (302, 400), query
    if response.status_code == 302:
        assert response["Location"].endswith("?e=1")


@pytest.mark.parametrize(
    "query",
    [
        "", "source__exact=cli", "source__exact=nothing", "q=label", "q=%00", "q=%22", "q=1", "o=1",
        "o=99999999999999999999",
        "o=-x", "all=", "e=1", "_popup=1", "q=0198c1f2-7c7e-7000-8000-000000000000",
    ],
)  # fmt: skip
@pytest.mark.rule("FR-E5")
def test_what_a_page_offers_works_and_odd_values_do_no_harm(root: Client, rows: list[Credential], query: str) -> None:
    assert root.get(f"{LIST}?{query}").status_code == 200


@pytest.mark.parametrize("text", ["x", "%00", "99999999999999999999", ""])
def test_a_filter_by_project_takes_any_value(root: Client, rows: list[Credential], text: str) -> None:
    assert root.get(f"{LIST}?project__id__exact={rows[0].project_id}").status_code == 200
    assert root.get(f"{LIST}?project__id__exact={text}").status_code in (200, 302, 400)


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize(
    "number", ["9223372036854775807", "99999999999999999999", "0", "-1", "x", "", "9" * 5000, "21", "1.5", "%00"]
)
@pytest.mark.rule("FR-E5")
def test_a_page_number_that_does_not_exist_is_no_error_of_ours(
    root: Client, rows: list[Credential], number: str, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if many:
        from apps.access.admin import CredentialAdmin

        monkeypatch.setattr(CredentialAdmin, "list_per_page", 1)
    assert root.get(f"{LIST}?p={number}", follow=True).status_code == 200


@pytest.mark.parametrize("q", ["label 1", "{public_id}", "{pk}"])
def test_a_credential_is_found_by_label_public_id_and_id(root: Client, rows: list[Credential], q: str) -> None:
    term = q.format(public_id=rows[1].public_id, pk=rows[1].pk)
    page = root.get(LIST, {"q": term}).content.decode()
    assert rows[1].public_id in page
    assert rows[0].public_id not in page


@pytest.mark.parametrize("pk", ["x", "%00", "0198c1f2-7c7e-7000-8000-000000000000", "_", "a_2Fb"])
def test_an_unknown_row_is_said_to_be_unknown(root: Client, pk: str) -> None:
    assert root.get(f"{LIST}{pk}/change/").status_code in (302, 404)


def test_a_list_page_counts_nothing_and_its_statements_do_not_grow(root: Client, rows: list[Credential]) -> None:
    def statements() -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            assert root.get(LIST).status_code == 200
        return [query["sql"] for query in captured.captured_queries]

    few = statements()
    project = create_project(name="more", now=clock.now())
    for n in range(20):
        create_credential(project=project, source=Source.STUDIO, label=str(n), now=clock.now())
    assert len(statements()) == len(few)
    assert not any("COUNT(" in sql and "access_" in sql for sql in statements())


@pytest.mark.parametrize(("present", "counted"), [(0, 0), (3, 3), (4, 4), (9, 5)])
def test_a_paginator_counts_no_further_than_a_person_leafs(
    present: int, counted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_admin, "MOST_ROWS", 4)
    for n in range(present):
        create_project(name=f"p{n}", now=clock.now())
    pages = core_admin.BoundedPaginator(Project.objects.order_by("name"), 2)
    assert pages.count == counted
    assert sum(len(pages.page(n).object_list) for n in pages.page_range) == counted


@pytest.mark.rule("K12")
def test_a_revoked_credential_shows_when(root: Client, rows: list[Credential]) -> None:
    when = dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.UTC)
    revoke_credential(public_id=rows[0].public_id, now=when)
    assert "Jan. 2, 2026" in root.get(f"{LIST}{rows[0].pk}/change/").content.decode()
