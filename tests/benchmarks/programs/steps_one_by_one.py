"""One worker without a bell: admits as many Runs of ``ticks`` as each line says, then works them off in its thread.

Prints for each line what that took: ``seconds`` of working, and, with admissions, ``statements`` and ``commits``.
"""

from __future__ import annotations

import io
import json
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

import django
from django.core.management import call_command

django.setup()
call_command("migrate", verbosity=0)

from django.db import connection  # noqa: E402

from apps.access.services.projects import create_project  # noqa: E402
from apps.core import clock  # noqa: E402
from apps.core.caller import Caller, Source  # noqa: E402
from apps.core.endpoints import all_endpoints  # noqa: E402
from apps.ledger.selectors.instances import current_instance  # noqa: E402
from apps.runs import queue  # noqa: E402
from apps.runs.models import Run  # noqa: E402
from apps.runs.services import worker  # noqa: E402

call_command("instance_open", stdout=io.StringIO())
queue._bell.ring = lambda after=0.0: None
project = create_project(name="bench", now=clock.now())
caller = Caller(project.pk, project.name, "credential:bench", Source.AGENT_IDE, "/mcp")
run_loom = next(endpoint for endpoint in all_endpoints() if endpoint.name == "run")
instance = current_instance().id
worker.begin(instance)
counts = {"statements": 0, "commits": 0}


def counting_statement(execute: Callable[..., Any], *arguments: Any) -> Any:
    counts["statements"] += 1
    return execute(*arguments)


really_commit = connection._commit


def counting_commit() -> Any:
    counts["commits"] += 1
    return really_commit()


connection._commit = counting_commit
print("ready", flush=True)
for line in sys.stdin:
    counts.update(statements=0, commits=0)
    with connection.execute_wrapper(counting_statement):
        for _ in range(int(line)):
            identity = {"operationId": str(uuid.uuid4()), "serviceInstanceId": str(instance)}
            run_loom.call(caller, {"loomName": "ticks", "input": None, **identity})
        admitted = dict(counts)
        began = time.perf_counter()
        worker.work(turn_seconds=600)
        seconds = time.perf_counter() - began
    assert not Run.objects.exclude(status="completed").exists()
    working = {name: counts[name] - admitted[name] for name in counts}
    print(json.dumps({"seconds": seconds, "admitting": admitted, "working": working}), flush=True)
