"""What users write: statements that a lake needs and SQLAlchemy has not.

They are plain SQLAlchemy constructs (generative, immutable, cacheable) and know nothing
of the dialect; the compiler finds them by their visit names.
"""

from __future__ import annotations

from sqlalchemy_ducklake.constructs.insert import Insert, OnConflict, insert

__all__ = ["Insert", "OnConflict", "insert"]
