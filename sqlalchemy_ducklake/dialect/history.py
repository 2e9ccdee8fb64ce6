"""Reading other snapshots: ``AT (…)`` in FROM, the change feed, and a whole statement.

The option ``ducklake_snapshot`` of an engine, connection or statement lets a SELECT read
all its tables and views at one snapshot.  It travels as a hint of the statement, so it is
part of the key of the compiled cache, and reaches what the ORM makes of the statement; for
what the ORM loads later it must be an option of the connection.

The engine refuses a snapshot that there is not by ending the transaction, and of several
with one time it takes the first.  So what a compiled statement reads is remembered, and
looked up in the catalog before it runs; a time becomes the number that it means.
"""

# What SQLAlchemy gives a compiler are private parts of its statements.
# ruff: noqa: SLF001

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, Connection, Engine, Select, bindparam, event, exc
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import BindParameter
from sqlalchemy.sql.selectable import CompoundSelect

from sqlalchemy_ducklake.constructs.history import AtSnapshot, TableChanges
from sqlalchemy_ducklake.driver import Connection as DriverConnection
from sqlalchemy_ducklake.errors import StatementRefused
from sqlalchemy_ducklake.lake.attach import literal, metadata_table_of
from sqlalchemy_ducklake.lake.changes import TableName
from sqlalchemy_ducklake.lake.history import first_from, require_table_at
from sqlalchemy_ducklake.lake.marks import table_label

#: The execution option that names the snapshot, or time, which a SELECT reads.
SNAPSHOT = "ducklake_snapshot"
_HINT = f"{SNAPSHOT}="

_CATALOG = "__ducklake_metadata_"

# A transaction either changes rows or compacts, so such a snapshot holds nothing else.
_COMPACTION = "^(rewrite_delete|merge_adjacent|compacted_table):"


@dataclass(frozen=True, slots=True)
class Dated:
    """A table that a statement reads at another snapshot than its transaction's.

    ``version`` is the parameter that says which; where it is the ``begins`` of a change
    feed, a time means the first snapshot from then on, not the last one up to then.
    """

    schema: str | None
    name: str
    version: BindParameter[Any]
    begins: bool = False


class HistoryCompiler(SQLCompiler):
    """Compiles what reads other snapshots."""

    _as_of: BindParameter[Any] | None = None
    _dated: tuple[Dated, ...] = ()

    @property
    def dated(self) -> tuple[Dated, ...]:
        """The tables that are read at other snapshots."""
        return self._dated

    def visit_ducklake_at(self, element: AtSnapshot, asfrom: bool = False, **kw: Any) -> str:
        """<table> AS <alias> AT (VERSION => <number>)."""
        text: str = super().visit_alias(element, asfrom=asfrom, **kw)
        return text + self._version(element.element, element.version) if asfrom else text

    def visit_ducklake_table_changes(
        self, element: TableChanges, asfrom: bool = False, **kw: Any
    ) -> str:
        """(FROM ducklake_table_changes(…) without what compaction did) AS <alias>."""
        del kw
        name = self.preparer.quote(element.name)
        if not asfrom:
            return name
        dialect: Any = self.dialect
        target = element.target
        self._note(target, element.first, begins=True)
        self._note(target, element.last)
        changes = metadata_table_of(
            dialect.metadata_catalog, dialect.metadata_schema, "ducklake_snapshot_changes"
        )
        names = [dialect.alias, target.schema or dialect.default_schema_name, target.name]
        bounds = [self.process(each) for each in (element.first, element.last)]
        arguments = ", ".join([*map(literal, names), *bounds])
        return (
            f"(SELECT * FROM ducklake_table_changes({arguments}) WHERE snapshot_id NOT IN "
            f"(SELECT snapshot_id FROM {changes} WHERE regexp_matches(changes_made, "
            f"{literal(_COMPACTION)}))) AS {name}"
        )

    def visit_table(self, table: Any, asfrom: bool = False, **kw: Any) -> str:  # type: ignore[override]
        """<table>, and in a statement that reads another snapshot AT (…)."""
        text: str = super().visit_table(table, asfrom=asfrom, **kw)
        # An alias of the table writes it behind its own name; that of a subquery does not.
        if asfrom and getattr(kw.get("enclosing_alias"), "element", None) is not table:
            text += self._at(table)
        return text

    def visit_alias(self, alias: Any, asfrom: bool = False, **kw: Any) -> str:  # type: ignore[override]
        """<table> AS <alias>, behind which the engine wants AT (…)."""
        text: str = super().visit_alias(alias, asfrom=asfrom, **kw)
        return text + self._at(alias.element) if asfrom else text

    def visit_select(self, select_stmt: Any, *args: Any, **kw: Any) -> str:
        """SELECT …, whose hint says if all of it reads another snapshot."""
        if self._as_of is None:
            self._as_of = _hinted(select_stmt)
        return str(super().visit_select(select_stmt, *args, **kw))

    def get_statement_hint_text(self, hint_texts: Any) -> str:
        """Leave our own hint out of the text."""
        return " ".join(text for text in hint_texts if not text.startswith(_HINT))

    def _at(self, table: Any) -> str:
        if self._as_of is None or getattr(table, "__visit_name__", "") != "table":
            return ""
        # Temporary tables have no past, and the catalog's own, for reflection, are it.
        catalog = _CATALOG in (table.schema or "")
        if catalog or "TEMPORARY" in getattr(table, "_prefixes", ()):
            return ""
        return self._version(table, self._as_of)

    def _version(self, table: Any, version: BindParameter[Any]) -> str:
        self._note(table, version)
        return f" AT (VERSION => {self.process(version)})"

    def _note(self, table: Any, version: BindParameter[Any], *, begins: bool = False) -> None:
        self._dated = (*self._dated, Dated(table.schema, table.name, version, begins))


