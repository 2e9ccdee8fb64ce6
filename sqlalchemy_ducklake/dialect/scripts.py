"""Data changes that are more than one statement to the engine.

A statement stays what SQLAlchemy makes of it where the engine can run that.  Where it
cannot (keys to check, RETURNING, ON CONFLICT, many parameter sets) the compiled string is
a ``;``-separated script, and ``compiled.script`` tells the driver what each step is for.
Everything that SQLAlchemy does to a compiled string afterwards (numbering of parameters,
expanding IN, schema translation) so reaches all steps at once.

With many parameter sets the parameters are columns of the batch; the driver makes it.
``inserts.py`` and ``changes.py`` hold the statements, this file what they share.
"""

# What SQLAlchemy gives a compiler are private parts of its statements.
# ruff: noqa: SLF001

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeVar, cast

import pyarrow as pa
from sqlalchemy import Column
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ClauseElement
from sqlalchemy.sql.schema import Table
from sqlalchemy.sql.selectable import FromClause
from sqlalchemy.sql.type_api import TypeEngine

from sqlalchemy_ducklake.constructs.source import Batch
from sqlalchemy_ducklake.dialect import values
from sqlalchemy_ducklake.dialect.arrowtypes import arrow_type
from sqlalchemy_ducklake.dialect.computed import ComputedCompiler
from sqlalchemy_ducklake.dialect.constraints import ConstraintCompiler
from sqlalchemy_ducklake.dialect.returning import ReturningCompiler
from sqlalchemy_ducklake.dialect.shell import TextStep, straight
from sqlalchemy_ducklake.dialect.types import duckdb_type
from sqlalchemy_ducklake.driver.script import Parameter, Script, Source, Step
from sqlalchemy_ducklake.merge import staging
from sqlalchemy_ducklake.merge.checks import primary_key_of
from sqlalchemy_ducklake.merge.steps import PlannedStep

_Kind = TypeVar("_Kind", bound=SQLCompiler)


