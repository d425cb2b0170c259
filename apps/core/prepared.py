"""Reads by key whose SQL Django writes once: for the few reads that nearly every request makes.

Writing the SQL of a query takes several times as long as running it.  What is read, and from where, is declared
as for any other query; afterwards only the key's values are bound, and the row is made from the cursor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import Expression, Model
from django.db.models.expressions import Combinable

M = TypeVar("M", bound=Model)


class _Placeholder(Expression):
    """A value that is known when the statement runs; among the parameters it stands for itself."""

    def __init__(self, name: str, field: Any) -> None:
        super().__init__(output_field=field)
        self.name = name

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        return "%s", (self,)


@dataclass(frozen=True, slots=True)
class _Part:
    """Which columns of the statement are one model's; ``field`` is the foreign key that leads to it."""

    model: type[Model]
    names: frozenset[str]
    columns: slice
    key: int
    field: Any


@dataclass(frozen=True, slots=True)
class _Statement:
    """What Django made of the read for one kind of database."""

    sql: str
    parameters: tuple[Any, ...]
    converters: tuple[tuple[int, tuple[Callable[..., Any], ...], Any], ...]
    own: _Part
    joined: tuple[_Part, ...]
    beside: slice


class PreparedRead(Generic[M]):
    """The row of ``model`` that has the given values of ``key``, a tuple of fields that is unique.

    The row is what the query set ``select_related(*related).annotate(**also).only(*only)`` would give: ``related``
    foreign keys are read in the same statement, ``also`` become attributes beside the fields, and a field that is
    not among those of ``only``, if any are named, costs another statement when it is asked for.
    """

    def __init__(
        self,
        model: type[M],
        *,
        key: Iterable[str],
        related: Iterable[str] = (),
        also: Mapping[str, Combinable] | None = None,
        only: Iterable[str] = (),
    ) -> None:
        self._model, self._key, self._related = model, tuple(key), tuple(related)
        self._also, self._only = dict(also or {}), frozenset(only)
        self._statements: dict[str, _Statement] = {}

    def first(self, **key: Any) -> M | None:
        """The row, ``None`` when there is none; ``key`` has a value for each of its fields.  One statement."""
        connection = connections[DEFAULT_DB_ALIAS]
        statement = self._statements.get(connection.vendor)
        if statement is None:
            statement = self._statements[connection.vendor] = self._prepare(connection)
        parameters = [
            part.output_field.get_db_prep_value(key[part.name], connection) if isinstance(part, _Placeholder) else part
            for part in statement.parameters
        ]
        with connection.cursor() as cursor:
            cursor.execute(statement.sql, parameters)
            found = cursor.fetchone()
        if found is None:
            return None
        values = list(found)
        for column, converters, expression in statement.converters:
            for convert in converters:
                values[column] = convert(values[column], expression, connection)
        return self._row(statement, values)

    def _row(self, statement: _Statement, values: list[Any]) -> M:
        own = statement.own
        row: Any = own.model.from_db(DEFAULT_DB_ALIAS, own.names, values[own.columns])
        for part in statement.joined:
            other = None
            if values[part.key] is not None:
                other = part.model.from_db(DEFAULT_DB_ALIAS, part.names, values[part.columns])
            part.field.set_cached_value(row, other)
        for name, value in zip(self._also, values[statement.beside], strict=True):
            setattr(row, name, value)
        return row  # type: ignore[no-any-return]

    def _prepare(self, connection: Any) -> _Statement:
        rows = self._model._base_manager.order_by().annotate(**self._also)
        for name in self._key:
            field: Any = self._model._meta.get_field(name)
            # A foreign key's value is a value of the key that it leads to.
            rows = rows.filter(**{name: _Placeholder(name, field.target_field if field.is_relation else field)})
        own, columns = self._part(self._model, None, 0)
        joined = []
        for name in self._related:
            field = self._model._meta.get_field(name)
            part, more = self._part(field.related_model, field, len(columns))
            joined.append(part)
            columns += more
        compiler = rows.values_list(*columns, *self._also).query.get_compiler(connection=connection)
        sql, parameters = compiler.as_sql()
        found = compiler.get_converters([selected[0] for selected in compiler.select])
        converters = tuple((column, tuple(several), expression) for column, (several, expression) in found.items())
        beside = slice(len(columns), len(columns) + len(self._also))
        return _Statement(sql, tuple(parameters), converters, own, tuple(joined), beside)

    def _part(self, model: type[Model], field: Any, start: int) -> tuple[_Part, list[str]]:
        """Where the columns of a model begin at ``start``, and their names in a query."""
        prefix = "" if field is None else f"{field.name}__"
        names = [f.attname for f in model._meta.concrete_fields if self._reads(prefix, f)]
        key = start + names.index(model._meta.pk.attname)
        part = _Part(model, frozenset(names), slice(start, start + len(names)), key, field)
        return part, [prefix + name for name in names]

    def _reads(self, prefix: str, field: Any) -> bool:
        return not self._only or field.primary_key or prefix + field.name in self._only
