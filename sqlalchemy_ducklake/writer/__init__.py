"""Writing whole batches: from a loop of changes, or a table at once.

    merging.py   begin_merge: changes come in small pieces, one merge applies them
    tables.py    write_table: append, replace or merge a table of rows
    restoring.py restore, undo_appends_since: the past again, as a new snapshot

All are made of the statements that every user has; they hold no SQL of their own.
"""

from __future__ import annotations

from sqlalchemy_ducklake.writer.merging import Delete, Merging, Upsert, begin_merge
from sqlalchemy_ducklake.writer.restoring import restore, undo_appends_since
from sqlalchemy_ducklake.writer.tables import write_table

__all__ = [
    "Delete",
    "Merging",
    "Upsert",
    "begin_merge",
    "restore",
    "undo_appends_since",
    "write_table",
]
