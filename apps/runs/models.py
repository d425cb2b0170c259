"""A Run, what it stands on, and every attempt at its segments."""

from __future__ import annotations

from django.db import models

from apps.core.fields import JsonTextField
from apps.core.ids import new_id
from apps.runs.domain.statuses import OPEN, AttemptStatus, RunStatus, SegmentKind

NAME_LENGTH = 64
_NON_TERMINAL = models.Q(status__in=[s.value for s in OPEN])


class Run(models.Model):
    """One execution of a Loom, with the lease and fence under which it may be touched."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    trace_id = models.UUIDField()
    project = models.ForeignKey("access.Project", on_delete=models.PROTECT, db_index=False)
    loom_name = models.CharField(max_length=NAME_LENGTH)
    release_digest = models.CharField(max_length=64)
    exclusive = models.BooleanField(default=False)
    input = JsonTextField()

    # Who started it, and the policy it keeps (N1, O10).
    source = models.CharField(max_length=16)
    agent_executor = models.CharField(max_length=16)
    profile = models.CharField(max_length=16, blank=True)
    entry = models.CharField(max_length=64)
    principal = models.CharField(max_length=200)
    credential = models.ForeignKey("access.Credential", on_delete=models.PROTECT, null=True, db_index=False)
    origin_operation_id = models.UUIDField(null=True)
    origin_instance_id = models.UUIDField(null=True)

    # The view (R1).
    status = models.CharField(max_length=16, choices=[(s.value, s.value) for s in RunStatus])
    revision = models.PositiveBigIntegerField(default=1)
    stage = models.CharField(max_length=NAME_LENGTH)
    step = models.CharField(max_length=NAME_LENGTH)
    visit = models.PositiveIntegerField(default=1)
    pause_requested = models.BooleanField(default=False)
    pending_action = models.ForeignKey("Action", on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    #: ``{id, agentId, phase, createdAt}`` as the view shows it; the call itself belongs to a higher app.
    pending_agent_call = JsonTextField(null=True)
    outcome = models.CharField(max_length=200, null=True)
    last_error = JsonTextField(null=True)
    artifact_ids = JsonTextField(default=list)
    record_ids = JsonTextField(default=list)
    restored_from = JsonTextField(null=True)
    #: The Mirror it was restored from: there is one such Run in a Project (M5).
    mirror_id = models.UUIDField(null=True)
    #: What models of the service used for it (B8): as the view shows it, and of that what the running Step used.
    usage = JsonTextField(null=True)
    step_usage = JsonTextField(null=True)
    boundary = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    #: The instance in which it ended; the one that opened afterwards makes it historical (R4).  Instances are
    #: never removed, and without a constraint no Run that ends waits, at COMMIT, for an opening that waits for it.
    finished_instance = models.ForeignKey(
        "ledger.ServiceInstance",
        on_delete=models.PROTECT,
        null=True,
        related_name="+",
        db_index=False,
        db_constraint=False,
    )

    # What is due or running.
    due_kind = models.CharField(max_length=16, choices=[(k.value, k.value) for k in SegmentKind])
    due_at = models.DateTimeField(null=True)
    #: When it became due, by the process that made it so; for the timeline.
    queued_at = models.DateTimeField(null=True)
    segment = models.PositiveIntegerField(default=0)
    attempts = models.PositiveIntegerField(default=0)
    #: The due segment's ``SegmentPolicy``.
    policy = JsonTextField(default=dict)
    #: ``module:function``, as long as Python lets them be.
    continuation = models.TextField(blank=True)
    #: ``{kind, value}`` that the continuation is given.
    answer = JsonTextField(null=True)
    #: The moment that ``now()`` shows to all attempts at this segment.
    segment_time = models.DateTimeField(null=True)
    visits = JsonTextField(default=dict)
    state = models.ForeignKey("State", on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    #: What the Step before returned, as ``{stage, step, value}``; None at a Stage's entry.
    previous = JsonTextField(null=True)
    #: A result that was saved but, because of a pause, not routed: ``{outcome, value}``.
    saved_result = JsonTextField(null=True)
    event_seq = models.PositiveIntegerField(default=0)
    #: While it is paused at its caller's wish: the ``PauseDependencies`` that a resume compares (M8).  None
    #: compares nothing.
    dependencies = JsonTextField(null=True)

    # The lease: owner and expiry by the database's clock, and the fence that late work fails at.
    lease_owner = models.CharField(max_length=100, blank=True)
    lease_expires_at = models.DateTimeField(null=True)
    deadline_at = models.DateTimeField(null=True)
    fence = models.PositiveBigIntegerField(default=0)
    step_seq = models.PositiveBigIntegerField(default=0)
    segment_started_at = models.DateTimeField(null=True)

    #: Not stored: in how many seconds the bell is rung for a Run that is being queued.
    ring_after = 0.0

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["project", "loom_name"],
                condition=_NON_TERMINAL & models.Q(exclusive=True),
                name="one_exclusive_run",
            ),
            models.UniqueConstraint(
                fields=["project", "mirror_id"],
                condition=models.Q(mirror_id__isnull=False),
                name="one_run_of_mirror",
            ),
        ]
        indexes = [
            models.Index(fields=["project", "-id"], name="run_list"),
            models.Index(fields=["project", "loom_name", "-id"], name="run_list_by_loom"),
            models.Index(fields=["project", "status", "-id"], name="run_list_by_status"),
            models.Index(fields=["project", "loom_name", "status", "-id"], name="run_list_by_both"),
            models.Index(fields=["due_at"], name="run_ready", condition=models.Q(status="queued")),
            models.Index(fields=["lease_expires_at"], name="run_leased", condition=models.Q(status="running")),
            models.Index(fields=["project", "status"], name="run_open", condition=_NON_TERMINAL),
            models.Index(fields=["origin_operation_id"], name="run_by_origin"),
            models.Index(fields=["trace_id"], name="run_of_trace"),
            models.Index(fields=["finished_at"], name="run_finished", condition=models.Q(finished_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"{self.loom_name} {self.id}"


class State(models.Model):
    """A Stage's State after an attempt; append-only."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="states")
    stage = models.CharField(max_length=NAME_LENGTH)
    data = JsonTextField()
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.stage} {self.id}"


