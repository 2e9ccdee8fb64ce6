"""Writing whole batches: from a loop of changes, or a table at once.

    merging.py   begin_merge: changes come in small pieces, one merge applies them
    tables.py    write_table: append, replace or merge a table of rows
    streaming.py table_writer: batches of any number into files of one snapshot
    adopting.py  add_files: Parquet files that are there already
    restoring.py restore, undo_appends_since: the past again, as a new snapshot

They are made of the statements that every user has.
"""

from __future__ import annotations

from sqlalchemy_ducklake.writer.adopting import add_files
from sqlalchemy_ducklake.writer.merging import Delete, Merging, Patch, Upsert, begin_merge
from sqlalchemy_ducklake.writer.options import WriteOptions
from sqlalchemy_ducklake.writer.restoring import restore, undo_appends_since
from sqlalchemy_ducklake.writer.results import WriteResult
from sqlalchemy_ducklake.writer.streaming import TableWriter, table_writer
from sqlalchemy_ducklake.writer.tables import write_table

__all__ = [
    "Delete",
    "Merging",
    "Patch",
    "TableWriter",
    "Upsert",
    "WriteOptions",
    "WriteResult",
    "add_files",
    "begin_merge",
    "restore",
    "table_writer",
    "undo_appends_since",
    "write_table",
]
