"""Finding rows by their words: a ``tsvector`` on PostgreSQL, an FTS5 table on SQLite.

A model that is searched has a :class:`WordIndexField`; its migration has triggers that keep the index from a
text of the form ``<word><word>…``.  On SQLite the index of the table ``x`` is the FTS5 table ``x_words``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from django.db.models import Field, Func, IntegerField, Lookup, Value

if TYPE_CHECKING:
    _Field = Field[Any, Any]
    _Lookup = Lookup[Any]
else:
    _Field = Field
    _Lookup = Lookup


class Word(Protocol):
    """A word to look for."""

    @property
    def word(self) -> str: ...

    @property
    def is_prefix(self) -> bool: ...

    @property
    def pattern(self) -> str: ...


class WordIndexField(_Field):
    """The index of a row's words.  Triggers fill it; on SQLite it only names the place."""

    if TYPE_CHECKING:
        _pyi_private_set_type: Any
        _pyi_private_get_type: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "null": True, "editable": False})

    def db_type(self, connection: Any) -> str:
        return "tsvector" if connection.vendor == "postgresql" else "text"


@WordIndexField.register_lookup
class HasWords(_Lookup):
    """``index__has_words=[…]``: every one of the :class:`Word` objects occurs."""

    lookup_name = "has_words"
    prepare_rhs = False

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:
        column, parameters = self.process_lhs(compiler, connection)
        query = " & ".join(f"{_quoted(one.word, chr(39))}{':*' if one.is_prefix else ''}" for one in self._words())
        return f"{column} @@ %s::tsquery", (*parameters, query)

    def as_sqlite(self, compiler: Any, connection: Any) -> tuple[str, list[Any]]:
        field: Any = self.lhs
        table = field.target.model._meta.db_table
        key = connection.ops.quote_name(field.target.model._meta.pk.column)
        words = connection.ops.quote_name(f"{table}_words")
        query = " AND ".join(f"{_quoted(one.word, chr(34))}{'*' if one.is_prefix else ''}" for one in self._words())
        row = f"{connection.ops.quote_name(field.alias)}.{key}"
        return f"{row} IN (SELECT rowid FROM {words} WHERE {words} MATCH %s)", [query]  # noqa: S608 - our own names

    def _words(self) -> Iterable[Word]:
        words: Iterable[Word] = self.rhs
        return words


def _quoted(word: str, quote: str) -> str:
    return quote + word.replace("\\", "\\\\").replace(quote, quote * 2) + quote


class Occurrences(Func):
    """How often a :class:`Word` stands in a text of the form ``<word><word>…``."""

    output_field = IntegerField()

    def __init__(self, text: Any, word: Word) -> None:
        super().__init__(text, Value(word.pattern))
        self._length = len(word.pattern)

    def as_sql(  # type: ignore[override]
        self, compiler: Any, connection: Any, **context: Any
    ) -> tuple[str, tuple[Any, ...]]:
        text, of_text = compiler.compile(self.source_expressions[0])
        pattern, of_pattern = compiler.compile(self.source_expressions[1])
        sql = f"((LENGTH({text}) - LENGTH(REPLACE({text}, {pattern}, ''))) / {self._length})"
        return sql, (*of_text, *of_text, *of_pattern)
