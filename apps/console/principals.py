"""What the credentials are called that principals name: ``credential:ID`` says nothing to a person."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from apps.access.selectors.listing import labels_of
from apps.console.permissions import Operator, Permission

#: How the principal of a credential begins; after it comes the public id.
CREDENTIAL = "credential:"


def names_of(operator: Operator, principals: Iterable[str]) -> dict[str, Any]:
    """What the tag ``principal`` needs in a page's context: labels by public id, and whether Access may be opened."""
    public_ids = {each.removeprefix(CREDENTIAL) for each in principals if each.startswith(CREDENTIAL)}
    labels = labels_of(public_ids=public_ids, project_ids=list(operator.projects)) if public_ids else {}
    return {"credential_labels": labels, "may_open_access": operator.may(Permission.CREDENTIALS)}
