"""What an SQL text says, told by the engine's own parser.

So a text that a user gave is never put into a statement as it is: it is read, and what the
parser makes of it is written anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import duckdb
from sqlalchemy import exc

Node = dict[str, Any]


class SortedText(NamedTuple):
    """One item of ORDER BY, as the engine writes it.

    ``null_order`` is empty if the text does not say where NULL goes.
    """

    expression: str
    descending: bool
    null_order: str


@lru_cache(maxsize=1024)
def columns_in(text: str) -> frozenset[str]:
    """Return the names that may be columns in an expression, in lower case.

    Of a dotted name every part may be the column.  Raises CompileError for a text that
    is no expression.
    """
    return frozenset(name for reference in references_in(text) for name in reference)


@lru_cache(maxsize=1024)
def references_in(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the dotted names in an expression, in parts, in lower case.

    Raises CompileError for a text that is no expression.
    """
    return tuple(_references(_parsed(f"SELECT {text}", text)))


@lru_cache(maxsize=1024)
def function_call(text: str) -> tuple[str, tuple[str | int, ...]]:
    """Return the function that a text calls, with columns and whole numbers as arguments.

    A bare column is the call of nothing.  Raises CompileError for every other text.
    """
    item = _only_item(_parsed(f"SELECT {text}", text), text)
    if item["class"] == "COLUMN_REF":
        return "", (_argument(item, text),)
    if item["class"] != "FUNCTION" or item["alias"] or item["is_operator"]:
        raise exc.CompileError(f"{text!r} is neither a column nor a function of columns")
    arguments = tuple(_argument(one, text) for one in item["children"])
    return str(item["function_name"]).lower(), arguments


@lru_cache(maxsize=1024)
def sort_item(text: str) -> SortedText:
    """Return what one item of ORDER BY says; raises CompileError for every other text."""
    parsed = _parsed(f"SELECT 1 ORDER BY {text}", text)
    _only_item(parsed, text)
    modifiers = parsed["modifiers"]
    orders: list[Node] = modifiers[0].get("orders", []) if len(modifiers) == 1 else []
    if len(orders) != 1:
        raise exc.CompileError(f"{text!r} is not one expression to sort by")
    order = orders[0]
    null_order = order["null_order"]
    return SortedText(
        _written(order["expression"]),
        order["type"] == "DESCENDING",
        "" if null_order == "ORDER_DEFAULT" else null_order.replace("_", " "),
    )


@lru_cache(maxsize=1024)
def normal(text: str) -> str:
    """Return an expression as the engine writes it, however it was written."""
    return _written(_only_item(_parsed(f"SELECT {text}", text), text))


@lru_cache(maxsize=1024)
def with_name(text: str, old: str, new: str) -> str:
    """Return an expression with another name for one of the columns that it reads."""

    def renamed(node: Any) -> Any:
        if isinstance(node, list):
            return [renamed(child) for child in node]
        if not isinstance(node, dict):
            return node
        if node.get("class") == "COLUMN_REF" and node["column_names"][0].lower() == old.lower():
            return {**node, "column_names": [new, *node["column_names"][1:]]}
        return {name: renamed(child) for name, child in node.items()}

    return _written(renamed(_only_item(_parsed(f"SELECT {text}", text), text)))


def _parsed(query: str, text: str) -> Node:
    """Parse a SELECT; ``text`` is the user's part of it, for the error."""
    with duckdb.connect() as engine:
        row = engine.execute("SELECT json_serialize_sql(?)", [query]).fetchone()
    found: Node = json.loads(row[0]) if row else {}
    statements: list[Node] = found.get("statements", [])
    if len(statements) != 1:
        reason = found.get("error_message", "it is no single statement")
        raise exc.CompileError(f"{text!r} is no SQL expression: {reason}")
    node: Node = statements[0]["node"]
    return node


def _only_item(node: Node, text: str) -> Node:
    """Return what a SELECT selects, which must be one item from nowhere."""
    items: list[Node] = node.get("select_list", [])
    plain = node.get("from_table", {}).get("type") == "EMPTY" and not node["where_clause"]
    if len(items) != 1 or not plain:
        raise exc.CompileError(f"{text!r} is not one expression")
    return items[0]


def _argument(node: Node, text: str) -> str | int:
    if node["class"] == "COLUMN_REF" and len(node["column_names"]) == 1:
        return str(node["column_names"][0])
    value = node.get("value", {}).get("value")
    if node["class"] == "CONSTANT" and type(value) is int:
        return value
    raise exc.CompileError(f"{text!r} is of more than columns and whole numbers")


def _written(expression: Node) -> str:
    """Write an expression as the engine writes it in its catalog."""
    statement = {"error": False, "statements": [{"node": _selecting(expression)}]}
    with duckdb.connect() as engine:
        said = json.dumps(statement)
        row = engine.execute("SELECT json_deserialize_sql(?::JSON)", [said]).fetchone()
    return str(row[0] if row else "").removeprefix("SELECT ")


@lru_cache(maxsize=1)
def _empty_select() -> Node:
    return _parsed("SELECT 1", "1")


def _selecting(expression: Node) -> Node:
    return {**_empty_select(), "select_list": [expression]}


def _references(node: Any) -> Iterator[tuple[str, ...]]:
    if isinstance(node, dict):
        if node.get("class") == "COLUMN_REF":
            yield tuple(name.lower() for name in node["column_names"])
        for child in node.values():
            yield from _references(child)
    elif isinstance(node, list):
        for child in node:
            yield from _references(child)
