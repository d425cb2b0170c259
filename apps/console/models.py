"""Who may do what in a single Project."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class ProjectRole(models.Model):
    """A person has a group's permissions in one Project, and by this row nowhere else."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="project_roles")
    project = models.ForeignKey("access.Project", on_delete=models.CASCADE, related_name="+", db_index=False)
    group = models.ForeignKey("auth.Group", on_delete=models.CASCADE, related_name="+", db_index=False)

    class Meta:
        ordering = ["user", "project", "group"]
        constraints = [models.UniqueConstraint(fields=["user", "project", "group"], name="one_role")]
        default_permissions = ()
        permissions = [
            ("see_project", "See Runs, results and operations"),
            ("pause_run", "Pause a Run"),
            ("resume_run", "Resume a Run"),
            ("cancel_run", "Cancel a Run"),
            ("answer_ask", "Answer what a Run asks a person"),
            ("fork_run", "Fork a Run"),
            ("export_mirror", "Export a Mirror"),
            ("manage_credentials", "Make and revoke credentials"),
            ("choose_model", "Choose which model Agent Steps get"),
        ]

    def __str__(self) -> str:
        return f"{self.group} in {self.project}"
