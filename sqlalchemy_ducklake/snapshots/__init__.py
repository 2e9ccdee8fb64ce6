"""Reading the history of a lake.

    read.py     snapshots, and the versions of one table: metadata only, a page at a time
    compare.py  how the rows of a table differ between two snapshots

What stands in FROM (``at_snapshot``, ``table_changes``) is in ``constructs/history.py``;
what writes the past again (``restore``, ``undo_appends_since``) is in ``writer/``.
"""

from __future__ import annotations

from sqlalchemy_ducklake.snapshots.compare import TableDiff, diff
from sqlalchemy_ducklake.snapshots.read import Snapshot, TableVersion, snapshots, versions

__all__ = ["Snapshot", "TableDiff", "TableVersion", "diff", "snapshots", "versions"]
