"""Agent sessions, what they used, and the provider keys of Projects (contract section 10)."""

from __future__ import annotations

from django.db import models

from apps.agent_sessions.domain.model_choices import SubjectKind
from apps.agent_sessions.domain.sessions import OPEN, State
from apps.core.fields import JsonTextField
from apps.core.ids import new_id

MODEL_LENGTH = 200
PROVIDER_LENGTH = 64
SUBJECT_LENGTH = 200
_OPEN = models.Q(state__in=sorted(s.value for s in OPEN))


class AgentSession(models.Model):
    """One background agent: its program, whose it is, what it used, and the lease under which it runs."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    #: Names it in logs and errors; proves nothing.
    agent_session_id = models.UUIDField(unique=True, default=new_id, editable=False)
    project = models.ForeignKey("access.Project", on_delete=models.PROTECT, db_index=False)

    # Who started it (O10).
    source = models.CharField(max_length=16)
    entry = models.CharField(max_length=64)
    principal = models.CharField(max_length=200)
    credential = models.ForeignKey("access.Credential", on_delete=models.PROTECT, null=True, db_index=False)

    # What it does.
    model = models.CharField(max_length=MODEL_LENGTH)
    #: ``loomName/agentId`` and the Release it was taken from; blank for a program of the caller's own.
    agent = models.CharField(max_length=200, blank=True)
    release_digest = models.CharField(max_length=64, blank=True)
    #: In canonical form; ``program_digest`` is taken over it.
    program = JsonTextField()
    program_digest = models.CharField(max_length=64)
    input = JsonTextField()
    #: Over ids, Project and digests, with the service's secret key: a row that was tampered with is not run.
    signature = models.CharField(max_length=64)
    secret_digest = models.CharField(max_length=64)

    state = models.CharField(max_length=16, choices=[(s.value, s.value) for s in State])
    output = JsonTextField(null=True)
    error = JsonTextField(null=True)
    cancel_requested_at = models.DateTimeField(null=True)
    #: When the first model request may have gone out.
    called_at = models.DateTimeField(null=True)

    # Cumulated, as last reported.
    requests = models.PositiveBigIntegerField(default=0)
    input_tokens = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    tool_calls = models.PositiveBigIntegerField(default=0)

    # The lease: owner and expiry by the database's clock, and the fence that late work fails at.
    attempts = models.PositiveIntegerField(default=0)
    lease_owner = models.CharField(max_length=100, blank=True)
    lease_expires_at = models.DateTimeField(null=True)
    fence = models.PositiveBigIntegerField(default=0)

    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["project", "-id"], name="session_list"),
            models.Index(fields=["project"], name="session_open", condition=_OPEN),
            models.Index(fields=["id"], name="session_queued", condition=models.Q(state="queued")),
            models.Index(fields=["lease_expires_at"], name="session_leased", condition=models.Q(state="running")),
            models.Index(
                fields=["finished_at"], name="session_finished", condition=models.Q(finished_at__isnull=False)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.model} {self.id}"


class ModelUsage(models.Model):
    """What a Project used of a model in a day (UTC): sessions count once, when they ended, and Agent
    Steps once, when their first request went out."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    project = models.ForeignKey("access.Project", on_delete=models.PROTECT, db_index=False)
    model = models.CharField(max_length=MODEL_LENGTH)
    day = models.DateField()
    sessions = models.PositiveBigIntegerField(default=0)
    requests = models.PositiveBigIntegerField(default=0)
    input_tokens = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    tool_calls = models.PositiveBigIntegerField(default=0)

    class Meta:
        ordering = ["-day", "project", "model"]
        constraints = [models.UniqueConstraint(fields=["day", "project", "model"], name="usage_of_a_day")]
        verbose_name_plural = "model usage"

    def __str__(self) -> str:
        return f"{self.model} {self.day}"


class ProviderKey(models.Model):
    """A Project's own key for a provider, encrypted; the key that encrypts it is not in the ledger (B5, K17)."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    project = models.ForeignKey("access.Project", on_delete=models.PROTECT, db_index=False)
    provider = models.CharField(max_length=PROVIDER_LENGTH)
    #: Fernet; inside, beside the key, stands this row's id.
    ciphertext = models.TextField()
    #: Which of the service's keys encrypted it.
    encrypted_with = models.CharField(max_length=16)
    last_four = models.CharField(max_length=4)
    set_by = models.CharField(max_length=200)
    set_at = models.DateTimeField()
    tested_at = models.DateTimeField(null=True)
    test_result = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering = ["project", "provider"]
        constraints = [models.UniqueConstraint(fields=["project", "provider"], name="one_key_for_a_provider")]

    def __str__(self) -> str:
        return f"{self.provider} …{self.last_four}"


class ModelChoice(models.Model):
    """The model that an operator chose in the console for an agent, a role or the default of one Project (R15)."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    project = models.ForeignKey("access.Project", on_delete=models.PROTECT, db_index=False)
    kind = models.CharField(max_length=8, choices=[(k.value, k.value) for k in SubjectKind])
    #: ``loomName/agentId``, a role, or blank for the default.
    name = models.CharField(max_length=SUBJECT_LENGTH, blank=True)
    #: Stays when the catalogue has it no more: nothing else is taken in its place.
    model = models.CharField(max_length=MODEL_LENGTH)
    chosen_by = models.CharField(max_length=200)
    chosen_at = models.DateTimeField()

    class Meta:
        ordering = ["project", "kind", "name"]
        constraints = [models.UniqueConstraint(fields=["project", "kind", "name"], name="one_model_chosen")]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.model}"