class Action(models.Model):
    """A human question list or confirmation that a Step asked for (contract section 6)."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="actions")
    kind = models.CharField(max_length=16, choices=[("questions", "questions"), ("confirmation", "confirmation")])
    request = JsonTextField()
    only_person = models.BooleanField(default=False)
    continuation = models.TextField()
    answer = JsonTextField(null=True)
    answered_by = JsonTextField(null=True)
    created_at = models.DateTimeField()
    answered_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


class StepAttempt(models.Model):
    """One attempt at a segment: when it was queued, started and ended, what it read and what it left."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="step_attempts", db_index=False)
    step_seq = models.PositiveBigIntegerField()
    stage = models.CharField(max_length=NAME_LENGTH)
    step = models.CharField(max_length=NAME_LENGTH)
    visit = models.PositiveIntegerField()
    kind = models.CharField(max_length=16, choices=[(k.value, k.value) for k in SegmentKind])
    segment = models.PositiveIntegerField()
    attempt = models.PositiveIntegerField()
    status = models.CharField(max_length=16, choices=[(s.value, s.value) for s in AttemptStatus])
    outcome = models.CharField(max_length=200, null=True)
    error = JsonTextField(null=True)
    state = models.ForeignKey(State, on_delete=models.CASCADE, null=True, related_name="+", db_index=False)
    #: Set on the attempt that completes a Step: the boundary it makes.
    boundary = models.PositiveIntegerField(null=True)
    #: With a boundary: what the next Step reads, and the number of the event that a Mirror is cut at (M1).
    result = JsonTextField(null=True)
    event_seq = models.PositiveIntegerField(null=True)
    reads = JsonTextField(default=list)
    #: What landed with it: ``{artifactId, revision, loomName, stageName, removed?}`` and ``{recordId}``.
    writes = JsonTextField(default=list)
    log = JsonTextField(default=list)
    usage = JsonTextField(null=True)
    worker = models.CharField(max_length=100)
    queued_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField()

    class Meta:
        ordering = ["run", "step_seq"]
        constraints = [models.UniqueConstraint(fields=["run", "step_seq"], name="attempt_number")]

    def __str__(self) -> str:
        return f"{self.stage}/{self.step} attempt {self.attempt}"


class StartingBoundary(models.Model):
    """Where a restored or forked Run began: a boundary that another Run came to (M5, M9)."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, primary_key=True, related_name="starting_boundary")
    boundary = models.PositiveIntegerField()
    stage = models.CharField(max_length=NAME_LENGTH)
    step = models.CharField(max_length=NAME_LENGTH)
    visit = models.PositiveIntegerField()
    #: The saved result; None at boundary 0, where no Step has completed.
    outcome = models.CharField(max_length=200, null=True)
    result = JsonTextField(null=True)
    visits = JsonTextField()
    state = models.ForeignKey(State, on_delete=models.CASCADE, null=True, related_name="+", db_index=False)
    #: A list of ``Dependency``, as the other Run last saw them.
    dependencies = JsonTextField()
    artifact_ids = JsonTextField()
    record_ids = JsonTextField()
    #: When the other Run came there.
    reached_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.run_id} from boundary {self.boundary}"


class KeptArtifact(models.Model):
    """What an Artifact held when a restored Run last saw it: its Project may never have had that revision."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="kept_artifacts", db_index=False)
    artifact_id = models.CharField(max_length=200)
    digest = models.CharField(max_length=64)
    data = JsonTextField()

    class Meta:
        ordering = ["run", "artifact_id"]
        constraints = [models.UniqueConstraint(fields=["run", "artifact_id"], name="kept_artifact_once")]

    def __str__(self) -> str:
        return f"{self.artifact_id} of {self.run_id}"
