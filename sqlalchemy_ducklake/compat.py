"""The only file that asks which SQLAlchemy version this is."""

from __future__ import annotations

import sqlalchemy

SQLALCHEMY = tuple(int(part) for part in sqlalchemy.__version__.split(".")[:2])
