"""Names of types, as the engine and the lake's catalog spell them, and what they mean.

``duckdb_columns()`` gives one text, ``STRUCT(x DOUBLE, tags VARCHAR[])``.  The catalog's
own tables give a name of their own for each type (``float64``) and a row for each field,
element, key and value inside a column.  Both become a :class:`TypeName`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn

from sqlalchemy import types as sqltypes
from sqlalchemy.sql.type_api import TypeEngine
from sqlalchemy.util import warn

from sqlalchemy_ducklake.dialect import types as lake

_token = re.compile(
    r"""\s*(?: "(?P<quoted>(?:[^"]|"")*)" | '(?P<text>(?:[^']|'')*)' | (?P<word>[\w$]+)
        | (?P<mark>[(),\[\]]) )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class TypeName:
    """A type: its upper-case name, its numbers, and the named types inside it.

    The types inside a LIST are ``element``, of a MAP ``key`` and ``value``, of a STRUCT
    its fields.
    """

    name: str
    numbers: tuple[int, ...] = ()
    inside: tuple[tuple[str, TypeName], ...] = ()


class CatalogType(NamedTuple):
    """One row of ``ducklake_column``: the columns that tell its type."""

    column_id: int
    name: str
    type_name: str


# What the catalog calls the types that the engine calls otherwise.
_CATALOG_NAMES = {
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "int128": "HUGEINT",
    "uint8": "UTINYINT",
    "uint16": "USMALLINT",
    "uint32": "UINTEGER",
    "uint64": "UBIGINT",
    "uint128": "UHUGEINT",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "timetz": "TIME WITH TIME ZONE",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
}


def parse(text: str) -> TypeName:
    """Read the engine's text of a type.

    Raises ValueError for what is not one.
    """
    reader = _Reader(text)
    found = reader.type_name()
    reader.end()
    return found


@lru_cache(maxsize=4096)
def of_plain(type_name: str) -> TypeName:
    """Read the catalog's name of a type that has nothing inside."""
    return parse(_CATALOG_NAMES.get(type_name, type_name))


def of_catalog(row: CatalogType, inside: Mapping[int, Sequence[CatalogType]]) -> TypeName:
    """Put together the rows of one column; ``inside`` has the rows by their parent's id."""
    plain = of_plain(row.type_name)
    children = inside.get(row.column_id)
    if children is None:
        return plain
    return TypeName(
        plain.name,
        plain.numbers,
        tuple((child.name, of_catalog(child, inside)) for child in children),
    )


def sql_type(name: TypeName) -> TypeEngine[Any]:
    """Return the SQLAlchemy type of a type name; NullType, with a warning, if none is known."""
    build = _BUILDERS.get(name.name)
    if build is None:
        warn(f"did not recognize the type {name.name!r} of a column")
        return sqltypes.NULLTYPE
    return build(name)


