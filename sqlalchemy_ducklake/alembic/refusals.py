"""The errors of a migration that a lake cannot make."""

from __future__ import annotations

from collections.abc import Collection

from alembic.util import CommandError


class MigrationRefused(CommandError):
    """An operation was refused before the lake saw it; nothing of it has happened.

    ``table`` and ``reason`` say what and why, ``advice`` what to do instead.
    """

    def __init__(self, table: str, reason: str, advice: str) -> None:
        super().__init__(f"table {table!r}: {reason}; {advice}")
        self.table = table
        self.reason = reason
        self.advice = advice

    def __reduce__(self) -> tuple[type[MigrationRefused], tuple[str, str, str]]:
        return type(self), (self.table, self.reason, self.advice)


def late_rename(table: str) -> MigrationRefused:
    """Return the error of renaming a table after another change of it."""
    return MigrationRefused(
        table,
        "it was changed earlier in this transaction, and to rename it then makes the whole "
        "lake unreadable (DuckLake 1.5.5)",
        "rename it before, or in a revision of its own",
    )


class MigratedMeanwhile(CommandError):
    """Another process has run revisions since this one read which were to run.

    ``expected`` and ``found`` are the heads; what this run did until then is committed.
    """

    def __init__(self, expected: Collection[str], found: Collection[str]) -> None:
        self.expected = frozenset(expected)
        self.found = frozenset(found)
        super().__init__(
            f"another process has migrated this lake to {_listed(found)} since this one left "
            f"it at {_listed(expected)}; run the command again"
        )

    def __reduce__(self) -> tuple[type[MigratedMeanwhile], tuple[Collection[str], ...]]:
        return type(self), (self.expected, self.found)


def _listed(heads: Collection[str]) -> str:
    return ", ".join(sorted(heads)) or "base"
