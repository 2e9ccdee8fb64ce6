"""What users write: statements that a lake needs and SQLAlchemy has not.

They are plain SQLAlchemy constructs (generative, immutable, cacheable) and know nothing
of the dialect; the compiler finds them by their visit names.
"""

from __future__ import annotations

from sqlalchemy_ducklake.constructs.action import merge_action
from sqlalchemy_ducklake.constructs.entities import EntityMergeState
from sqlalchemy_ducklake.constructs.history import (
    AtSnapshot,
    TableChanges,
    at_snapshot,
    at_timestamp,
    table_changes,
)
from sqlalchemy_ducklake.constructs.insert import Insert, OnConflict, insert
from sqlalchemy_ducklake.constructs.merge import Merge, delete_keys, merge, patch, upsert
from sqlalchemy_ducklake.constructs.query import (
    argument,
    asof_join,
    explain,
    qualify,
    star,
)
from sqlalchemy_ducklake.constructs.source import Batch

__all__ = [
    "AtSnapshot",
    "Batch",
    "EntityMergeState",
    "Insert",
    "Merge",
    "OnConflict",
    "TableChanges",
    "argument",
    "asof_join",
    "at_snapshot",
    "at_timestamp",
    "delete_keys",
    "explain",
    "insert",
    "merge",
    "merge_action",
    "patch",
    "qualify",
    "star",
    "table_changes",
    "upsert",
]
