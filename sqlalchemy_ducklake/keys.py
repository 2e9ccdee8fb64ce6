"""Primary keys and constraints as tags in comments, where the lake itself has none.

A tag is one line that begins with ``sqlalchemy-ducklake:``.  It stands behind the user's
own comment, parted from it by a newline, so both survive::

    the customer's number⏎sqlalchemy-ducklake:primary-key:v1:0:pk%5Fcustomer

The primary key is on the comments of its columns; every other constraint is in one tag, in
JSON, behind the comment of the table.

Nothing here knows SQLAlchemy or DuckDB: comments go in, keys come out.  DuckLake keeps a
column's comment when the column or its table is renamed, so a key follows its columns.  The
JSON holds names, which do not follow; :func:`check_columns` finds those that went stale.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from sqlalchemy_ducklake.errors import MalformedTag, ReservedComment, StaleConstraint

NAMESPACE = "sqlalchemy-ducklake:"
KEY_TAG = f"{NAMESPACE}primary-key:v1:"
CONSTRAINTS_TAG = f"{NAMESPACE}constraints:v1:"
FOREIGN_NAMESPACE = "sixb:primary-key:"
FOREIGN_KEY_TAG = f"{FOREIGN_NAMESPACE}v1:"

_tag_line = re.compile(rf"^{re.escape(NAMESPACE)}", re.MULTILINE)
_ordinal = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)


class ColumnComment(NamedTuple):
    """A column as the catalog tells it; ``nested`` marks a field inside another column."""

    column: str
    comment: str | None
    nullable: bool
    nested: bool = False


@dataclass(frozen=True, slots=True)
class PrimaryKey:
    """The columns of a key, in key order, and the name of its constraint."""

    columns: tuple[str, ...]
    name: str | None = None


def split_comment(text: str | None) -> tuple[str | None, str | None]:
    """Part a stored comment into the user's comment and the tag behind it."""
    if text is None:
        return None, None
    if text.startswith(FOREIGN_NAMESPACE):
        return None, text
    found = _tag_line.search(text)
    if found is None:
        return text, None
    if found.start() == 0:
        return None, text
    return text[: found.start() - 1], text[found.start() :]


def join_comment(comment: str | None, tag: str | None) -> str | None:
    """Put a tag behind the user's comment; refuse a comment that itself looks like a tag."""
    if comment is not None and split_comment(comment) != (comment, None):
        raise ReservedComment(comment)
    if tag is None:
        return comment
    return tag if comment is None else f"{comment}\n{tag}"


def key_tags(key: PrimaryKey) -> Mapping[str, str]:
    """Return the tag of each column of a key."""
    tags = {column: f"{KEY_TAG}{ordinal}" for ordinal, column in enumerate(key.columns)}
    if key.name is not None and key.columns:
        tags[key.columns[0]] += f":{quote(key.name, safe='')}"
    return tags


def primary_key(table: str, columns: Iterable[ColumnComment]) -> PrimaryKey | None:
    """Return the key that the tags of a table's columns spell, or None without tags.

    A tag that is not exactly as :func:`key_tags` writes it is an error that names the
    table, the column and the tag: a key that is guessed at is worse than none.
    """
    found: dict[int, str] = {}
    names: list[str] = []
    for column in columns:
        _, tag = split_comment(column.comment)
        if tag is None:
            continue
        ordinal, name = _parse(table, column.column, tag)
        _check_place(table, column, tag)
        if ordinal in found:
            reason = f"column {found[ordinal]!r} has the ordinal {ordinal} already"
            raise MalformedTag(table, column.column, tag, reason)
        found[ordinal] = column.column
        names.extend([name] if name is not None else [])
    _check_gaps(table, found)
    ordered = tuple(found[ordinal] for ordinal in sorted(found))
    return PrimaryKey(ordered, names[0] if names else None) if ordered else None


def _parse(table: str, column: str, tag: str) -> tuple[int, str | None]:
    if tag.startswith(FOREIGN_KEY_TAG):
        ordinal, has_name, name = tag.removeprefix(FOREIGN_KEY_TAG), "", ""
    elif tag.startswith(KEY_TAG):
        ordinal, has_name, name = tag.removeprefix(KEY_TAG).partition(":")
    else:
        reason = f"expected {KEY_TAG}<ordinal>; another version may have written it"
        raise MalformedTag(table, column, tag, reason)
    if _ordinal.fullmatch(ordinal) is None:
        reason = f"{ordinal!r} is not an ordinal (0, 1, 2, …)"
        raise MalformedTag(table, column, tag, reason)
    if not has_name:
        return int(ordinal), None
    return int(ordinal), _constraint_name(table, column, tag, ordinal, name)


def _constraint_name(table: str, column: str, tag: str, ordinal: str, name: str) -> str:
    decoded = unquote(name, errors="surrogateescape")
    if ordinal != "0" or not name or quote(decoded, "", errors="surrogateescape") != name:
        reason = "a percent-encoded constraint name may stand behind ordinal 0 only"
        raise MalformedTag(table, column, tag, reason)
    return decoded


def _check_place(table: str, column: ColumnComment, tag: str) -> None:
    if column.nested:
        reason = "a field inside a column cannot be part of a key"
        raise MalformedTag(table, column.column, tag, reason)
    if column.nullable:
        reason = "a column of a key must be NOT NULL"
        raise MalformedTag(table, column.column, tag, reason)


def _check_gaps(table: str, found: Mapping[int, str]) -> None:
    for expected, ordinal in enumerate(sorted(found)):
        if ordinal != expected:
            reason = f"no column of the key has the ordinal {expected}"
            raise MalformedTag(table, found[ordinal], f"{KEY_TAG}{ordinal}", reason)


