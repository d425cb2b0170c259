"""Fills a new ledger with some ended Runs and one credential; prints what a reader must know of it."""

from __future__ import annotations

import io
import json
import uuid

import django
from django.core.management import call_command

django.setup()
call_command("migrate", verbosity=0)

from apps.access.services.credentials import create_credential  # noqa: E402
from apps.access.services.projects import create_project  # noqa: E402
from apps.core import clock  # noqa: E402
from apps.core.caller import Caller, Source  # noqa: E402
from apps.core.endpoints import all_endpoints  # noqa: E402
from apps.ledger.selectors.instances import current_instance  # noqa: E402
from apps.runs import queue  # noqa: E402
from apps.runs.services import worker  # noqa: E402

call_command("instance_open", stdout=io.StringIO())
queue._bell.ring = lambda after=0.0: None
project = create_project(name="bench", now=clock.now())
_, token = create_credential(project=project, source=Source.AGENT_IDE, label="bench", now=clock.now())
caller = Caller(project.pk, project.name, "credential:bench", Source.AGENT_IDE, "/mcp")
run_loom = next(endpoint for endpoint in all_endpoints() if endpoint.name == "run")
instance = current_instance().id
runs = []
for _ in range(20):
    identity = {"operationId": str(uuid.uuid4()), "serviceInstanceId": str(instance)}
    found = run_loom.call(caller, {"loomName": "trial", "input": {}, **identity}).to_wire()
    runs.append(found["run"]["runId"])
worker.begin(instance)
worker.work(turn_seconds=60)
print(json.dumps({"tokens": {"agent_ide": token}, "known": {"runId": runs[0]}}))
