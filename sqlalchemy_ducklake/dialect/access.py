"""Fields of a STRUCT, values of a MAP and parts of a VARIANT in expressions.

``t.c.point["x"]`` has the type of the field, ``t.c.tags["k"]`` that of the map's values,
and NULL where there is none; they nest, also with ``ARRAY``.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import exc, literal_column
from sqlalchemy.sql import coercions, operators, roles
from sqlalchemy.sql.sqltypes import Indexable, Integer, String
from sqlalchemy.sql.type_api import TypeEngine

from sqlalchemy_ducklake.dialect.values import text_literal

_Access = tuple[Any, Any, TypeEngine[Any]]


class FieldAccess(Indexable.Comparator[Any]):
    """``point["x"]``: the field is part of the statement, as a column is."""

    type: Any

    def _setup_getitem(self, index: Any) -> _Access:
        for name, kind in self.type.fields:
            if name == index:
                return operators.getitem, literal_column(text_literal(name), String()), kind
        fields = ", ".join(name for name, _ in self.type.fields)
        raise exc.ArgumentError(f"the STRUCT has no field {index!r}; its fields are {fields}")


class ValueAccess(Indexable.Comparator[Any]):
    """``tags["k"]``: the key is a parameter."""

    type: Any

    def _setup_getitem(self, index: Any) -> _Access:
        key = coercions.expect(
            roles.BinaryElementRole,
            index,
            expr=self.expr,
            operator=operators.getitem,
            bindparam_type=self.type.key_type,
        )
        return operators.getitem, key, self.type.value_type


class PartAccess(Indexable.Comparator[Any]):
    """``v["x"]`` or ``v[1]``: what is found is a VARIANT again; elements count from 1."""

    def _setup_getitem(self, index: Any) -> _Access:
        if isinstance(index, int):
            return operators.getitem, literal_column(str(index), Integer()), self.type
        return operators.getitem, literal_column(text_literal(index), String()), self.type
