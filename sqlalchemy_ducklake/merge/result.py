"""What a merge did, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MergeResult:
    """How many rows one merge inserted, updated, deleted, left alone and skipped.

    ``unchanged`` counts keys whose new values equalled the old ones: nothing was written
    for them.  ``skipped`` counts rows that a ``where`` or ``DO NOTHING`` kept out.
    ``snapshot_id`` is the snapshot that holds what was written, as far as it is known;
    results with equal counts are equal.
    """

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0
    skipped: int = 0
    snapshot_id: int | None = field(default=None, compare=False)

    @property
    def written(self) -> int:
        """Rows that differ from before the merge."""
        return self.inserted + self.updated + self.deleted

    @classmethod
    def from_counts(cls, counts: Mapping[str, int]) -> MergeResult:
        """Read a result from the counts of a script; other counts are ignored."""
        return cls(**{name: counts[name] for name in cls.__slots__ if name in counts})
