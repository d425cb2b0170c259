"""The base of every admin page: it shows and changes nothing, at a cost that does not grow with the table.

Nobody, superusers included, adds, changes or deletes ledger rows here (K25); what an operator may
do has its own page and its own service call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.contenttypes.models import ContentType
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property

from apps.core.fields import JsonTextField

if TYPE_CHECKING:
    # Generic to the type checker only.
    class _Pages(Paginator[Any]): ...

    class _ModelAdmin(admin.ModelAdmin[Any]): ...
else:
    _Pages, _ModelAdmin = Paginator, admin.ModelAdmin

#: Rows a page shows, and how far a person can leaf; what lies beyond is found by search and filters.
PAGE_ROWS = 50
MOST_ROWS = 1000

#: What a filter may ask of its field; anything more could be used to guess values letter by letter.
_LOOKUPS = frozenset({"exact", "in", "isnull", "gte", "gt", "lte", "lt", "id", "pk"})


#: Of what is kept about a change, as the columns of Django's log have it.
LONGEST_CHANGE = 200


def record_change(*, user: User | AnonymousUser, model: tuple[str, str], key: str, flag: int, said: str) -> None:
    """Keep in Django's log what a signed-in person changed outside the operations ledger (K25).

    Part of the transaction of the change: there is neither without the other.  ``model`` is an app's label and the
    model's name; ``said`` holds no secret.
    """
    assert user.pk is not None, "a page without a signed-in person made a write"
    LogEntry.objects.create(
        user_id=user.pk,
        content_type=ContentType.objects.get_by_natural_key(*model),
        object_id=key[:LONGEST_CHANGE],
        object_repr=key[:LONGEST_CHANGE],
        action_flag=flag,
        change_message=said[:LONGEST_CHANGE],
    )


class BoundedPaginator(_Pages):
    """Pages over at most :data:`MOST_ROWS` rows.

    There is no COUNT over the whole table and no OFFSET beyond the bound: ``count`` is exact up to
    the bound and one more than it where there are more rows.
    """

    @cached_property
    def count(self) -> int:
        rows: QuerySet[Any] = self.object_list  # type: ignore[assignment]
        return len(rows.values_list("pk", flat=True)[: MOST_ROWS + 1])


class _List(ChangeList):
    """Rows without their JSON, of which a list shows nothing and one value may have a megabyte."""

    def get_queryset(self, request: HttpRequest, *args: Any, **kwargs: Any) -> QuerySet[Any]:
        rows = super().get_queryset(request, *args, **kwargs)
        fields = self.model._meta.concrete_fields
        return rows.defer(*(field.name for field in fields if isinstance(field, JsonTextField)))


class ReadOnlyAdmin(_ModelAdmin):
    """A model admin for looking.  Only fields named in ``list_filter`` can be filtered by, and not by parts."""

    actions = None
    list_per_page = PAGE_ROWS
    list_max_show_all = PAGE_ROWS
    paginator = BoundedPaginator
    show_full_result_count = False
    #: Any other order would have no index.
    sortable_by = ()
    view_on_site = False

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return _List

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """Refuse, with 400, whatever no offered filter would send (FR-D23)."""
        field, *parts = lookup.split("__")
        filters = self.list_filter if request is None else self.get_list_filter(request)
        offered = {name if isinstance(name, str) else name[0] for name in filters if isinstance(name, (str, tuple))}
        return field in offered and _LOOKUPS.issuperset(parts) and "\x00" not in str(value)