@dataclass(frozen=True, slots=True)
class Unique:
    """Columns whose values, taken together, no two rows share."""

    columns: tuple[str, ...]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """Columns whose values are in columns of another table.

    Without ``schema`` the other table is in the schema of this one.  ``options`` are
    those of SQLAlchemy: ``ondelete``, ``onupdate``, ``deferrable``, ``initially``.
    """

    columns: tuple[str, ...]
    table: str
    referred: tuple[str, ...]
    schema: str | None = None
    name: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Check:
    """A condition that every row meets, as SQL text."""

    sqltext: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Index:
    """An index that was declared; a lake keeps none, but a unique one is a constraint.

    ``columns`` has None where ``expressions`` has more than a column's name; ``sorting``
    holds words like ``desc`` by column, ``include`` columns that are only carried along.
    """

    name: str
    columns: tuple[str | None, ...]
    unique: bool = False
    expressions: tuple[str, ...] = ()
    sorting: Mapping[str, Sequence[str]] = field(default_factory=dict)
    include: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Constraints:
    """What a table promises besides its primary key.

    By column: ``identity`` holds options, ``computed`` the SQL text of its value, ``types``
    a type of text as it was declared, of which the lake keeps no length.
    """

    unique: tuple[Unique, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    checks: tuple[Check, ...] = ()
    indexes: tuple[Index, ...] = ()
    identity: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    computed: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)

    def unique_keys(self) -> Iterator[Unique]:
        """Give everything that makes values unique, unique indexes included."""
        yield from self.unique
        for index in self.indexes:
            if index.unique and not index.expressions:
                yield Unique(tuple(name for name in index.columns if name), index.name)


def constraints_tag(said: Constraints) -> str | None:
    """Return the tag of a table, None if there is nothing to say."""
    parts: dict[str, Any] = {
        part: [_said(one) for one in getattr(said, part)]
        for part in _PARTS
        if getattr(said, part)
    }
    parts |= {part: getattr(said, part) for part in _BY_COLUMN if getattr(said, part)}
    if not parts:
        return None
    return CONSTRAINTS_TAG + json.dumps(parts, ensure_ascii=False)


def constraints(table: str, comment: str | None) -> Constraints:
    """Return the constraints in a table's comment.

    Raises MalformedTag for a tag that is not as :func:`constraints_tag` writes it.
    """
    _, tag = split_comment(comment)
    if tag is None:
        return Constraints()
    if not tag.startswith(CONSTRAINTS_TAG):
        reason = f"expected {CONSTRAINTS_TAG}<json>; another version may have written it"
        raise MalformedTag(table, None, tag, reason)
    try:
        return _read(json.loads(tag.removeprefix(CONSTRAINTS_TAG)))
    except (ValueError, TypeError, AttributeError) as error:
        raise MalformedTag(table, None, tag, str(error)) from error


def check_columns(table: str, said: Constraints, columns: Iterable[str]) -> None:
    """Raise StaleConstraint if a constraint names a column that the table has not.

    Names are compared as the engine does, without regard to case.
    """
    there = {column.lower() for column in columns}
    for what, column in _named_columns(said):
        if column.lower() not in there:
            raise StaleConstraint(table, what, column)


_PARTS: Mapping[str, type[Any]] = {
    "unique": Unique,
    "foreign_keys": ForeignKey,
    "checks": Check,
    "indexes": Index,
}
# What is said of single columns, and what JSON has for it.
_BY_COLUMN: Mapping[str, type[Any]] = {"identity": dict, "computed": str, "types": str}
# What JSON has for the fields that are not text.
_KINDS = {
    "columns": list,
    "referred": list,
    "expressions": list,
    "include": list,
    "options": dict,
    "sorting": dict,
    "unique": bool,
}


def _said(one: Any) -> Mapping[str, Any]:
    """Return the fields of a constraint that differ from saying nothing."""
    return {name: value for name, value in asdict(one).items() if value not in _NOTHING}


_NOTHING: tuple[Any, ...] = (None, False, (), {})


def _read(said: Any) -> Constraints:
    known = dict(_of_kind(dict, said, "tag"))
    by_column: dict[str, Any] = {
        part: _of_kind(dict, known.pop(part, {}), part) for part in _BY_COLUMN
    }
    for part, kind in _BY_COLUMN.items():
        for column, value in by_column[part].items():
            _of_kind(kind, value, f"{part} of {column!r}")
    parts: dict[str, Any] = {
        part: tuple(_read_one(_PARTS[part], one) for one in known.pop(part))
        for part in _PARTS.keys() & known.keys()
    }
    if known:
        raise ValueError(f"unknown parts: {', '.join(sorted(known))}")
    return Constraints(**parts, **by_column)


def _read_one(kind: Any, said: Any) -> Any:
    fields = _of_kind(dict, said, kind.__name__)
    for name, value in fields.items():
        _of_kind(_KINDS.get(name, str), value, name)
        for one in value if type(value) is list else ():
            _of_kind((str, type(None)) if kind is Index else str, one, name)
    return kind(
        **{name: tuple(one) if type(one) is list else one for name, one in fields.items()}
    )


def _of_kind(kind: Any, value: Any, what: str) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} cannot be the {what}")
    return value


def _named_columns(said: Constraints) -> Iterator[tuple[str, str]]:
    """Give each column that is named, with what names it."""
    named: Iterable[tuple[str, Unique | ForeignKey | Index]] = (
        *(("the unique constraint", one) for one in said.unique),
        *(("the foreign key", one) for one in said.foreign_keys),
        *(("the index", one) for one in said.indexes),
    )
    for what, one in named:
        for column in one.columns:
            if column is not None:
                yield (what if one.name is None else f"{what} {one.name!r}"), column
    for column in said.identity:
        yield "the identity", column
    for column in said.computed:
        yield "the computed value", column
