"""One scaled-out deployment for all tests of this folder; each test starts its own workers and sweeps."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.acceptance.auditor import audit
from tests.acceptance.scaled import Client, Deployment, deployed
from tests.screenshots.sample import Sample, sample_service


def needs_services() -> None:
    """Skip where there is no PostgreSQL to test on, or no Redis server to start."""
    if not os.environ.get("TEST_DATABASE_URL"):
        pytest.skip("needs TEST_DATABASE_URL")
    if not shutil.which("redis-server"):
        pytest.skip("needs the program redis-server")


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Migrated, with an open instance, credentials and two web processes."""
    needs_services()
    with deployed(tmp_path_factory.mktemp("scaled")) as made:
        made.webs = [made.web(), made.web()]
        yield made


@pytest.fixture(scope="session")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sample]:
    """A service with something on every page of the console."""
    with sample_service(tmp_path_factory.mktemp("console"), whole=False) as found:
        yield found


@dataclass
class Scene:
    """What a test needs: the deployment, a client, and an effect file that the auditor reads afterwards."""

    deployment: Deployment
    client: Client
    effects: Path
    folder: Path


@pytest.fixture
def scene(deployment: Deployment, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Scene]:
    """The test's processes are ended after it; then the ledger is audited."""
    before = len(deployment.processes)
    effects = deployment.effects(re.sub(r"\W", "_", request.node.name))
    yield Scene(deployment, deployment.webs[0], effects, tmp_path)
    deployment.kill_since(before)
    deployment.broker.client.flushdb()
    audit(deployment.database_url, [effects])
