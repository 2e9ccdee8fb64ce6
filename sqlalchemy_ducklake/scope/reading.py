"""A query, led through the views of a scope.

The engine's own parser says what a query reads and writes the changed query anew, so
joins, subqueries and common table expressions of any text are right.  What it cannot write
(anything but a SELECT), and what reaches a table by a way that the text does not show (a
view, a macro), is not led anywhere: then the scope writes what it holds into the
transaction first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import duckdb

from sqlalchemy_ducklake.lake.changes import TableName

Node = dict[str, Any]

#: What the engine knows of a row of the lake besides its columns; a view has none of it.
UNSEEN_COLUMNS = frozenset(
    {"rowid", "filename", "file_row_number", "file_index", "snapshot_id"}
)

_PART = r'(?:"(?:[^"]|"")*"|[^."\s]+)'
_LEADING_NAME, _DOTTED = re.compile(_PART), re.compile(rf"{_PART}(?:\.{_PART})*")

_SERIALIZE = "SELECT json_serialize_sql($1)"
_MACROS = """SELECT DISTINCT function_name FROM duckdb_functions()
    WHERE lower(database_name) = lower($1)"""
_WRITE = "SELECT json_deserialize_sql($1::JSON)"


@dataclass(frozen=True, slots=True)
class Place:
    """Where names are looked up: the lake's name, and the schema of those without one."""

    lake: str
    schema: str

    def resolved(self, catalog: str, schema: str, name: str) -> TableName | None:
        """Give schema and table that a name means, in lower case; None outside the lake."""
        if not catalog and schema.lower() == self.lake.lower():
            # A catalog in front of a table means its main schema.
            catalog, schema = schema, "main"
        if catalog and catalog.lower() != self.lake.lower():
            return None
        return (schema or self.schema).lower(), name.lower()


@dataclass(slots=True)
class Tree:
    """The parse tree of one query, and what of it reads the tables of a scope.

    ``shown`` are the views to read instead and ``logs`` the logs, by schema and table in
    lower case.
    """

    root: Node
    place: Place
    shown: Mapping[TableName, str]
    tables: list[tuple[TableName, Node]] = field(default_factory=list)
    dated: list[tuple[TableName, Node]] = field(default_factory=list)
    calls: set[str] = field(default_factory=set)
    plain: bool = True
    odd: bool = False
    others: bool = False

    def __post_init__(self) -> None:
        for node in _nodes(self.root):
            self._note(node)

    def _note(self, node: Node) -> None:
        if node.get("type") == "BASE_TABLE" and "table_name" in node:
            names = node["catalog_name"], node["schema_name"], node["table_name"]
            table = self.place.resolved(*names)
            if table is not None and table in self.shown:
                # Another snapshot is as it was.
                found = self.dated if node.get("at_clause") else self.tables
                found.append((table, node))
            else:
                self.others = self.others or table is not None
                # The engine cannot tell what is read there (1.5.5).
                self.plain = self.plain and not node.get("at_clause")
        elif node.get("class") == "FUNCTION":
            self.calls.add(node["function_name"].lower())
        elif node.get("class") == "COLUMN_REF":
            name = node["column_names"][-1].lower()
            self.odd = self.odd or name in UNSEEN_COLUMNS
        elif node.get("type") == "SHOW_REF":
            self.odd = True  # of a view it would tell other things
        elif "cte_map" in node:
            # What a common table expression hides is told by the engine alone.
            hidden = {each["key"].lower() for each in node["cte_map"]["map"]}
            self.plain = self.plain and hidden.isdisjoint(name for _, name in self.shown)

    def lead(self, views: Mapping[TableName, str]) -> None:
        """Let the query read these temporary tables or views instead of the tables."""
        strip = self._prefixes()
        for table, node in self.tables:
            node["alias"] = node["alias"] or node["table_name"]
            node["catalog_name"], node["schema_name"] = "temp", "main"
            node["table_name"], node["at_clause"] = views[table], None
        for node in _nodes(self.root):
            if node.get("class") == "COLUMN_REF":
                node["column_names"] = _stripped(node["column_names"], strip)

    def _prefixes(self) -> list[tuple[str, ...]]:
        """Give what may stand before a table's name in that of a column, longest first."""
        lake = self.place.lake.lower()
        found: list[tuple[str, ...]] = []
        for (schema, name), _ in self.tables:
            found += [(lake, schema, name), (schema, name), (lake, name)]
        return sorted(set(found), key=len, reverse=True)


