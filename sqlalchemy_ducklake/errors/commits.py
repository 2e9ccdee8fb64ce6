"""How a transaction can end other than well."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb


class TransactionAborted(duckdb.OperationalError):
    """A statement failed earlier, so nothing of this transaction can be published.

    DuckDB answers a COMMIT of such a transaction with success and publishes nothing
    (measured on 1.5.5); the driver tells.  ``cause`` is the error that did it.
    """

    sqlstate = "25P02"

    def __init__(self, cause: BaseException | None = None) -> None:
        super().__init__(cause)
        self.cause = cause

    def __str__(self) -> str:
        reason = "" if self.cause is None else f" ({type(self.cause).__name__}: {self.cause})"
        return (
            f"the transaction was ended by an earlier error{reason}; nothing of it was "
            "written: roll back and run it again"
        )


class SerializationFailure(duckdb.OperationalError):
    """Another writer committed first; the whole transaction can be run again.

    ``base`` is the snapshot this transaction read, ``head`` the newest one now (None
    where it could not be told).  ``tables`` are those that others changed in between.
    """

    sqlstate = "40001"

    def __init__(
        self,
        base: int | None,
        head: int | None,
        reason: str = "",
        tables: Sequence[str] = (),
    ) -> None:
        super().__init__(base, head, reason, tables)
        self.base = base
        self.head = head
        self.reason = reason
        self.tables = tuple(tables)

    def __str__(self) -> str:
        changed = f" (others changed {', '.join(self.tables)})" if self.tables else ""
        reason = f" ({self.reason})" if self.reason else ""
        return (
            f"the lake moved from snapshot {self.base} to {self.head}{changed} while this "
            "transaction, which checked keys or changed rows, was open; nothing was written: "
            "roll back and run it again, or let sqlalchemy_ducklake.run_transaction() do "
            f"that{reason}"
        )


class StaleBase(duckdb.OperationalError):
    """A table changed after the snapshot that its writer expected to write on.

    ``table`` is that table, ``base`` the expected snapshot (None: never written), and
    ``found`` the one that changed it last.  Running the same again cannot help: read the
    table anew first.
    """

    sqlstate = "55000"

    def __init__(self, table: str, base: int | None, found: int | None) -> None:
        super().__init__(table, base, found)
        self.table = table
        self.base = base
        self.found = found

    def __str__(self) -> str:
        expected = "no data yet" if self.base is None else f"the data of snapshot {self.base}"
        return (
            f"table {self.table!r} was expected to hold {expected}, but snapshot {self.found} "
            "changed it; nothing was written: read it again and decide anew"
        )


class CommitFailed(duckdb.OperationalError):
    """The commit failed though nobody else had committed; nothing was written.

    ``base`` is the newest snapshot, before and after.  The cause is the engine's error.
    """

    sqlstate = "40000"

    def __init__(self, base: int | None, reason: str) -> None:
        super().__init__(base, reason)
        self.base = base
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.reason} (nothing was written; the lake is still at snapshot {self.base})"


class OutcomeUnknown(duckdb.OperationalError):
    """A commit failed, and whether it was published could not be found out.

    The snapshot, if there is one, is newer than ``base`` and carries ``commit_id`` in its
    extra info.  Look there before writing the same again.
    """

    sqlstate = "08007"

    def __init__(self, base: int | None, commit_id: str, reason: str) -> None:
        super().__init__(base, commit_id, reason)
        self.base = base
        self.commit_id = commit_id
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"the commit {self.commit_id} may or may not have been published: {self.reason}. "
            f"Look for this id in commit_extra_info of the snapshots after {self.base} before "
            "writing the same again"
        )


class FilesLost(duckdb.OperationalError):
    """A commit was published, but the engine removed its files.

    The answer to the COMMIT was lost, so DuckLake took it for failed.  ``snapshot`` is the
    published one and ``files`` are those that it names and that are gone.  What the lake
    held before is whole.
    """

    sqlstate = "58030"

    def __init__(self, snapshot: int, files: Sequence[str]) -> None:
        super().__init__(snapshot, files)
        self.snapshot = snapshot
        self.files = tuple(files)

    def __str__(self) -> str:
        return (
            f"the answer to a COMMIT was lost: snapshot {self.snapshot} was published, but "
            f"DuckLake removed {len(self.files)} of its files, such as {self.files[0]!r}, so "
            "its tables cannot be read. They can as of the snapshot before, with AT (VERSION "
            f"=> {self.snapshot - 1}); restore these files, or replace the tables from there"
        )


class LockTimeout(duckdb.OperationalError):
    """Another writer held a lock of the lake for longer than ``seconds``.

    ``locks`` are the tables that were asked for, empty for the lake as a whole.
    """

    sqlstate = "55P03"

    def __init__(self, locks: Sequence[str], seconds: float) -> None:
        super().__init__(locks, seconds)
        self.locks = tuple(locks)
        self.seconds = seconds

    def __str__(self) -> str:
        what = f"the tables {', '.join(self.locks)}" if self.locks else "the lake"
        return (
            f"another writer held the lock of {what} for more than {self.seconds:g} s; nothing "
            "was written: run it again, or set the connection's lock_timeout higher"
        )
