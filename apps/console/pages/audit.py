"""The audit trail, and the Operations of one operationId with everything that is known of them."""

from __future__ import annotations

import uuid
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse

from apps.console.page import page, render
from apps.console.pages.choosing import choices_named, narrowed, page_in, typed
from apps.console.permissions import Operator, Permission
from apps.console.principals import names_of
from apps.console.record import account_changes
from apps.core.ids import end_of_id
from apps.ledger.domain.receipts import OperationKind, ReceiptStatus
from apps.ledger.selectors.audit import WINDOW, AuditPage, audit_page, operations_ending, operations_named

ROWS = 50
#: Operations of one id: one for each Project and instance.
MOST_NAMED = 20
MOST_CHANGES = 100


@page(Permission.SEE)
def audit(request: HttpRequest, operator: Operator) -> HttpResponse:
    """Every admitted write, the newest first; nothing here can be changed or removed."""
    chosen = {name: typed(request.GET, name) for name in ("project", "kind", "status", "principal")}
    projects = narrowed(operator.projects, chosen["project"])
    filters = {name: chosen[name] for name in ("kind", "status", "principal")}

    def read(cursor: str | None) -> AuditPage:
        return audit_page(project_ids=projects, limit=ROWS, cursor=cursor, **filters)

    found, wrong = page_in(request, read, "these filters")
    context = {
        "title": "Audit",
        "found": found,
        "wrong": wrong,
        "principal": chosen["principal"],
        "query": urlencode({name: text for name, text in chosen.items() if text}),
        "projects": choices_named(chosen["project"], operator.projects.values()),
        "kinds": choices_named(chosen["kind"], OperationKind),
        "statuses": choices_named(chosen["status"], ReceiptStatus),
        **names_of(operator, [entry.principal for entry in found.entries]),
        "changes": account_changes(limit=MOST_CHANGES) if operator.is_superuser else None,
        "most_changes": MOST_CHANGES,
    }
    return render(request, "console/audit.html", context)


@page(Permission.SEE)
def operation(request: HttpRequest, operator: Operator) -> HttpResponse:
    """``?id=`` is an operationId, or its end: its receipt, who sent it, and the Run's revisions before and after."""
    text, wrong, entries = typed(request.GET, "id"), "", []
    if text:
        seen = list(operator.projects)
        try:
            entries = operations_named(project_ids=seen, operation_id=uuid.UUID(text), limit=MOST_NAMED)
        except ValueError:
            end = end_of_id(text)
            if end is None:
                wrong = "An operationId is a UUID, or its last 4 to 12 digits; this is none."
            else:
                entries = operations_ending(project_ids=seen, end=end, limit=MOST_NAMED)
                if not entries:
                    wrong = f"None of the newest {WINDOW:,} Operations ends like this; give an older one whole."
    names = names_of(operator, [entry.principal for entry in entries])
    context = {"title": "Operation", "id": text, "entries": entries, "wrong": wrong, **names}
    return render(request, "console/operation.html", context)
