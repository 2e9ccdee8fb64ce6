"""Writes that wait for the commit of their transaction.

Something above the driver may keep aside what a transaction writes, in temporary tables.
The commit then ends the transaction, which only read the lake, and writes what waits in a
short one of its own: its snapshot is the newest, so only what others did to the same tables
in between is a conflict.  Any statement that is not from above is preceded by what waits.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

import duckdb

from sqlalchemy_ducklake.driver import commit
from sqlalchemy_ducklake.errors import CommitFailed, SerializationFailure
from sqlalchemy_ducklake.lake.changes import pinned_snapshot

if TYPE_CHECKING:
    from sqlalchemy_ducklake.lake.instances import Session


class Pending(Protocol):
    """What waits, and who knows it."""

    @property
    def waits(self) -> bool:
        """Tell whether there is anything to write."""
        ...

    @property
    def temporary(self) -> bool:
        """Tell whether there are temporary tables."""
        ...

    def ready(self) -> None:
        """Get ready to be written, before the transaction ends."""
        ...

    def settle(self) -> None:
        """Write what waits into the open transaction, before anything else happens there."""
        ...

    def write(self) -> None:
        """Write what waits into the open transaction, which is there for nothing else."""
        ...

    def check(self, base: int, head: int) -> None:
        """Raise SerializationFailure if what was read at ``base`` is not so at ``head``."""
        ...

    def forget(self) -> None:
        """Drop the temporary tables."""
        ...


class PendingWrites:
    """The part of a connection that knows of writes which wait."""

    #: What waits in the open transaction.
    pending: Pending | None = None
    #: Whether a statement runs that comes from whoever keeps the writes.
    staging = False

    if TYPE_CHECKING:
        lock_timeout: float
        commit_info: commit.CommitInfo
        _session: Session
        _aborted_by: BaseException | None

        work: commit.Work

        def rollback(self) -> None:
            """See Connection."""

        def exclusive(
            self, look: Callable[[], None] | None = None
        ) -> AbstractContextManager[None]:
            """See Connection."""

        def _inline(self, *, wanted: bool) -> None: ...

        def _reset(self, setting: commit.Lowered) -> None: ...

    @contextlib.contextmanager
    def staged(self) -> Iterator[None]:
        """Let statements read and fill temporary tables, and write nothing before them."""
        before, self.staging = self.staging, True
        try:
            yield
        finally:
            self.staging = before

    def step_aside(self) -> None:
        """Write what waits before a statement that knows nothing of it."""
        if self.pending is not None and not self.staging:
            self.pending.settle()

    def _waiting(self) -> Pending | None:
        """Give what waits for the commit; in a transaction that wrote already, write it."""
        pending = self.pending
        if pending is None:
            return None
        try:
            if pending.waits and not self.work.direct:
                pending.ready()
                return pending
            pending.settle()
            pending.forget()
        except BaseException:
            self.rollback()
            raise
        return None

    def _publish_pending(self, pending: Pending, work: commit.Work) -> commit.Commit | None:
        """End a transaction that only read, and write what waits in one of its own.

        Raises what a commit raises.  All transactions are over in any case.
        """
        base: int | None = None
        try:
            base = pinned_snapshot(self._session.duck, self._session.config)
            self._session.duck.commit()
            with self.exclusive() if work.guarded else contextlib.nullcontext():
                return self._until_first(pending, work, base)
        except duckdb.OperationalError as error:
            if type(error) not in _OF_THE_ENGINE:
                raise
            # Whatever it was, it came before anything was published.
            raise CommitFailed(base, str(error)) from error
        finally:
            self._forget_pending(pending)

    def _forget_pending(self, pending: Pending) -> None:
        """Drop the temporary tables, all at once: each transaction has its price."""
        duck = self._session.duck
        if not pending.temporary:
            pending.forget()
            return
        with contextlib.suppress(duckdb.Error):
            duck.begin()
            try:
                pending.forget()
            finally:
                duck.commit()

    def _until_first(
        self, pending: Pending, work: commit.Work, base: int
    ) -> commit.Commit | None:
        """Write again what somebody else overtook, as long as that was in other tables."""
        for number in range(commit.TRIES - 1):
            try:
                return self._write_pending(pending, work, base)
            except _Overtaken:
                commit.pause(number)
        try:
            return self._write_pending(pending, work, base)
        except _Overtaken as overtaken:
            raise overtaken.error from overtaken.error.__cause__

    def _write_pending(
        self, pending: Pending, work: commit.Work, base: int
    ) -> commit.Commit | None:
        duck = self._session.duck
        duck.begin()
        try:
            head = pinned_snapshot(duck, self._session.config)
            if head != base:
                pending.check(base, head)
            self._write_once(pending)
            self._inline(wanted=True)
            return self._publish_once(work)
        except BaseException:
            commit.roll_back(duck)
            # What ended this transaction concerns no other.
            self._aborted_by = None
            self._inline(wanted=True)
            raise

    def _write_once(self, pending: Pending) -> None:
        try:
            pending.write()
        except SerializationFailure as error:
            raise _Overtaken(error) from error

    def _publish_once(self, work: commit.Work) -> commit.Commit | None:
        try:
            return commit.publish(self._session, work, work.info or self.commit_info)
        except (SerializationFailure, CommitFailed) as error:
            raise _Overtaken(error) from error
        finally:
            if work.guarded:
                self._reset(commit.RETRIES)


# Their subclasses are ours, and say by themselves what they mean.
_OF_THE_ENGINE = frozenset(each for each in vars(duckdb).values() if isinstance(each, type))


class _Overtaken(Exception):
    """A commit that failed though its tables were as they had been read."""

    def __init__(self, error: duckdb.Error) -> None:
        super().__init__(error)
        self.error = error
