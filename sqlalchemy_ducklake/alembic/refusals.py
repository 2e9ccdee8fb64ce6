"""The error of a migration that a lake cannot make."""

from __future__ import annotations

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
