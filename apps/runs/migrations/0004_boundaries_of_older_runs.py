"""Runs from before boundaries were kept: their attempts get what is known of each boundary from the ledger."""

from __future__ import annotations

from typing import Any

from django.db import migrations

LANDED = ("completed", "waited")
#: Runs that are looked up at once.
RUNS = 200


def fill(apps: Any, schema_editor: Any) -> None:
    """Give attempts their results, event numbers, places of reads, and writes; a Run at a time."""
    Run, StepAttempt = apps.get_model("runs", "Run"), apps.get_model("runs", "StepAttempt")
    older = StepAttempt.objects.filter(boundary__isnull=False, event_seq__isnull=True)
    run_ids = list(older.order_by().values_list("run_id", flat=True).distinct())
    # A statement takes no more ids than the database allows, and there may be any number of Runs.
    some = (run_ids[at : at + RUNS] for at in range(0, len(run_ids), RUNS))
    runs = (run for ids in some for run in Run.objects.filter(pk__in=ids).only("id", "project_id", "loom_name"))
    for run in runs:
        attempts = list(StepAttempt.objects.filter(run_id=run.pk).order_by("step_seq"))
        _boundaries(apps, run, attempts)
        _reads(apps, run, attempts)
        _writes(apps, run, attempts)
        StepAttempt.objects.bulk_update(attempts, ["result", "event_seq", "reads", "writes"], batch_size=200)


def _boundaries(apps: Any, run: Any, attempts: list[Any]) -> None:
    """An agent's result was told by the event before; Code's is its outcome."""
    Event = apps.get_model("ledger", "Event")
    told = Event.objects.filter(run_id=run.pk, type__in=["StepCompleted", "AgentCallClosed"]).order_by("seq")
    found, result = {}, None
    for event in told.iterator(chunk_size=200):
        if event.type == "AgentCallClosed":
            result = event.data if event.data.get("closedAs") == "completed" else None
        else:
            found[event.data["boundary"]] = (event.seq, result)
            result = None
    for attempt in attempts:
        if attempt.boundary in found:
            attempt.event_seq, closed = found[attempt.boundary]
            attempt.result = attempt.outcome if closed is None else closed["result"]


def _reads(apps: Any, run: Any, attempts: list[Any]) -> None:
    """Where each Artifact stood that was read."""
    ArtifactRevision = apps.get_model("results", "ArtifactRevision")
    ids = {read["artifactId"] for attempt in attempts for read in attempt.reads if "artifactId" in read}
    revisions = ArtifactRevision.objects.filter(
        artifact__project_id=run.project_id, artifact_id_then__in=list(ids)
    ).order_by("id")
    places = {
        (artifact_id, revision): {"loomName": loom, "stageName": stage}
        for artifact_id, revision, loom, stage in revisions.values_list(
            "artifact_id_then", "revision", "artifact__loom_name", "artifact__stage_name"
        )
    }
    for attempt in attempts:
        attempt.reads = [
            {**read, **places.get((read["artifactId"], read["revision"]), {})} if "artifactId" in read else read
            for read in attempt.reads
        ]


def _writes(apps: Any, run: Any, attempts: list[Any]) -> None:
    """What the Run wrote belongs to the attempt at that Stage that ended then."""
    ArtifactRevision, Record = apps.get_model("results", "ArtifactRevision"), apps.get_model("results", "Record")
    written: list[tuple[Any, str, dict[str, Any]]] = []
    for row in ArtifactRevision.objects.filter(run_id=run.pk).select_related("artifact").order_by("id").defer("data"):
        place = {"loomName": row.artifact.loom_name, "stageName": row.artifact.stage_name}
        entry = {"artifactId": row.artifact_id_then, "revision": row.revision, **place}
        written.append((row.created_at, place["stageName"], {**entry, **({"removed": True} if row.removed else {})}))
    for row in Record.objects.filter(run_id=run.pk).order_by("id").defer("data"):
        written.append((row.created_at, row.stage_name, {"recordId": row.record_id}))
    for created_at, stage, entry in written:
        for attempt in attempts:
            if attempt.status in LANDED and attempt.stage == stage and attempt.ended_at >= created_at:
                attempt.writes = [*attempt.writes, entry]
                break


class Migration(migrations.Migration):

    dependencies = [
        ("runs", "0003_boundaries"),
        ("ledger", "0001_initial"),
        ("results", "0001_initial"),
    ]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
