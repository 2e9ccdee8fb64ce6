"""Migrations of a lake with Alembic.

Alembic finds this by itself, through the entry point group ``alembic.plugins``.

    impl.py         what each operation does on a lake
    stored.py       how an operation reads and writes what is kept in comments
    columns.py      the operations on columns
    layouts.py      those on partitions, the order of rows and options
    fields.py       those on what is inside of columns, and on types
    nested.py       what is inside of types
    writes.py       which statements write a table
    lakeops.py      the operations that only a lake has, as values
    fieldops.py     those of them that are about fields and types
    rendering.py    how autogenerate writes them down
    changes.py      what autogenerate sees more, and what is unsafe
    checking.py     where a lake and a model disagree
    tables.py       a table as a migration sees it, and as it is to be: values
    catalog.py      read such a table from a lake
    elements.py     the statements that Alembic has not
    audits.py       what the rows must satisfy before a migration may promise it
    widening.py     the types that a column may change to
    comparison.py   defaults, however they are written
    plugin.py       what Alembic imports by itself
    keyops.py       changes of primary keys and checks, as operations
    revisions.py    one revision is one transaction is one snapshot
    requirements.py what Alembic's own suite may ask
    refusals.py     the errors of a migration that a lake cannot make
"""

from __future__ import annotations

from sqlalchemy_ducklake.alembic import fieldops, lakeops  # noqa: F401 - op.…_ducklake_…
from sqlalchemy_ducklake.alembic.checking import Difference, check_metadata
from sqlalchemy_ducklake.alembic.impl import DuckLakeImpl
from sqlalchemy_ducklake.alembic.refusals import MigratedMeanwhile, MigrationRefused

__all__ = [
    "Difference",
    "DuckLakeImpl",
    "MigratedMeanwhile",
    "MigrationRefused",
    "check_metadata",
]
