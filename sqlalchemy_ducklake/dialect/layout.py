"""How the files of a table are laid out: partitions, the order of rows, options of the lake.

A :class:`Table` says it by arguments, with columns, names, or expressions of columns::

    Table("flights", metadata, time_hour, carrier,
          ducklake_partition_by=[func.month(time_hour), func.bucket(16, carrier)],
          ducklake_sort_by=[time_hour.desc()],
          ducklake_options={"target_file_size": "100MB"})

A text is a column's name, or else it is read by the engine's own parser and written anew.
Two layouts that mean the same are equal, however they were written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import exc, schema
from sqlalchemy import types as sqltypes
from sqlalchemy.sql.compiler import DDLCompiler

from sqlalchemy_ducklake.dialect.identifiers import RESERVED_WORDS
from sqlalchemy_ducklake.dialect.options import normal_option
from sqlalchemy_ducklake.dialect.texts import function_call, references_in, sort_item, with_name

IDENTITY, BUCKET = "identity", "bucket"
#: What a partition may take out of a time.
PARTS_OF_TIME = ("year", "month", "day", "hour")

_FORMS = "a column, year(…), month(…), day(…), hour(…) of a time, or bucket(<number>, …)"
_plain_name = re.compile(r"[a-z_][a-z0-9_]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """A column whose value, or what a transform makes of it, parts the rows of a table.

    ``buckets`` is how many there are if the transform is ``bucket``.
    """

    column: str
    transform: str = IDENTITY
    buckets: int | None = None

    def __str__(self) -> str:
        """Write the key as it may be given again."""
        if self.transform == IDENTITY:
            return self.column
        number = "" if self.buckets is None else f"{self.buckets}, "
        return f"{self.transform}({number}{quoted(self.column)})"

    def sql(self, quote: Any) -> str:
        """Write the key for PARTITIONED BY."""
        if self.transform == IDENTITY:
            return str(quote(self.column))
        number = "" if self.buckets is None else f"{self.buckets:d}, "
        return f"{self.transform}({number}{quote(self.column)})"


@dataclass(frozen=True, slots=True)
class SortKey:
    """An expression that rows are sorted by, as the engine writes it."""

    expression: str
    descending: bool = False
    nulls_first: bool = False

    def __str__(self) -> str:
        """Write the key as it may be given again."""
        said = self.expression
        said += " DESC" if self.descending else ""
        return said + (" NULLS FIRST" if self.nulls_first else "")

    def sql(self) -> str:
        """Write the key for SORTED BY."""
        direction = "DESC" if self.descending else "ASC"
        return f"{self.expression} {direction} NULLS {'FIRST' if self.nulls_first else 'LAST'}"


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a table; ``options`` are texts as the lake keeps them."""

    partition_by: tuple[PartitionKey, ...] = ()
    sort_by: tuple[SortKey, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    def with_column_renamed(self, old: str, new: str) -> Layout:
        """Let the keys follow a column."""
        partition = (
            replace(key, column=new) if key.column == old else key for key in self.partition_by
        )
        order = (
            replace(key, expression=with_name(key.expression, old, new)) for key in self.sort_by
        )
        return replace(self, partition_by=tuple(partition), sort_by=tuple(order))

    def described(self) -> dict[str, Any]:
        """Say the layout as arguments of a table say it; what is not said is left out."""
        said = {
            "ducklake_partition_by": [str(key) for key in self.partition_by],
            "ducklake_sort_by": [str(key) for key in self.sort_by],
            "ducklake_options": dict(self.options),
        }
        return {name: value for name, value in said.items() if value}


def quoted(name: str) -> str:
    """Quote a name if the engine's parser would not take it as it is."""
    if _plain_name.fullmatch(name) and name not in RESERVED_WORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def layout_of(table: schema.Table, compiler: DDLCompiler) -> Layout:
    """Return the layout that a table declares.

    Raises CompileError for a key or an option that a lake cannot have.
    """
    said = table.dialect_options["ducklake"]
    columns = {column.name: column.type for column in table.columns}
    where = f"table {table.description!r}"
    return Layout(
        partition_keys(said["partition_by"] or (), columns, compiler, where),
        sort_keys(said["sort_by"] or (), columns, compiler, where),
        {str(name): normal_option(name, one) for name, one in (said["options"] or {}).items()},
    )


def partition_keys(
    said: Sequence[Any],
    columns: Mapping[str, sqltypes.TypeEngine[Any] | None],
    compiler: DDLCompiler,
    where: str,
) -> tuple[PartitionKey, ...]:
    """Return the keys of a partition; a column without a known type is taken on trust.

    Raises CompileError, which begins with ``where``, for a key that a lake cannot have.
    """
    keys = tuple(_partition_key(one, columns, compiler, where) for one in _listed(said, where))
    for key in keys:
        kind = columns[key.column]
        if key.transform in PARTS_OF_TIME and not _is_time(kind):
            # The lake would take it, and then refuse every row.
            raise exc.CompileError(
                f"{where}: it cannot be partitioned by {key}: {key.column!r} is no date or time"
            )
    if len(set(keys)) < len(keys):
        raise exc.CompileError(f"{where}: it is partitioned by the same key twice")
    return keys


def sort_keys(
    said: Sequence[Any], columns: Iterable[str], compiler: DDLCompiler, where: str
) -> tuple[SortKey, ...]:
    """Return what rows are sorted by.

    Raises CompileError, which begins with ``where``, for what reads no column of the table.
    """
    names = list(columns)
    return tuple(_sort_key(one, names, compiler, where) for one in _listed(said, where))


def _listed(said: Any, where: str) -> list[Any]:
    if isinstance(said, str) or not isinstance(said, Iterable):
        raise exc.CompileError(f"{where}: give a list of keys instead of {said!r}")
    return list(said)


def _partition_key(
    said: Any, columns: Iterable[str], compiler: DDLCompiler, where: str
) -> PartitionKey:
    if isinstance(said, PartitionKey):
        name = _column_named(said.column, columns, where)
        return PartitionKey(name, said.transform, said.buckets)
    text = _text(said, compiler)
    exact = _find(text, columns) if isinstance(said, str) else None
    if exact is not None:
        return PartitionKey(exact)
    function, arguments = function_call(text)
    match function, arguments:
        case "", (str(name),):
            return PartitionKey(_column_named(name, columns, where))
        case _, (str(name),) if function in PARTS_OF_TIME:
            return PartitionKey(_column_named(name, columns, where), function)
        case "bucket", (int(number), str(name)) if number > 0:
            return PartitionKey(_column_named(name, columns, where), BUCKET, number)
    raise exc.CompileError(f"{where}: it cannot be partitioned by {text}; it may be {_FORMS}")


def _sort_key(said: Any, columns: Sequence[str], compiler: DDLCompiler, where: str) -> SortKey:
    if isinstance(said, SortKey):
        return said
    text = _text(said, compiler)
    exact = _find(text, columns) if isinstance(said, str) else None
    found = sort_item(text if exact is None else quoted(exact))
    there = {str.lower(name) for name in columns}
    for reference in references_in(found.expression) or ((text,),):
        if not there & set(reference):
            listed = ", ".join(map(repr, columns))
            raise exc.CompileError(
                f"{where}: to sort by {text} reads {'.'.join(reference)!r}, which is none of "
                f"its columns {listed}"
            )
    return SortKey(found.expression, found.descending, found.null_order == "NULLS FIRST")


def _text(said: Any, compiler: DDLCompiler) -> str:
    """Write a column or an expression, with names that need no table."""
    if isinstance(said, str):
        return said
    element = said.__clause_element__() if hasattr(said, "__clause_element__") else said
    try:
        return str(
            compiler.sql_compiler.process(element, include_table=False, literal_binds=True)
        )
    except AttributeError as error:
        raise exc.CompileError(f"{said!r} is no column, text or SQL expression") from error


def _find(name: str, columns: Iterable[str]) -> str | None:
    """Find a column by its name; case counts only if two differ by nothing else."""
    folded = {str.lower(one): str(one) for one in columns}
    return folded.get(str.lower(name))


def _column_named(name: str, columns: Iterable[str], where: str) -> str:
    found = _find(name, columns)
    if found is None:
        listed = ", ".join(map(repr, columns))
        raise exc.CompileError(
            f"{where}: there is no column {name!r}; its columns are {listed}"
        )
    return found


def _is_time(kind: sqltypes.TypeEngine[Any] | None) -> bool:
    """Tell whether a transform of time takes a type; one that is not known may be taken."""
    if kind is None:
        return True
    return kind._type_affinity in (sqltypes.Date, sqltypes.DateTime)  # noqa: SLF001
