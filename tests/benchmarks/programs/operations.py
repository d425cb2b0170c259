"""Prepares a new ledger for admissions: a Project, an agent's credential, an open instance."""

from __future__ import annotations

import io
import json

import django
from django.core.management import call_command

django.setup()
call_command("migrate", verbosity=0)

from apps.access.services.credentials import create_credential  # noqa: E402
from apps.access.services.projects import create_project  # noqa: E402
from apps.core import clock  # noqa: E402
from apps.core.caller import Source  # noqa: E402
from apps.ledger.selectors.instances import current_instance  # noqa: E402

call_command("instance_open", stdout=io.StringIO())
project = create_project(name="bench", now=clock.now())
_, token = create_credential(project=project, source=Source.AGENT_IDE, label="bench", now=clock.now())
print(json.dumps({"tokens": {"agent_ide": token}, "known": {"serviceInstanceId": str(current_instance().id)}}))
