"""Primary keys and constraints as tags in comments, where the lake itself has none.

A tag is one line that begins with ``sqlalchemy-ducklake:``.  It stands behind the user's
own comment, parted from it by a newline, so both survive::

    the customer's number⏎sqlalchemy-ducklake:primary-key:v1:0:pk%5Fcustomer

Nothing here knows SQLAlchemy or DuckDB: comments go in, keys come out.  DuckLake keeps a
column's comment when the column or its table is renamed, so a key follows its columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote, unquote

from sqlalchemy_ducklake.errors import MalformedTag, ReservedComment

NAMESPACE = "sqlalchemy-ducklake:"
KEY_TAG = f"{NAMESPACE}primary-key:v1:"
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
