"""What SQLAlchemy asks about a lake: the reflection methods of the dialect.

Every question about tables is answered for many tables at once from one reading of the
catalog, which an :class:`Inspector` keeps; the question about one table is the same with
one name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import exc
from sqlalchemy.engine import Connection, reflection
from sqlalchemy.engine.reflection import ObjectKind, ObjectScope, ReflectionDefaults
from sqlalchemy.sql.compiler import IdentifierPreparer

from sqlalchemy_ducklake.dialect.reflection import (
    catalog,
    descriptions,
    engine,
    layouts,
    queries,
)
from sqlalchemy_ducklake.dialect.reflection.catalog import Listing
from sqlalchemy_ducklake.dialect.reflection.found import Found, Place
from sqlalchemy_ducklake.dialect.reflection.layouts import FoundLayout
from sqlalchemy_ducklake.dialect.reflection.macros import (
    MacroInspector,
    ReflectedMacro,
    described_macro,
)
from sqlalchemy_ducklake.dialect.reflection.question import Question
from sqlalchemy_ducklake.errors import MalformedTag, StaleConstraint
from sqlalchemy_ducklake.lake.config import DEFAULT_ALIAS
from sqlalchemy_ducklake.merge.staging import is_own

_Key = tuple[str | None, str]
_ANY = {"scope": ObjectScope.ANY, "kind": ObjectKind.ANY}


class Reflection:
    """The reflection of a dialect, to be mixed in before its base."""

    inspector = MacroInspector
    alias: str
    # The database of the metadata tables.  A lake that is attached as of a snapshot may share
    # that of another; unless it is said which, the engine itself is asked about such a lake.
    metadata_catalog: str | None = None
    metadata_schema: str | None
    default_schema_name: str | None
    identifier_preparer: IdentifierPreparer

    @reflection.cache
    def has_table(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> bool:
        """Tell whether there is a table or view, temporary or not, of this name."""
        place = self._place(connection, schema)
        if not place.live and catalog.listing(connection, place, [table_name]).tables:
            return True
        return engine.is_there(connection, place, table_name, temporary=schema is None)

    @reflection.cache
    def has_schema(self, connection: Connection, schema_name: str, **kw: Any) -> bool:
        """Tell whether there is a schema of this name."""
        names = self.get_schema_names(connection, **kw)
        return str.lower(schema_name) in map(str.lower, names)

    def has_sequence(self, *_: Any, **__: Any) -> bool:
        """Say no: a lake has no sequences."""
        return False

    @reflection.cache
    def get_schema_names(self, connection: Connection, **_: Any) -> list[str]:
        """Return the names of all schemas."""
        return engine.schema_names(connection, self._place(connection, None))

    @reflection.cache
    def get_table_names(
        self, connection: Connection, schema: str | None = None, **kw: Any
    ) -> list[str]:
        """Return the names of the tables of a schema."""
        place = self._place(connection, schema)
        if place.live:
            return engine.table_names(connection, place.lake, place.schema, None)
        listed = self._listing(connection, place=place, names=None, **kw)
        return [table.name for table in listed.tables]

    @reflection.cache
    def get_view_names(
        self, connection: Connection, schema: str | None = None, **_: Any
    ) -> list[str]:
        """Return the names of the views of a schema."""
        place = self._place(connection, schema)
        return engine.view_names(connection, place.lake, place.schema)

    @reflection.cache
    def get_macros(
        self, connection: Connection, schema: str | None = None, **_: Any
    ) -> list[ReflectedMacro]:
        """Return the macros of a schema."""
        place = self._place(connection, schema)
        return [described_macro(row) for row in engine.macros(connection, place)]

    @reflection.cache
    def get_temp_table_names(
        self, connection: Connection, schema: str | None = None, **_: Any
    ) -> list[str]:
        """Return the names of the temporary tables of this connection."""
        found = [] if schema else engine.temporary_table_names(connection)
        return [name for name in found if not is_own(name)]

    @reflection.cache
    def get_temp_view_names(
        self, connection: Connection, schema: str | None = None, **_: Any
    ) -> list[str]:
        """Return the names of the temporary views of this connection."""
        found = [] if schema else engine.view_names(connection, engine.TEMPORARY, "main")
        return [name for name in found if not is_own(name)]

    def get_materialized_view_names(self, *_: Any, **__: Any) -> list[str]:
        """Return nothing: a lake has no materialized views."""
        return []

    def get_sequence_names(self, *_: Any, **__: Any) -> list[str]:
        """Return nothing: a lake has no sequences."""
        return []

    @reflection.cache
    def get_view_definition(
        self, connection: Connection, view_name: str, schema: str | None = None, **kw: Any
    ) -> str:
        """Return the SELECT of a view."""
        question = Question(schema, (view_name,), ObjectScope.ANY, ObjectKind.VIEW)
        for found in self._found(connection, question, **kw).values():
            if found.definition is not None:
                return found.definition
        raise _no_such_table(view_name, schema)

    def get_multi_columns(self, connection: Connection, **kw: Any) -> Iterator[Any]:
        """Return the columns of many tables."""
        return self._describe(connection, descriptions.columns, kw)

    def get_multi_pk_constraint(self, connection: Connection, **kw: Any) -> Iterator[Any]:
        """Return the primary keys of many tables."""
        return self._describe(connection, descriptions.primary_key, kw)

    def get_multi_unique_constraints(self, connection: Connection, **kw: Any) -> Iterator[Any]:
        """Return the unique constraints of many tables."""
        return self._describe(connection, descriptions.unique_constraints, kw)

    def get_multi_foreign_keys(self, connection: Connection, **kw: Any) -> Iterator[Any]:
        """Return the foreign keys of many tables."""
        schema, default = kw.get("schema"), self.default_schema_name
        return self._describe(
            connection, lambda one: descriptions.foreign_keys(one, schema, default), kw
        )

    def get_multi_check_constraints(self, connection: Connection, **kw: Any) -> Iterator[Any]:
        """Return the check constraints of many tables."""
        return self._describe(connection, descriptions.check_constraints, kw)

    def get_multi_indexes(self, connection: Connection, **kw: Any) -> Iterator[Any]:
        """Return the declared indexes of many tables."""
        return self._describe(connection, descriptions.indexes, kw)

    def get_multi_table_comment(self, connection: Connection, **kw: Any) -> Iterator[Any]:
        """Return the users' comments on many tables."""
        return self._describe(connection, descriptions.table_comment, kw)

    def get_multi_table_options(self, connection: Connection, **kw: Any) -> Iterator[Any]:
        """Return how many tables are laid out, as their arguments say it."""
        question = Question.of({**kw})
        cache = kw.get("info_cache")
        laid_out = self.layouts_of(connection, question.schema, question.names, cache)

        def describe(one: Found) -> Any:
            found = None if one.is_view or one.temporary else laid_out.get(one.name)
            return found.layout.described() if found else ReflectionDefaults.table_options()

        return self._describe(connection, describe, kw)

    def get_columns(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        """Return the columns of one table."""
        return _single(self.get_multi_columns, connection, table_name, schema, kw)

    def get_pk_constraint(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        """Return the primary key of one table."""
        return _single(self.get_multi_pk_constraint, connection, table_name, schema, kw)

    def get_unique_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        """Return the unique constraints of one table."""
        return _single(self.get_multi_unique_constraints, connection, table_name, schema, kw)

    def get_foreign_keys(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        """Return the foreign keys of one table."""
        return _single(self.get_multi_foreign_keys, connection, table_name, schema, kw)

    def get_check_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        """Return the check constraints of one table."""
        return _single(self.get_multi_check_constraints, connection, table_name, schema, kw)

    def get_indexes(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        """Return the declared indexes of one table."""
        return _single(self.get_multi_indexes, connection, table_name, schema, kw)

    def get_table_comment(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        """Return the user's comment on one table."""
        return _single(self.get_multi_table_comment, connection, table_name, schema, kw)

    def get_table_options(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        """Return the options of one table."""
        return _single(self.get_multi_table_options, connection, table_name, schema, kw)

    def _place(self, connection: Connection, schema: str | None) -> Place:
        quote = self.identifier_preparer.quote_identifier
        database = self.metadata_catalog or f"__ducklake_metadata_{self.alias}"
        parts = (database, self.metadata_schema) if self.metadata_schema else (database,)
        return Place(
            self.alias,
            schema or self.default_schema_name or "main",
            queries.MetadataPlace(".".join(map(quote, parts))),
            self._hides_metadata() or _changed_catalog(connection),
        )

    def layouts_of(
        self,
        connection: Connection,
        schema: str | None,
        names: Sequence[str] | None,
        info_cache: Any = None,
    ) -> Mapping[str, FoundLayout]:
        """Return how tables are laid out, as far as they are committed, by their names."""
        if self._hides_metadata():
            return {}
        place = self._place(connection, schema)
        listed = self._listing(connection, place=place, names=names, info_cache=info_cache)
        return layouts.read(connection, listed)

    def _hides_metadata(self) -> bool:
        return self.metadata_catalog is None and self.alias != DEFAULT_ALIAS

    def _describe(
        self, connection: Connection, describe: Callable[[Found], Any], kw: dict[str, Any]
    ) -> Iterator[tuple[_Key, Any]]:
        """Describe each object that is asked for; set aside those that cannot be read."""
        question = Question.of(kw)
        unreflectable = kw.get("unreflectable")
        for key, found in self._found(connection, question, **kw).items():
            try:
                yield key, describe(found)
            except (MalformedTag, StaleConstraint) as error:
                refusal = exc.UnreflectableTableError(str(error))
                if unreflectable is None:
                    raise refusal from error
                refusal.__cause__ = error
                unreflectable.setdefault(key, refusal)

    def _found(
        self, connection: Connection, question: Question, **kw: Any
    ) -> dict[_Key, Found]:
        """Read what is asked for, under the names that it was asked by."""
        asked = {str.lower(name): name for name in question.names or ()}
        cache = kw.get("info_cache")
        found: list[Found] = []
        if ObjectScope.DEFAULT in question.scope:
            found += self._stored(connection, question, cache)
        # Last, because a temporary table hides a table of the same name.
        if question.needs_temporary(connection, len(found)):
            found += self._temporary(connection, names=question.names, info_cache=cache)
        return {
            (question.schema, asked.get(one.name.lower(), one.name)): one
            for one in found
            if question.wants(one)
        }

    def _stored(
        self, connection: Connection, question: Question, cache: Any
    ) -> Iterable[Found]:
        place, names = self._place(connection, question.schema), question.names
        found: list[Found] = []
        if ObjectKind.TABLE in question.kind:
            found = self._tables(connection, place=place, names=names, info_cache=cache)
        # A table and a view cannot share a name, so there may be nothing left to look for.
        if ObjectKind.VIEW in question.kind and (names is None or len(found) < len(names)):
            views = self._views(
                connection, place.lake, place.schema, names=names, info_cache=cache
            )
            found = [*found, *views]
        return found

    @reflection.cache
    def _listing(
        self, connection: Connection, *, place: Place, names: Sequence[str] | None, **_: Any
    ) -> Listing:
        return catalog.listing(connection, place, names)

    @reflection.cache
    def _tables(
        self, connection: Connection, *, place: Place, names: Sequence[str] | None, **kw: Any
    ) -> list[Found]:
        if place.live:
            return engine.tables(connection, place.lake, place.schema, names)
        listed = self._listing(connection, place=place, names=names, **kw)
        return catalog.tables(connection, listed)

    @reflection.cache
    def _temporary(
        self, connection: Connection, *, names: Sequence[str] | None, **_: Any
    ) -> list[Found]:
        return engine.temporary(connection, names)

    @reflection.cache
    def _views(
        self,
        connection: Connection,
        database: str,
        schema: str,
        *,
        names: Sequence[str] | None,
        **_: Any,
    ) -> list[Found]:
        return engine.views(connection, database, schema, names)


def _changed_catalog(connection: Connection) -> bool:
    """Tell whether the open transaction may have changed the catalog.

    A driver that does not say so is not trusted.
    """
    driver = connection.connection.dbapi_connection
    open_one = getattr(driver, "in_transaction", True)
    return bool(open_one and getattr(driver, "changed_catalog", True))


def _single(
    multi: Callable[..., Iterable[tuple[_Key, Any]]],
    connection: Connection,
    name: str,
    schema: str | None,
    kw: dict[str, Any],
) -> Any:
    """Answer for one table what is answered for many."""
    answers = multi(connection, schema=schema, filter_names=[name], **_ANY, **kw)
    for _, answer in answers:
        return answer
    raise _no_such_table(name, schema)


def _no_such_table(name: str, schema: str | None) -> exc.NoSuchTableError:
    return exc.NoSuchTableError(f"{schema}.{name}" if schema else name)
