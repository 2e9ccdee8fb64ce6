"""Keeping a lake fit: few large files, no files that nobody needs.

    steps.py     each thing that can be done, alone and safely
    policy.py    maintain: all of them, as a policy says
    patience.py  waiting for a catalog that is busy
    report.py    describe: how a table is laid out, and what upkeep would do
    picture.py   the ranges of its files as a picture

Whatever compacts commits by compare-and-swap: with DuckLake's own retry a compaction
brings back rows that somebody deletes meanwhile (measured on 1.5.5).  Other writers of this
package never lose; a writer of another program that leaves its small deletes to the
catalog can, if it commits after a compaction that it did not see.
"""

from __future__ import annotations

from sqlalchemy_ducklake.maintenance.policy import Policy, Progress, maintain
from sqlalchemy_ducklake.maintenance.report import TableReport, describe
from sqlalchemy_ducklake.maintenance.steps import (
    Upkeep,
    cleanup_files,
    delete_orphans,
    expire_snapshots,
    flush_inlined,
    merge_small_files,
    rewrite_deleted,
)

__all__ = [
    "Policy",
    "Progress",
    "TableReport",
    "Upkeep",
    "cleanup_files",
    "delete_orphans",
    "describe",
    "expire_snapshots",
    "flush_inlined",
    "maintain",
    "merge_small_files",
    "rewrite_deleted",
]
