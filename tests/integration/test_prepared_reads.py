"""Prepared reads give what the same query gives through the ORM, and always for one statement (P9)."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, models, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.access.models import Credential, Project
from apps.access.services import credentials
from apps.core.errors import ErrorCode, LoomError
from apps.core.fields import JsonTextField
from apps.core.prepared import PreparedRead
from apps.ledger.models import ServiceInstance
from apps.ledger.selectors import instances
from apps.mcp import sessions
from apps.mcp.models import Session
from apps.runs.models import Action, Run
from apps.runs.selectors import runs
from tests.conftest import Service

pytestmark = pytest.mark.django_db

_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)
#: Field type → values; the first that fits is taken.
_VALUES: list[tuple[type[models.Field[Any, Any]], st.SearchStrategy[Any]]] = [
    (JsonTextField, _JSON),
    (models.UUIDField, st.uuids()),
    (models.CharField, _TEXT),
    (models.TextField, _TEXT),
    (models.BooleanField, st.booleans()),
    (models.PositiveBigIntegerField, st.integers(0, 2**63 - 1)),
    (models.IntegerField, st.integers(0, 2**31 - 1)),
    (models.DateTimeField, st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30), timezones=st.just(dt.UTC))),
]


def values_of(model: type[models.Model], **known: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Values for all of a model's own columns; ``known`` ones are taken as they are."""
    found: dict[str, st.SearchStrategy[Any]] = {}
    for field in model._meta.concrete_fields:
        if field.name in known:
            found[field.name] = st.just(known[field.name])
        elif not field.is_relation:
            values = next(values for kind, values in _VALUES if isinstance(field, kind))
            found[field.name] = st.none() | values if field.null else values
    return st.fixed_dictionaries(found)


def shown(row: Any) -> dict[str, Any]:
    """All that a row has: columns, attributes beside them, what was left out, and the rows it leads to."""
    related = row._state.fields_cache
    own = {name: value for name, value in vars(row).items() if name != "_state"}
    others = {name: None if other is None else shown(other) for name, other in related.items()}
    state = (type(row), row._state.adding, row._state.db, row.get_deferred_fields())
    return {"": state, **own, **others}


def same_as_the_orm(read: PreparedRead[Any], expected: models.QuerySet[Any], **key: Any) -> Any:
    """The row that ``read`` finds, in one statement, which is the very one that ``expected`` finds."""
    with CaptureQueriesContext(connection) as statements:
        found = read.first(**key)
    assert len(statements) == 1
    wanted = expected.filter(**key).first()
    if wanted is None:
        assert found is None
    else:
        assert shown(found) == shown(wanted)
    return found


def for_each(**strategies: Any) -> Callable[[Any], Any]:
    """Generated inputs, each tried in a transaction that is rolled back."""

    def decorate(test: Callable[..., None]) -> Any:
        def undone(**generated: Any) -> None:
            with transaction.atomic():
                test(**generated)
                transaction.set_rollback(True)

        limits = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        decorated = limits(given(**strategies)(undone))
        decorated.__name__, decorated.__doc__ = test.__name__, test.__doc__
        return decorated

    return decorate


#: The query that the read of a Run stands for.
RUN = (
    Run.objects.select_related("project", "pending_action")
    .annotate(current_instance_id=instances.current_id())
    .only(*runs._SHOWN, "project__name", *(f"pending_action__{name}" for name in runs._SHOWN_OF_ACTION))
)


@pytest.mark.rule("R1")
@for_each(
    project=values_of(Project),
    run=values_of(Run),
    action=st.none() | values_of(Action),
    instance=st.none() | values_of(ServiceInstance, current=True),
    other=st.uuids(),
)
def test_a_run_is_read_as_the_orm_reads_it(
    project: dict[str, Any], run: dict[str, Any], action: Any, instance: Any, other: uuid.UUID
) -> None:
    ServiceInstance.objects.update(current=None)
    if instance is not None:
        ServiceInstance.objects.create(**instance)
    kept = Project.objects.create(**project)
    row = Run.objects.create(project=kept, finished_instance_id=other, **run)
    if action is not None:
        Run.objects.update(pending_action=Action.objects.create(run=row, **action))
    found = same_as_the_orm(runs._READ, RUN, id=row.pk, project_id=kept.pk)
    assert found.current_instance_id == (None if instance is None else instance["id"])
    assert same_as_the_orm(runs._READ, RUN, id=row.pk, project_id=other) is None
    assert same_as_the_orm(runs._READ, RUN, id=other, project_id=kept.pk) is None


@pytest.mark.rule("N1", "N5")
@for_each(project=values_of(Project), credential=values_of(Credential), session=values_of(Session), absent=_TEXT)
def test_a_credential_and_a_session_are_read_as_the_orm_reads_them(
    project: dict[str, Any], credential: dict[str, Any], session: dict[str, Any], absent: str
) -> None:
    row = Credential.objects.create(project=Project.objects.create(**project), **credential)
    kept = Session.objects.create(credential=row, **session)
    known = Credential.objects.select_related("project")
    for public_id in (row.public_id, absent):
        same_as_the_orm(credentials._FIND, known, public_id=public_id)
    for digest in (kept.digest, absent):
        same_as_the_orm(sessions._FIND, Session.objects.all(), digest=digest)


@pytest.mark.rule("O2")
@for_each(opened=st.none() | values_of(ServiceInstance, current=True), ended=values_of(ServiceInstance, current=None))
def test_the_open_instance_is_read_as_the_orm_reads_it(opened: Any, ended: dict[str, Any]) -> None:
    ServiceInstance.objects.update(current=None)
    ServiceInstance.objects.create(**ended)
    if opened is not None:
        ServiceInstance.objects.create(**opened)
    same_as_the_orm(instances._CURRENT, ServiceInstance.objects.all(), current=True)


@pytest.mark.rule("R1", "R4")
def test_get_run_is_one_statement_whatever_the_run_is_like(service: Service) -> None:
    ended = service.finish()["runId"]
    service.reopen()
    asking = service.finish(do=[{"ending": "ask"}])["runId"]
    ended_now = service.finish()["runId"]
    started = service.start()
    for run_id, status, is_historical in (
        (ended, "completed", True),
        (asking, "waiting", False),
        (started, "queued", False),
        (ended_now, "completed", False),
    ):
        with CaptureQueriesContext(connection) as statements:
            run = service.run(run_id)
        assert len(statements) == 1
        assert (run["status"], run["historical"], "pendingAction" in run) == (
            status,
            is_historical,
            status == "waiting",
        )


@pytest.mark.rule("O2")
def test_without_an_open_instance_a_run_is_unavailable_and_an_unknown_one_still_unknown(service: Service) -> None:
    run_id = service.start()
    ServiceInstance.objects.update(current=None)
    assert service.call("get_run", runId=run_id)["error"]["code"] == ErrorCode.UNAVAILABLE
    assert service.call("get_run", runId=str(uuid.uuid4()))["error"]["code"] == ErrorCode.NOT_FOUND
    with pytest.raises(LoomError) as refused:
        instances.current_instance()
    assert refused.value.code is ErrorCode.UNAVAILABLE