def numbers_for(
    own: DriverConnection, compiled: Any, values: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, int]:
    """Give the numbers of the snapshots that a statement reads, by name of the parameter.

    ``values`` are its parameters by name, ``options`` its execution options.  Raises
    UnknownSnapshot and TableNotThen for what it cannot read.
    """
    translated = options.get("schema_translate_map") or {}
    default = compiled.dialect.default_schema_name
    numbers, feeds = {}, list[TableName]()
    for each in compiled.dated:
        parameter = compiled.bind_names[each.version]
        table = (translated.get(each.schema, each.schema) or default, each.name)
        asked = (*own.reading(), table, values[parameter])
        find = first_from if each.begins else require_table_at
        numbers[parameter] = find(*asked)
        feeds += [table] if each.begins else []
    _refuse_own_changes(own, feeds)
    return numbers


def _refuse_own_changes(own: DriverConnection, feeds: Sequence[TableName]) -> None:
    """Refuse a feed that would show a part of the changes, without a word (1.5.5)."""
    for table in feeds:
        if own.work.may_have_changed(table):
            raise StatementRefused(
                f"table_changes({table_label(*table)})",
                "the engine cannot read the changes of a table that this transaction changed "
                "itself; commit first, or ask on another connection",
            )


def listen(engine: Engine) -> None:
    """Let statements of an engine heed the option."""
    event.listen(engine, "before_execute", _with_hint, retval=True)


def _with_hint(
    connection: Connection,
    statement: Any,
    multiparams: Any,
    params: Any,
    execution_options: Mapping[str, Any],
) -> tuple[Any, Any, Any]:
    del connection
    version = execution_options.get(SNAPSHOT)
    if version is not None:
        statement = _hint(statement, _checked(version))
    return statement, multiparams, params


def _hint(statement: Any, version: int | datetime) -> Any:
    if isinstance(statement, Select):
        return statement.with_statement_hint(f"{_HINT}{version}", "ducklake")
    if isinstance(statement, CompoundSelect):
        changed = statement._generate()
        changed.selects = [_hint(each, version) for each in statement.selects]
        return changed
    raise exc.ArgumentError(
        f"{SNAPSHOT} lets a select() read another snapshot, not {type(statement).__name__}. "
        "Write AT (VERSION => …) into a text, or open the lake with snapshot= in its URL"
    )


def _checked(version: Any) -> int | datetime:
    if isinstance(version, datetime):
        return version.replace(tzinfo=version.tzinfo or UTC).astimezone(UTC)
    if isinstance(version, int) and not isinstance(version, bool) and version >= 0:
        return version
    raise exc.ArgumentError(
        f"{SNAPSHOT} is the number of a snapshot or a time, not {version!r}"
    )


def _hinted(select_stmt: Any) -> BindParameter[Any] | None:
    for _, text in select_stmt._statement_hints:
        if text.startswith(_HINT):
            value = text.removeprefix(_HINT)
            version = int(value) if value.isdigit() else datetime.fromisoformat(value)
            return bindparam(SNAPSHOT, version, type_=BigInteger(), unique=True)
    return None
