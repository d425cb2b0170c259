"""What all tests share: which ledger they run on, a Project, an open instance, and Looms to run."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from django.db import connections, transaction
from django.test import TransactionTestCase

from apps.core import clock
from apps.core.caller import Caller, Source
from apps.core.errors import LoomError

LOOMS = Path(__file__).parent / "looms"

# No test asserts speed; a busy machine must not fail one.  In CI the examples are the same each time.
hypothesis.settings.register_profile(
    "loomsvc",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    derandomize="CI" in os.environ,
    print_blob=True,
)
hypothesis.settings.load_profile("loomsvc")


def pytest_report_header() -> str:
    from django.conf import settings

    database = settings.DATABASES["default"]
    broker = settings.REDIS_URL or "none (embedded)"
    return f"ledger: {database['ENGINE'].rsplit('.', 1)[-1]} {database['NAME']}, Redis: {broker}"


# What Django itself writes when a database is set up, and no test changes.
_KEPT = {"django_migrations", "django_content_type", "auth_permission"}


def _empty_tables(case: TransactionTestCase) -> None:
    """Delete what a test wrote.

    Django would truncate every table and then write all permissions anew, which took half of the time
    of the ledger tests on PostgreSQL.
    """
    for name in case._databases_names(include_mirrors=False):
        connection = connections[name]
        with transaction.atomic(using=name), connection.cursor() as cursor:
            tables = _tables(name)
            cursor.execute(" UNION ALL ".join(f"SELECT '{t}' WHERE EXISTS (SELECT 1 FROM \"{t}\")" for t in tables))
            for (table,) in cursor.fetchall():
                cursor.execute(f'DELETE FROM "{table}"')


@cache
def _tables(database: str) -> list[str]:
    found = connections[database].introspection.django_table_names(only_existing=True, include_views=False)
    return sorted(set(found) - _KEPT)


@pytest.fixture(autouse=True, scope="session")
def _tables_are_emptied_quickly() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", _empty_tables)
        yield


@pytest.fixture
def loom_paths(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test Looms are found, and ``tmp_path / "looms"`` is watched for a test's own."""
    from apps.looms.services import catalog

    own = tmp_path / "looms"
    own.mkdir()
    settings.LOOMSVC = replace(settings.LOOMSVC, loom_paths=(LOOMS, own))
    # Each test has a ledger of its own: what an earlier one loaded is not in it.
    monkeypatch.setattr(catalog, "_catalog", catalog._NOTHING_SEEN)
    return own


@dataclass
class Service:
    """A Project with an open instance, and calls as a client would make them."""

    caller: Caller
    instance_id: str

    def call(self, name: str, /, caller: Caller | None = None, **arguments: Any) -> dict[str, Any]:
        """Call an Endpoint with wire arguments; its wire result, or the error's with ``error`` in it."""
        from apps.core.endpoints import all_endpoints

        endpoint = next(e for e in all_endpoints() if e.name == name)
        try:
            return endpoint.call(caller or self.caller, arguments).to_wire()
        except LoomError as error:
            return endpoint.refusal(error)

    def operate(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """An Operation with a fresh identity, unless one is given."""
        identity = {"operationId": str(uuid.uuid4()), "serviceInstanceId": self.instance_id}
        return self.call(name, **{**identity, **arguments})

    def start(self, loom: str = "trial", /, **plan: Any) -> str:
        """Start a Run; its id."""
        result = self.operate("run", loomName=loom, input=plan)
        assert "error" not in result, result
        return str(result["run"]["runId"])

    def run(self, run_id: str) -> dict[str, Any]:
        return self.call("get_run", runId=run_id)["run"]

    def work(self) -> None:
        """Do in this thread whatever is due."""
        from apps.runs.services import worker

        worker.begin(uuid.UUID(self.instance_id))
        worker.work(turn_seconds=60)

    def finish(self, loom: str = "trial", /, **plan: Any) -> dict[str, Any]:
        """Start a Run and work until nothing is due; its view."""
        run_id = self.start(loom, **plan)
        self.work()
        return self.run(run_id)

    def reopen(self) -> None:
        """Open a new service instance, as a restart does."""
        from apps.ledger.services.instances import open_instance

        self.instance_id = str(open_instance(version="test", now=clock.now()).id)


@pytest.fixture
def service(transactional_db: None, loom_paths: Path, monkeypatch: pytest.MonkeyPatch) -> Service:
    """An open service with the test Looms; nobody rings, tests call ``work``."""
    from apps.access.services.projects import create_project
    from apps.agent_sessions.services import bell
    from apps.ledger.services.instances import open_instance
    from apps.runs import queue

    monkeypatch.setattr(queue._bell, "ring", lambda after=0.0: None)
    monkeypatch.setattr(bell._bell, "ring", lambda after=0.0: None)
    project = create_project(name="trials", now=clock.now())
    instance = open_instance(version="test", now=clock.now())
    return Service(caller_in(project), str(instance.id))


def caller_in(project: Any, source: Source = Source.CLI) -> Caller:
    """A caller of ``source`` in ``project``, without a credential."""
    entries = {Source.CLI: "/internal/mcp", Source.STUDIO: "/api/v1", Source.AGENT_IDE: "/mcp"}
    return Caller(
        project_id=project.pk,
        project_name=project.name,
        principal="credential:test",
        source=source,
        entry=entries[source],
    )
