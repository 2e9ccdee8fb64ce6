"""Migrations of a lake with Alembic.

Alembic from 1.18 on finds this by itself, through the entry point group
``alembic.plugins``; an ``env.py`` of an older one says ``import sqlalchemy_ducklake.alembic``.

    impl.py         what each operation does on a lake
    stored.py       how an operation reads and writes what is kept in comments
    columns.py      the operations on columns
    tables.py       a table as a migration sees it, and as it is to be: values
    catalog.py      read such a table from a lake
    elements.py     the statements that Alembic has not
    audits.py       what the rows must satisfy before a migration may promise it
    widening.py     the types that a column may change to
    comparison.py   defaults, however they are written
    plugin.py       primary keys, for autogenerate
    keyops.py       their changes, as operations
    refusals.py     the error of a migration that a lake cannot make
"""

from __future__ import annotations

from sqlalchemy_ducklake.alembic.impl import DuckLakeImpl
from sqlalchemy_ducklake.alembic.refusals import MigrationRefused

__all__ = ["DuckLakeImpl", "MigrationRefused"]