class _Reader:
    """Read a type from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split(text)
        self._next: tuple[str, str] | None = next(self._tokens, None)

    def _split(self, text: str) -> Iterator[tuple[str, str]]:
        place = 0
        while text[place:].strip():
            found = _token.match(text, place)
            if found is None:
                self._fail()
            place = found.end()
            kind = found.lastgroup or ""
            yield kind, found.group(kind).replace('""', '"')

    def _fail(self) -> NoReturn:
        raise ValueError(f"{self._text!r} is not the name of a type")

    def _take(self, kind: str) -> str:
        if self._next is None or self._next[0] != kind:
            self._fail()
        _, value = self._next
        self._next = next(self._tokens, None)
        return value

    def _has(self, mark: str) -> bool:
        """Go past ``mark`` if it comes next."""
        if self._next != ("mark", mark):
            return False
        self._take("mark")
        return True

    def _expect(self, mark: str) -> None:
        if not self._has(mark):
            self._fail()

    def end(self) -> None:
        """Fail if anything is left."""
        if self._next is not None:
            self._fail()

    def type_name(self) -> TypeName:
        found = self._plain()
        while self._has("["):
            numbers = (self._number(),) if self._next != ("mark", "]") else ()
            self._expect("]")
            found = TypeName("ARRAY" if numbers else "LIST", numbers, (("element", found),))
        return found

    def _plain(self) -> TypeName:
        words = [self._take("word").upper()]
        while self._next is not None and self._next[0] == "word":
            words.append(self._take("word").upper())
        name = " ".join(words)
        if name == "STRUCT" and self._has("("):
            return TypeName(name, (), tuple(self._fields()))
        if name == "MAP" and self._has("("):
            key = self.type_name()
            self._expect(",")
            value = self.type_name()
            self._expect(")")
            return TypeName(name, (), (("key", key), ("value", value)))
        return TypeName(name, self._numbers())

    def _fields(self) -> Iterator[tuple[str, TypeName]]:
        while True:
            kind = "quoted" if self._next and self._next[0] == "quoted" else "word"
            yield self._take(kind), self.type_name()
            if self._has(")"):
                return
            self._expect(",")

    def _number(self) -> int:
        word = self._take("word")
        return int(word) if word.isdecimal() else self._fail()

    def _numbers(self) -> tuple[int, ...]:
        if not self._has("("):
            return ()
        numbers = [self._number()]
        while self._has(","):
            numbers.append(self._number())
        self._expect(")")
        return tuple(numbers)


def _decimal(name: TypeName) -> TypeEngine[Any]:
    precision, scale = (*name.numbers, None, None)[:2]
    return sqltypes.DECIMAL(precision, scale)


def _list(name: TypeName) -> TypeEngine[Any]:
    element, depth = name.inside[0][1], 1
    while element.name == "LIST":
        element, depth = element.inside[0][1], depth + 1
    return sqltypes.ARRAY(sql_type(element), dimensions=depth if depth > 1 else None)


def _struct(name: TypeName) -> TypeEngine[Any]:
    return lake.STRUCT([(field, sql_type(kind)) for field, kind in name.inside])


def _map(name: TypeName) -> TypeEngine[Any]:
    (_, key), (_, value) = name.inside
    return lake.MAP(sql_type(key), sql_type(value))


def _text(kind: type[sqltypes.String]) -> Callable[[TypeName], TypeEngine[Any]]:
    return lambda name: kind(name.numbers[0] if name.numbers else None)


def _always(kind: type[TypeEngine[Any]], **options: Any) -> Callable[[TypeName], Any]:
    return lambda _: kind(**options)


_BUILDERS: dict[str, Callable[[TypeName], TypeEngine[Any]]] = {
    "BIGINT": _always(sqltypes.BIGINT),
    "BLOB": _always(sqltypes.BLOB),
    "BOOLEAN": _always(sqltypes.BOOLEAN),
    "CHAR": _text(sqltypes.CHAR),
    "DATE": _always(sqltypes.DATE),
    "DECIMAL": _decimal,
    "DOUBLE": _always(sqltypes.DOUBLE),
    "FLOAT": _always(sqltypes.REAL),
    "GEOMETRY": _always(lake.GEOMETRY),
    "HUGEINT": _always(lake.HUGEINT),
    "INTEGER": _always(sqltypes.INTEGER),
    "INTERVAL": _always(lake.INTERVAL),
    "JSON": _always(sqltypes.JSON),
    "LIST": _list,
    "MAP": _map,
    "NCHAR": _text(sqltypes.NCHAR),
    "NVARCHAR": _text(sqltypes.NVARCHAR),
    "SMALLINT": _always(sqltypes.SMALLINT),
    "STRUCT": _struct,
    "TIME": _always(sqltypes.TIME),
    "TIME WITH TIME ZONE": _always(sqltypes.TIME, timezone=True),
    "TIMESTAMP": _always(sqltypes.TIMESTAMP),
    "TIMESTAMP WITH TIME ZONE": _always(sqltypes.TIMESTAMP, timezone=True),
    "TIMESTAMP_MS": _always(lake.TIMESTAMP_MS),
    "TIMESTAMP_NS": _always(lake.TIMESTAMP_NS),
    "TIMESTAMP_S": _always(lake.TIMESTAMP_S),
    "TIME_NS": _always(sqltypes.TIME),
    "TINYINT": _always(lake.TINYINT),
    "UBIGINT": _always(lake.UBIGINT),
    "UHUGEINT": _always(lake.UHUGEINT),
    "UINTEGER": _always(lake.UINTEGER),
    "USMALLINT": _always(lake.USMALLINT),
    "UTINYINT": _always(lake.UTINYINT),
    "UUID": _always(sqltypes.UUID),
    "VARCHAR": _text(sqltypes.VARCHAR),
    "VARIANT": _always(lake.VARIANT),
}
