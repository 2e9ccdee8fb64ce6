"""What can be wrong with a question about the past, and with going back to it."""

from __future__ import annotations

from datetime import datetime

import duckdb


class UnknownSnapshot(duckdb.ProgrammingError):
    """A lake has no snapshot of a number, or none at or before a time.

    ``snapshot`` is what was asked for, ``oldest`` and ``newest`` are those there are.
    """

    sqlstate = "42704"

    def __init__(
        self, snapshot: int | datetime, oldest: int | None, newest: int | None
    ) -> None:
        super().__init__(snapshot, oldest, newest)
        self.snapshot = snapshot
        self.oldest = oldest
        self.newest = newest

    def __str__(self) -> str:
        moment = isinstance(self.snapshot, datetime)
        wanted = f"at or before {self.snapshot}" if moment else f"{self.snapshot}"
        return (
            f"the lake has no snapshot {wanted}; it knows those from {self.oldest} to "
            f"{self.newest} as far as they were not expired: snapshots() lists them"
        )


class TableNotThen(duckdb.ProgrammingError):
    """A snapshot has no table of this name.

    ``table`` and ``snapshot`` say which; ``name_then`` is the name the table of today had
    at that snapshot, ``created`` the snapshot that made it (None: there is none today).
    """

    sqlstate = "42P01"

    def __init__(
        self, table: str, snapshot: int, name_then: str | None, created: int | None
    ) -> None:
        super().__init__(table, snapshot, name_then, created)
        self.table = table
        self.snapshot = snapshot
        self.name_then = name_then
        self.created = created

    def __str__(self) -> str:
        if self.name_then is not None:
            hint = f"it was called {self.name_then!r} then: read it by that name"
        elif self.created is not None:
            hint = f"snapshot {self.created} created it"
        else:
            hint = "there is none today either"
        return f"snapshot {self.snapshot} has no table {self.table!r}; {hint}"


class NotOnlyAppends(duckdb.OperationalError):
    """A table was changed by more than appends, so they alone cannot be undone.

    ``table`` and ``base`` are what was asked, ``snapshot`` (None: no single one) and
    ``found`` say what came in between.
    """

    sqlstate = "55000"

    def __init__(self, table: str, base: int, snapshot: int | None, found: str) -> None:
        super().__init__(table, base, snapshot, found)
        self.table = table
        self.base = base
        self.snapshot = snapshot
        self.found = found

    def __str__(self) -> str:
        where = "" if self.snapshot is None else f" by snapshot {self.snapshot}"
        return (
            f"the appends to table {self.table!r} after snapshot {self.base} cannot be undone "
            f"alone: it was changed{where} ({self.found}); nothing was written: restore() "
            "brings all of the table back"
        )


class ReadOnlyLake(duckdb.NotSupportedError):
    """A lake that was opened to be read only is to be changed; ``operation`` says how."""

    sqlstate = "25006"

    def __init__(self, operation: str) -> None:
        super().__init__(operation)
        self.operation = operation

    def __str__(self) -> str:
        return (
            f"{self.operation} changes the lake, but it was opened read-only (read_only=true "
            "or snapshot= in the URL); open it without that"
        )
