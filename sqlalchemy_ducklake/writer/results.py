"""What a writer did, as far as it is known yet."""

from __future__ import annotations

import contextlib

from sqlalchemy_ducklake.driver import Connection
from sqlalchemy_ducklake.lake.changes import TableName
from sqlalchemy_ducklake.lake.written import Written, written


class WriteResult:
    """What a writer did to a table.

    ``rows`` were written and ``deleted`` rows deleted.  The other attributes are those
    that were really committed: None, or no files, before the commit.
    """

    def __init__(self, own: Connection, table: TableName, rows: int, deleted: int) -> None:
        self.rows = rows
        self.deleted = deleted
        self._own = own
        self._table = table
        self._commit_id = own.work.commit_id
        self._found: Written | None = None

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that holds the rows; None before the commit, or if nothing changed."""
        own = self._own
        if self._found is not None:
            return self._found.snapshot
        if own.closed or own.last_commit_id != self._commit_id:
            return None
        return own.last_snapshot

    @property
    def table_id(self) -> int | None:
        """The number that the lake has for the table."""
        return None if self._written is None else self._written.table_id

    @property
    def schema_id(self) -> int | None:
        """The number that the lake has for the schema of the table."""
        return None if self._written is None else self._written.schema_id

    @property
    def files(self) -> tuple[str, ...]:
        """The data files that were added; few rows may be in the catalog instead."""
        return () if self._written is None else self._written.files

    def __repr__(self) -> str:
        return f"WriteResult(rows={self.rows}, deleted={self.deleted})"

    @property
    def _written(self) -> Written | None:
        snapshot = self.snapshot_id
        if self._found is None and snapshot is not None:
            duck, config = self._own.duck, self._own.config
            with contextlib.closing(duck.cursor()) as cursor:
                self._found = written(cursor, config, self._table, snapshot)
        return self._found