def led(
    duck: duckdb.DuckDBPyConnection,
    text: str,
    place: Place,
    shown: Mapping[TableName, str],
    logs: Mapping[TableName, str],
) -> str | None:
    """Give the query that reads what a scope shows; None if that cannot be told.

    ``shown`` and ``logs`` name the view and the log of each table, by schema and name in
    lower case.
    """
    serialized = _parsed(duck, text)
    if serialized is None:
        return None
    tree = Tree(json.loads(serialized), place, shown)
    # What is odd of a view matters only where one is read.
    odd = tree.odd and bool(tree.tables)
    if odd or not tree.plain or _reads_unseen(duck, serialized, place, shown, logs):
        return None
    if not tree.tables:
        return text
    tree.lead(shown)
    return _written(duck, tree.root)


def _reads_unseen(
    duck: duckdb.DuckDBPyConnection,
    serialized: str,
    place: Place,
    shown: Mapping[TableName, str],
    logs: Mapping[TableName, str],
) -> bool:
    """Tell whether a query reaches a table of the scope through a view or a macro.

    The engine says what it reads in the end; logs stand for what the text itself names.
    """
    tree = Tree(json.loads(serialized), place, shown)
    tree.tables += tree.dated
    tree.lead(logs)
    for node in _nodes(tree.root):
        if node.get("class") == "PARAMETER":
            _make_null(node)
    text = _written(duck, tree.root)
    if text is None:
        return True
    try:
        names = duck.get_table_names(text, qualified=True)
    except duckdb.BinderException:
        # It does without parameters what this cannot; then only views and macros matter.
        return tree.others or not tree.calls.isdisjoint(_macros(duck, place))
    except duckdb.Error:
        return True
    return any(_names_one(name, shown) for name in names)


def _macros(duck: duckdb.DuckDBPyConnection, place: Place) -> set[str]:
    return {name.lower() for (name,) in duck.execute(_MACROS, [place.lake]).fetchall()}


def _names_one(name: str, shown: Mapping[TableName, str]) -> bool:
    """Tell whether a name, as the engine gives it back, may be that of a table of the scope.

    A name without a schema may be of any.
    """
    parts = [_unquoted(part).lower() for part in _LEADING_NAME.findall(_of_table(name))]
    return any(
        parts[-1:] == [table] and parts[-2:-1] in ([], [schema]) for schema, table in shown
    )


def _of_table(name: str) -> str:
    """Give the dotted name alone: an alias or a sample may follow it."""
    found = _DOTTED.match(name)
    return found[0] if found else name


def _unquoted(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part


def _make_null(node: Node) -> None:
    alias = node.get("alias", "")
    location = node.get("query_location", 0)
    node.clear()
    node.update(
        {
            "class": "CONSTANT",
            "type": "VALUE_CONSTANT",
            "alias": alias,
            "query_location": location,
            "value": {"type": {"id": "NULL", "type_info": None}, "is_null": True},
        }
    )


def _parsed(duck: duckdb.DuckDBPyConnection, text: str) -> str | None:
    row = duck.execute(_SERIALIZE, [text]).fetchone()
    serialized = str(row[0]) if row else ""
    return serialized if serialized.startswith('{"error":false') else None


def _written(duck: duckdb.DuckDBPyConnection, root: Node) -> str | None:
    if len(root["statements"]) != 1:
        return None
    row = duck.execute(_WRITE, [json.dumps(root)]).fetchone()
    return str(row[0]) if row else None


def _stripped(names: list[str], prefixes: list[tuple[str, ...]]) -> list[str]:
    """Let a column be of the alias that its table has now."""
    lowered = tuple(name.lower() for name in names)
    for prefix in prefixes:
        if len(names) > len(prefix) and lowered[: len(prefix)] == prefix:
            return names[len(prefix) - 1 :]
    return names


def _nodes(root: Any) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            yield node
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)
