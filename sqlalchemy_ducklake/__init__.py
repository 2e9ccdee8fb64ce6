"""SQLAlchemy on a DuckLake: keys, upserts and migrations on a lakehouse.

    from sqlalchemy import create_engine
    engine = create_engine("ducklake:///lake.ducklake")

What SQLAlchemy has, it has here too; what a lake needs besides is in this module.  The
rooms, from the ground up:

    errors · compat                errors with data; the SQLAlchemy version
    keys · lake                    key tags; what it takes to open a lake
    constructs · driver            statements that users write; PEP 249
    merge                          plans: how a keyed write becomes steps
    scope                          small writes of a transaction, kept until it commits
    dialect                        SQLAlchemy meets DuckLake
    snapshots                      reading history: snapshots, versions, diff
    writer · maintenance           whole batches, files of any number; upkeep
    alembic · cli                  migrations; python -m sqlalchemy_ducklake
"""

from __future__ import annotations

from sqlalchemy_ducklake import errors
from sqlalchemy_ducklake.dialect.execution import merge_result
from sqlalchemy_ducklake.dialect.transactions import run_transaction
from sqlalchemy_ducklake.driver.commit import CommitInfo as Commit
from sqlalchemy_ducklake.maintenance import Policy, describe, maintain
from sqlalchemy_ducklake.merge import MergeResult
from sqlalchemy_ducklake.scope.options import WriteScope
from sqlalchemy_ducklake.writer import (
    Delete,
    Patch,
    Upsert,
    WriteOptions,
    add_files,
    begin_merge,
    restore,
    table_writer,
    undo_appends_since,
    write_table,
)

# Last, so that the names `merge` and `snapshots` are functions here, not packages.
# isort: split
from sqlalchemy_ducklake.constructs import (
    Batch,
    Insert,
    Merge,
    argument,
    asof_join,
    at_snapshot,
    at_timestamp,
    delete_keys,
    explain,
    insert,
    merge,
    merge_action,
    patch,
    qualify,
    star,
    table_changes,
    upsert,
)
from sqlalchemy_ducklake.snapshots import diff, snapshots, versions

__all__ = [
    "Batch",
    "Commit",
    "Delete",
    "Insert",
    "Merge",
    "MergeResult",
    "Patch",
    "Policy",
    "Upsert",
    "WriteOptions",
    "WriteScope",
    "add_files",
    "argument",
    "asof_join",
    "at_snapshot",
    "at_timestamp",
    "begin_merge",
    "delete_keys",
    "describe",
    "diff",
    "errors",
    "explain",
    "insert",
    "maintain",
    "merge",
    "merge_action",
    "merge_result",
    "patch",
    "qualify",
    "restore",
    "run_transaction",
    "snapshots",
    "star",
    "table_changes",
    "table_writer",
    "undo_appends_since",
    "upsert",
    "versions",
    "write_table",
]

__version__ = "0.1.0"
