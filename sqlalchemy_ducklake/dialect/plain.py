"""Which statements a write scope can keep in Python: single rows, named by their key.

That is what a Session's flush sends: INSERT of parameters, UPDATE and DELETE where the
primary key equals parameters.  Nothing of them has to be asked of the engine but which
keys there are.
"""

# What SQLAlchemy gives a compiler are private parts of its statements.
# ruff: noqa: SLF001

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa
from sqlalchemy import Column
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import BinaryExpression, BindParameter, BooleanClauseList
from sqlalchemy.sql.schema import Table

from sqlalchemy_ducklake.constructs.insert import OnConflict
from sqlalchemy_ducklake.dialect.compiler import DuckLakeCompiler
from sqlalchemy_ducklake.dialect.inserts import Given
from sqlalchemy_ducklake.driver.script import ENFORCE_ALL, Parameter
from sqlalchemy_ducklake.merge.checks import keys_of, primary_key_of
from sqlalchemy_ducklake.scope.kept import Act, Plain

#: A column that gets a value, and the name of the parameter that is this value, if one is.
Stored = tuple[Column[Any], str | None]

# Texts of which only the engine knows whether they are right.
_LATE = frozenset({"JSON", "TIME WITH TIME ZONE"})


class _NotPlain(Exception):
    """The statement is more than that."""


class PlainCompiler(DuckLakeCompiler):
    """Compiles statements, and remembers whether they are that plain."""

    _target: Any = None
    _stored: Sequence[Stored] = ()
    #: What an INSERT gives.
    given: Given | None = None

    @cached_property
    def plain(self) -> Plain | None:
        """What the statement does to single rows; None if it does anything else."""
        try:
            return _Look(self, self._target, self._stored).plain()
        except _NotPlain:
            return None

    def store_binds(self, columns: Iterable[Any]) -> None:
        """Remember also whether a parameter is all that is stored."""
        columns = list(columns)
        super().store_binds(columns)
        self._stored = [
            (column, self._only_bind(text, names)) for column, _, text, names in columns
        ]

    def _only_bind(self, text: str, names: Iterable[str] | None) -> str | None:
        name, *others = names or ("",)
        bind = None if others else self.binds.get(name)
        return None if bind is None or self.process(bind) != text else name

    def _given(self, state: Any, **kw: Any) -> Given:
        self.given = super()._given(state, **kw)
        return self.given