class ScriptCompiler(ComputedCompiler, ConstraintCompiler, ReturningCompiler):
    """What the compilation of a script shares, whatever statement it is made of."""

    _steps: tuple[Step, ...] | None = None
    _rowcount: tuple[str, ...] = ()
    _guarded = False
    # What the snapshot will say of the script: arguments of Script.
    _about: Mapping[str, Any] = MappingProxyType({})
    #: Whether every statement is written in steps, also one that the engine could run.
    always_in_steps = False
    #: The statement compiled for a write scope, if that was asked: a script, or None.
    staged_form: tuple[Any] | None = None
    #: The statement compiled for keys that its table does not declare, by their columns.
    keyed_forms: Mapping[tuple[str, ...], Any] = MappingProxyType({})
    #: Whether parameter sets have to act one after another.
    sequential = False
    _in_batch = False
    #: What says that values are written out, for all that is compiled; None at first.
    written_out: Mapping[str, Any] | None = None
    # Parameters that are tables: the name in the steps, by the name of the parameter.
    _source_names: Mapping[str, str] = MappingProxyType({})
    # The table whose columns give the types of such data.
    source_target: FromClause | None = None
    # Parameters by name: their place in the batch is their place here.
    _batch_binds: dict[str, TypeEngine[Any] | None]
    # Parameters that are stored, by name: the column that takes them.
    _stored_binds: dict[str, Any]

    def compiled_as(self, kind: type[_Kind], statement: Any) -> _Kind:
        """Compile a statement for the parameters that this one takes, which is its copy."""
        return kind(
            self.dialect,
            statement,
            cache_key=self.cache_key,
            column_keys=self.column_keys,
            for_executemany=self.for_executemany,
            schema_translate_map=self.schema_translate_map,
        )

    @cached_property
    def script(self) -> Script | None:
        """What the steps of the compiled string are for; None if it is one statement."""
        if self._steps is None:
            return None
        return Script(
            self._steps,
            batch=staging.BATCH if self.for_executemany else None,
            sequence=staging.SEQUENCE,
            parameters=tuple(self._parameters()),
            rowcount=self._rowcount,
            guarded=self._guarded,
            sources=self.sources,
            sequential=self.sequential,
            **self._about,
        )

    def process(self, obj: Any, **kw: Any) -> str:
        """Compile an element; the first is the statement itself."""
        if self.written_out is None:
            self.written_out = {"literal_binds": True} if kw.get("literal_binds") else {}
        return str(super().process(obj, **kw))

    def visit_ducklake_batch(self, batch: Batch, **kw: Any) -> str:
        """Write data of the program as the table that the driver registers it as."""
        self.process(batch.data)
        name = self.bind_names[batch.data]
        names = self._source_names = {**self._source_names}
        table = self.preparer.quote(names.setdefault(name, staging.batch_name(len(names))))
        return f"{table} AS {self.preparer.quote(batch.name)}" if kw.get("asfrom") else table

    def bindparam_string(
        self,
        name: str,
        post_compile: bool = False,
        *args: Any,
        **kw: Any,
    ) -> str:
        """Write a parameter: a placeholder, or a column of the batch."""
        bind_type = kw.get("bindparam_type")
        text = super().bindparam_string(name, post_compile, *args, **kw)
        if post_compile:
            return text
        if not (self.for_executemany and self._in_batch):
            cast = None if bind_type is None else self.bind_cast(bind_type)
            return text if cast is None else f"CAST({text} AS {cast})"
        self._batch_binds.setdefault(name, bind_type)
        column = f"{self.batch_name}.{_batch_column(list(self._batch_binds).index(name))}"
        arrow, type_name = self._batch_type(bind_type)
        if arrow is not None or not type_name:
            return column
        return f"CAST({column} AS {type_name})"

    def bind_cast(self, bind_type: TypeEngine[Any]) -> str | None:
        """Name the type that a parameter is cast to; the dialect's compiler knows."""
        raise NotImplementedError

    @property
    def batch_name(self) -> str:
        """The name of the batch, quoted."""
        return self.preparer.quote(staging.BATCH)

    def tables(self, tables: Iterable[FromClause], hints: Any = None, **kw: Any) -> str:
        """Write the tables of a FROM."""
        kw["asfrom"] = True
        texts = [each._compiler_dispatch(self, fromhints=hints, **kw) for each in tables]
        return ", ".join(texts)

    def expression(self, element: ClauseElement, *within: FromClause) -> str:
        """Compile an expression of a plan, which knows nothing of the user's statement.

        Its subqueries may speak of the tables that it stands ``within``.
        """
        with self.only_within(*within):
            return self.process(element, **self.written_out or {})

    @contextlib.contextmanager
    def only_within(self, *tables: FromClause) -> Iterator[None]:
        """Let subqueries correlate to these tables, and to no others."""
        stack, froms = self.stack, set(tables)
        selectable = self.statement
        entry: Any = {"correlate_froms": froms, "asfrom_froms": froms, "selectable": selectable}
        self.stack = [entry]
        try:
            yield
        finally:
            self.stack = stack

    def planned(self, steps: Iterable[PlannedStep]) -> list[TextStep]:
        """Compile the steps of a plan."""
        return [(self.expression(each.statement), each.step) for each in steps]

    def finish_script(
        self, steps: Sequence[TextStep], *, rowcount: Sequence[str], guarded: bool = True
    ) -> str:
        """Join the steps into the compiled string, and remember what they are for."""
        if self.written_out:
            steps = list(straight(steps, cast("Any", self.dialect).enforce_constraints))
        self._steps = tuple(step for _, step in steps)
        self._rowcount, self._guarded = tuple(rowcount), guarded
        return ";\n".join(text for text, _ in steps)

    def compile_again(self) -> None:
        """Allow that SQLAlchemy works out the values of the statement a second time.

        It takes its own parameters of the same name for a mistake.
        """
        for name, bind in list(self.binds.items()):
            if bind._is_crud:
                del self.binds[name]
                self.bind_names.pop(bind, None)

    def writes(self, target: Any, mode: str, *, keeps_key: bool = False) -> None:
        """Remember what the snapshot is to say of the script: table, mode and key."""
        key = primary_key_of(target)
        self._about = {
            "table": (getattr(target, "schema", None) or "", target.name),
            "mode": mode,
            "validated_key": () if key is None else key.names,
            "keeps_key": keeps_key,
        }

    @contextlib.contextmanager
    def data_change(self, state: Any, *tables: FromClause) -> Iterator[None]:
        """Set up what SQLAlchemy's own visit methods set up around a statement."""
        self.dml_compile_state = self.dml_compile_state or state
        self.compile_state = self.compile_state or state
        self._batch_binds, self._stored_binds, self._in_batch = {}, {}, True
        froms = set(tables)
        entry: Any = {
            "correlate_froms": froms,
            "asfrom_froms": froms,
            # The ORM's own states keep no statement; its SELECTs ask for the options of one.
            "selectable": self.statement if state.statement is None else state.statement,
        }
        self.stack.append(entry)
        try:
            yield
        finally:
            self.stack.pop(-1)
            self._in_batch = False

    def store_binds(self, columns: Iterable[Any]) -> None:
        """Remember which parameters are stored in which column, from crud's tuples."""
        for column, _, _, names in columns:
            self._stored_binds.update(dict.fromkeys(names or (), column))

    def server_defaults(
        self, target: FromClause, columns: Sequence[Any]
    ) -> list[tuple[Column[Any], str]]:
        """Evaluate defaults while staging, so that they are stored and returned alike."""
        if not isinstance(target, Table):
            return []
        given = {column.name for column in columns}
        ddl = cast("Any", self.dialect.ddl_compiler)(self.dialect, None)
        texts = {
            column: ddl.get_column_default_string(column)
            for column in target.c
            if column.server_default is not None and column.name not in given
        }
        return [(column, text) for column, text in texts.items() if text is not None]

    def common_table_expressions(self) -> str:
        """Write the WITH of what was compiled last, for the step that reads from it."""
        if not self.ctes:
            return ""
        text = str(self._render_cte_clause(nesting_level=None))
        for known in (self.ctes, self.ctes_by_level_name, self.level_name_by_cte):
            known.clear()
        return text

    @staticmethod
    def returns(statement: Any) -> bool:
        """Tell whether a statement may want rows back."""
        return bool(statement._returning or statement._return_defaults)

    def _batch_type(self, bind_type: TypeEngine[Any] | None) -> tuple[pa.DataType | None, str]:
        if bind_type is None or bind_type._isnull:
            return None, ""
        name = duckdb_type(bind_type.dialect_impl(self.dialect), self.dialect)
        return arrow_type(name), name

    def _parameters(self) -> Iterator[Parameter]:
        """Give the parameters of the batch, or of one set those that are stored."""
        places = self._places()
        if self.for_executemany:
            for number, (name, bind_type) in enumerate(self._batch_binds.items()):
                label = getattr(self._stored_binds.get(name), "name", name)
                arrow, type_name = self._batch_type(bind_type)
                yield Parameter(places[name], _batch_column(number), label, arrow, type_name)
            return
        for name, column in self._stored_binds.items():
            if name in places:
                arrow, type_name = self._batch_type(column.type)
                yield Parameter(places[name], "", column.name, arrow, type_name)

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """Give the parameters that are tables, with the types that they are fitted to."""
        if not self._source_names:
            return ()
        places = self._places()
        columns = [] if self.source_target is None else list(self.source_target.c)
        wanted = tuple(
            Parameter(
                0,
                each.name,
                each.name,
                *self._batch_type(each.type),
                convert=values.binding(each.type, self.dialect),
            )
            for each in columns
        )
        return tuple(
            Source(places[bind], name, wanted) for bind, name in self._source_names.items()
        )

    def _places(self) -> dict[str, int]:
        """Give each parameter's place in a set; expanding ones come behind all others."""
        late = {self.bind_names[bind] for bind in self.post_compile_params}
        late |= {self.bind_names[bind] for bind in self.literal_execute_params}
        names = [name for name in self.positiontup or () if name not in late]
        return {name: place for place, name in enumerate(names)}


def _batch_column(number: int) -> str:
    # Numbered, not named: the engine takes names that differ in case for the same.
    return f"p{number}"
