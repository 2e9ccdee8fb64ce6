"""What an SQL text reads, told by the engine's own parser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import duckdb
from sqlalchemy import exc


@lru_cache(maxsize=1024)
def columns_in(text: str) -> frozenset[str]:
    """Return the names that may be columns in an expression, in lower case.

    Of a dotted name every part may be the column.  Raises CompileError for a text that
    is no expression.
    """
    with duckdb.connect() as engine:
        row = engine.execute("SELECT json_serialize_sql(?)", [f"SELECT {text}"]).fetchone()
    parsed = json.loads(row[0]) if row else {"error": True}
    if parsed["error"]:
        reason = parsed.get("error_message", "")
        raise exc.CompileError(f"{text!r} is no SQL expression: {reason}")
    return frozenset(name.lower() for name in _names(parsed))


def _names(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if node.get("class") == "COLUMN_REF":
            yield from node["column_names"]
        for child in node.values():
            yield from _names(child)
    elif isinstance(node, list):
        for child in node:
            yield from _names(child)