class _Look:
    """A look at a compiled statement."""

    def __init__(self, compiler: Any, target: Any, stored: Sequence[Stored]) -> None:
        self._compiler = compiler
        self._target = target
        self._values = stored
        self._places: Mapping[str, int] = compiler._places()
        self._statement = compiler.compile_state.statement

    def plain(self) -> Plain:
        compiler, target = self._compiler, self._target
        _require(isinstance(target, Table) and not compiler._computed(target))
        _require(compiler.positional and not compiler.sequential and not compiler.sources)
        plain = replace(
            self._insert() if compiler.isinsert else self._change(),
            stored=tuple(map(self._stored, self._values)),
            constrained=any(ENFORCE_ALL in step.when for step in compiler.script.steps),
            required=frozenset(each.name for each in target.c if not each.nullable),
        )
        _require(bool(plain.stored) or plain.act is Act.DELETE)
        return plain

    def _change(self) -> Plain:
        compiler = self._compiler
        _require(not (compiler.implicit_returning or compiler.returns(self._statement)))
        key = tuple(self._key_in_where())
        if compiler.isdelete:
            return Plain(Act.DELETE, key)
        assigned = {column.name for column, _ in self._values}
        _require(assigned == compiler._assigned)
        _require(not any(assigned.intersection(each.names) for each in keys_of(self._target)))
        return Plain(Act.UPDATE, key)

    def _insert(self) -> Plain:
        compiler, statement, given = self._compiler, self._statement, self._compiler.given
        conflict = statement._post_values_clause
        _require(not statement._multi_values and not given.defaults)
        key = primary_key_of(self._target)
        _require(all(each.primary for each in keys_of(self._target)))
        allocated, names = given.allocated, () if key is None else key.names
        if allocated is not None and allocated not in given.columns:
            _require(conflict is None)
            _require(names == (allocated.name,) and _counts_up(allocated))
            counted = self._parameter(allocated, 0)
            return Plain(
                Act.INSERT,
                counted=counted,
                last=_highest(counted.arrow),
                returned=self._returned(names),
                tells_last_id=bool(compiler.postfetch_lastrowid),
            )
        _require(allocated is None or not (allocated.identity and allocated.identity.always))
        stored = {column.name: self._stored((column, name)) for column, name in self._values}
        _require(all(name in stored for name in names))
        return Plain(
            Act.INSERT,
            tuple(stored[name] for name in names),
            returned=self._returned(names),
            assigned=None if conflict is None else self._assigned(conflict, names),
        )

    def _assigned(self, conflict: OnConflict, key: Sequence[str]) -> tuple[str, ...]:
        """Give the columns that ON CONFLICT assigns: what was to be inserted, as it is."""
        _require(conflict.where is None and conflict.constraint is None and bool(key))
        _require(set(conflict.index_elements or key) == set(key))
        if conflict.action == "nothing":
            return ()
        # What is equal in single precision Python does not know.
        types = {
            column.name: self._compiler._batch_type(column.type) for column, _ in self._values
        }
        stored = [name for name, (_, type_name) in types.items() if type_name != "FLOAT"]
        names = [name for name in types if name not in key]
        if conflict.assignments is not None:
            names = list(self._excluded(conflict.assignments, conflict.excluded))
        _require(set(names) <= set(stored) and not set(names) & set(key))
        return tuple(names)

    def _excluded(self, assignments: Mapping[str, Any], excluded: Any) -> Iterator[str]:
        """Give the columns that take the value that was to be inserted."""
        columns = self._target.c
        for name, value in assignments.items():
            _require(isinstance(value, Column) and value.table is excluded and name in columns)
            _require(value.name == columns[name].name)
            yield value.name

    def _returned(self, names: Sequence[str]) -> tuple[str, ...] | None:
        """Give the columns that are returned, of the key alone."""
        columns = self._compiler.implicit_returning or self._statement._returning
        if not columns:
            return None
        mine = (isinstance(each, Column) and each.table is self._target for each in columns)
        _require(all(mine) and all(each.name in names for each in columns))
        return tuple(each.name for each in columns)

    def _stored(self, stored: Stored) -> Parameter:
        """Give the parameter that is stored in a column, as it is."""
        column, name = stored
        _require(name is not None)
        return self._bound(column, self._compiler.binds[name])

    def _bound(self, column: Column[Any], bind: BindParameter[Any]) -> Parameter:
        compiler = self._compiler
        kind = bind.type.dialect_impl(compiler.dialect)
        name = compiler.bind_names.get(bind)
        _require(name in self._places and not kind._has_bind_expression)
        _require(compiler._batch_type(bind.type) == compiler._batch_type(column.type))
        return self._parameter(column, self._places[name])

    def _parameter(self, column: Column[Any], place: int) -> Parameter:
        arrow, type_name = self._compiler._batch_type(column.type)
        _require(arrow is not None and not pa.types.is_nested(arrow))
        _require(type_name not in _LATE and not getattr(column.type, "collation", None))
        return Parameter(place, "", column.name, arrow, type_name)

    def _key_in_where(self) -> Iterator[Parameter]:
        """Give the parameters that the primary key is to equal; there may be nothing else."""
        key = primary_key_of(self._target)
        found = list(map(self._pair, _conjuncts(self._statement._where_criteria)))
        pairs = dict(found)
        _require(key is not None and len(found) == len(pairs) == len(key.names))
        for name in () if key is None else key.names:
            _require(name in pairs)
            yield pairs[name]

    def _pair(self, criterion: Any) -> tuple[str, Parameter]:
        _require(isinstance(criterion, BinaryExpression) and criterion.operator is operators.eq)
        column, bind = criterion.left, criterion.right
        if isinstance(column, BindParameter):
            column, bind = bind, column
        _require(isinstance(column, Column) and column.table is self._target)
        _require(isinstance(bind, BindParameter) and not bind.expanding)
        return column.name, self._bound(column, bind)


def _conjuncts(criteria: Iterable[Any]) -> Iterator[Any]:
    for each in criteria:
        if isinstance(each, BooleanClauseList) and each.operator is operators.and_:
            yield from _conjuncts(each.clauses)
        else:
            yield each


def _counts_up(column: Column[Any]) -> bool:
    """Tell whether an integer key is counted from 1 by ones as far as its type goes."""
    identity = column.identity
    if identity is None:
        return True
    edges = (identity.minvalue, identity.maxvalue)
    return (
        edges == (None, None)
        and identity.start in (None, 1)
        and identity.increment in (None, 1)
    )


def _highest(kind: Any) -> int:
    """Give the highest number of an Arrow type."""
    _require(pa.types.is_signed_integer(kind))
    return int((1 << kind.bit_width - 1) - 1)


def _require(condition: bool) -> None:
    if not condition:
        raise _NotPlain
