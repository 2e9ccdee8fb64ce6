"""What ten chapters about SQLAlchemy teach, done on a lake."""

from __future__ import annotations

from types import ModuleType

import pytest
from sqlalchemy import Engine

from lake.chapters import (
    automapped,
    bulk_dml,
    core,
    events,
    hybrids,
    inheritance,
    quick_start,
    relationships,
    streaming,
    upserts,
)

CHAPTERS = [
    *(core, quick_start, relationships, inheritance, upserts),
    *(bulk_dml, streaming, events, automapped, hybrids),
]


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.__name__)
def test_a_chapter_is_told_on_a_lake(engine: Engine, chapter: ModuleType) -> None:
    chapter.run(engine)
