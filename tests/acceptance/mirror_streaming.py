"""Run as a process of its own: a trace of 50 MB and 100,000 events is exported, inspected and restored.

Prints how many megabytes each took beyond what the process had before, and the size of the Mirror.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

EVENTS, REVISIONS, PLACES, VALUE = 100_000, 25, 2, 1_000_000


def status(name: str) -> float:
    """A line of the kernel's account of this process, in megabytes."""
    text = Path("/proc/self/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith(name)).split()[1]) / 1024


@contextmanager
def measured(spent: dict[str, float], what: str) -> Iterator[None]:
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    yield
    spent[what] = status("VmHWM") - before


def main() -> None:
    import django

    django.setup()
    from django.core.management import call_command

    from apps.access.services.projects import create_project
    from apps.core import clock, conf, json_text
    from apps.core.caller import Caller, Source
    from apps.ledger.models import Event
    from apps.ledger.services.instances import open_instance
    from apps.looms.services import catalog
    from apps.mirrors.services.exporting import export_mirror, find_boundary
    from apps.mirrors.services.inspecting import verify
    from apps.mirrors.services.keeping import taken_from_storage
    from apps.mirrors.services.planning import Target
    from apps.mirrors.services.restoring import restore_mirror
    from apps.results.models import Artifact, ArtifactRevision
    from apps.runs.models import Run, StepAttempt

    conf.settings().data_dir.mkdir(parents=True, exist_ok=True)
    call_command("migrate", verbosity=0)
    now = clock.now()
    home, other = create_project(name="home", now=now), create_project(name="other", now=now)
    open_instance(version="test", now=now)
    entry = catalog.current("capture")
    assert entry is not None and entry.loom is not None
    run = Run.objects.create(
        project=home, trace_id=uuid.uuid4(), loom_name="capture", release_digest=entry.loom.digest, input={},
        source="cli", agent_executor="service_model", entry="/", principal="test", status="paused", stage="s",
        step="t", due_kind="step", boundary=1, saved_result={"outcome": "done"}, created_at=now, updated_at=now,
    )  # fmt: skip
    writes = []
    for number in range(PLACES):
        place = Artifact.objects.create(
            project=home, loom_name="capture", stage_name=f"s{number}", artifact_id=f"a{number}",
            revision=REVISIONS, created_at=now, updated_at=now,
        )  # fmt: skip
        for revision in range(1, REVISIONS + 1):
            data = f"{number} {revision} " + "x" * VALUE
            ArtifactRevision.objects.create(
                artifact=place, revision=revision, artifact_id_then=f"a{number}", data=data,
                digest=json_text.digest(data), run_id=run.pk, created_at=now,
            )  # fmt: skip
            writes.append(
                {"artifactId": f"a{number}", "revision": revision, "loomName": "capture", "stageName": f"s{number}"}
            )
    StepAttempt.objects.create(
        run=run, step_seq=0, stage="s", step="t", visit=1, kind="step", segment=0, attempt=1, status="completed",
        outcome="done", boundary=1, result="done", event_seq=EVENTS, writes=writes, worker="test", ended_at=now,
    )  # fmt: skip
    for first in range(1, EVENTS + 1, 1000):
        Event.objects.bulk_create(
            Event(run_id=run.pk, seq=seq, type="StepRetried", at=now, data={"message": f"attempt {seq} failed"})
            for seq in range(first, first + 1000)
        )
    caller = Caller(home.pk, home.name, "test", Source.CLI, "/internal/mcp")
    spent: dict[str, float] = {}
    with measured(spent, "export"):
        held = find_boundary(project_id=home.pk, trace_id=str(run.trace_id))
        mirror = export_mirror(caller=caller, held=held, project_id=home.pk, now=now)
    with measured(spent, "inspect"):
        assert verify(mirror.digest).status == "verified"
    with measured(spent, "restore"), taken_from_storage(mirror.digest) as found:
        target = Target(mirror.mirror_id, other.pk, "all")
        assert restore_mirror(caller=caller, target=target, found=found, dry_run=False, now=now).applied
    print(json.dumps({**spent, "bytes": mirror.size_bytes}))


if __name__ == "__main__":
    main()
