"""The connection and the state of its transaction.

The state is held, never guessed: a transaction begins before the first statement, and
ends with ``commit()``, ``rollback()`` or ``close()``.  After a statement failed, the
engine is asked whether it still goes on (parser and binder errors leave it alive, most
others end it), because DuckDB answers the COMMIT of an ended one with success.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from types import TracebackType
from typing import Any, Self

import duckdb

from sqlalchemy_ducklake import errors
from sqlalchemy_ducklake.driver import commit
from sqlalchemy_ducklake.driver.commit import CommitInfo, Lowered, Work
from sqlalchemy_ducklake.driver.cursor import Cursor
from sqlalchemy_ducklake.driver.deadline import Deadline
from sqlalchemy_ducklake.driver.exceptions import Exceptions
from sqlalchemy_ducklake.driver.expected import require_base
from sqlalchemy_ducklake.driver.parameters import sendable
from sqlalchemy_ducklake.driver.pending import PendingWrites
from sqlalchemy_ducklake.driver.result import Result
from sqlalchemy_ducklake.driver.script import Script
from sqlalchemy_ducklake.driver.settings import HeldSettings
from sqlalchemy_ducklake.driver.statements import Parsed, may_delete
from sqlalchemy_ducklake.driver.trust import Trust
from sqlalchemy_ducklake.lake.catalogs import SQLiteCatalog
from sqlalchemy_ducklake.lake.config import LakeConfig
from sqlalchemy_ducklake.lake.instances import Session
from sqlalchemy_ducklake.lake.locks import DEFAULT_TIMEOUT, lake_lock


class Connection(PendingWrites, Exceptions):
    """A PEP 249 connection to a lake, with one transaction at a time.

    As a context manager it commits, or rolls back on an error, and closes.  Threads must
    not share it; :meth:`interrupt` alone may be called from another one.

    ``commit_info`` is what the snapshots of this connection say, ``lock_timeout`` how many
    seconds a commit queues behind those of other writers, ``statement_timeout`` how many a
    statement of a new cursor may take (None: any).  With ``serializable`` a commit
    fails if anybody published anything since its transaction began to read.
    """

    def __init__(self, session: Session, *, autocommit: bool = False) -> None:
        self._session = session
        self._process = os.getpid()
        self._duck = session.duck
        self._autocommit = autocommit
        self._closed = False
        self._in_transaction = False
        self._aborted_by: BaseException | None = None
        self._exclusive = False
        self._not_inlining = False
        self._last: commit.Commit | None = None
        self._trust = Trust(session)
        #: Settings of the engine that something holds for a while.
        self.settings = HeldSettings(self._duck)
        self.serializable = False
        #: Whether a statement may have made a temporary table or view.
        self.may_hold_temporary = False
        self.commit_info = CommitInfo()
        self.lock_timeout = DEFAULT_TIMEOUT
        self.statement_timeout: float | None = None
        self.deadline = Deadline(self._duck.interrupt)
        self.work = Work()
        self.parsed = Parsed()
        self._live: weakref.ref[Result] | None = None
        # So that an open result survives the next statement exactly; see driver/result.py.
        self._duck.execute("SET GLOBAL arrow_lossless_conversion = true")

    @property
    def config(self) -> LakeConfig:
        """Where the lake is, and how it was opened."""
        return self._session.config

    @property
    def closed(self) -> bool:
        """Tell whether this connection was closed."""
        return self._closed

    @property
    def in_transaction(self) -> bool:
        """Tell whether a transaction is open, aborted or not."""
        return self._in_transaction

    @property
    def autocommit(self) -> bool:
        """Commit each statement by itself; setting it commits an open transaction."""
        return self._autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        if value != self._autocommit:
            self.commit()
            self._autocommit = value

    @property
    def changed_catalog(self) -> bool:
        """Tell whether the open transaction defined tables; reflection must ask the engine."""
        return self.work.changed_catalog

    @property
    def last_commit_id(self) -> str | None:
        """The id of this connection's last commit, None if that changed nothing."""
        return None if self._last is None else self._last.commit_id

    @property
    def last_snapshot(self) -> int | None:
        """The snapshot that this connection's last commit made, None if it made none."""
        return None if self._last is None else self._last.snapshot(self._session)

    @contextlib.contextmanager
    def exclusive(self, look: Callable[[], None] | None = None) -> Iterator[None]:
        """Hold the lock of the lake; who commits by compare-and-swap waits for it.

        Other writers can still be first, if they are not of this package.  Who waits with a
        transaction open gives ``look``, which raises if waiting is of no use any more.
        """
        if self._exclusive:
            yield
            return
        with lake_lock(self._session, timeout=self.lock_timeout, look=look):
            self._exclusive = True
            try:
                yield
            finally:
                self._exclusive = False

    def cursor(self) -> Cursor:
        """Open a cursor; all cursors of a connection share its transaction."""
        self.check_open()
        return Cursor(self)

    def begin(self) -> None:
        """Begin a transaction now, if none is open; executing does this by itself."""
        self.check_open()
        if not self._in_transaction:
            self.detach_live()
            self._duck.begin()
            self._in_transaction = True

    def commit(self) -> None:
        """Publish the transaction as one snapshot, or none if nothing changed.

        Raises TransactionAborted if a statement ended it earlier, SerializationFailure if
        another writer came first, OutcomeUnknown if the catalog does not answer any more.
        The transaction is over in any case.
        """
        self.check_open()
        if not self._in_transaction:
            return
        if self._aborted_by is not None:
            cause = self._aborted_by
            self.rollback()
            raise errors.TransactionAborted(cause) from cause
        self.detach_live()
        pending, work = self._waiting(), self.work
        self._inline(wanted=True)
        work.guarded = work.guarded or (self.serializable and work.changed)
        self._forget_transaction()
        try:
            if pending is not None:
                self._last = self._publish_pending(pending, work)
                return
            look = partial(commit.refuse_drift, self._session)
            with self.exclusive(look) if work.guarded else contextlib.nullcontext():
                self._last = commit.publish(self._session, work, work.info or self.commit_info)
        except BaseException:
            commit.roll_back(self._duck)
            raise
        finally:
            if work.guarded:
                self._reset(commit.RETRIES)

    def rollback(self) -> None:
        """Undo the transaction; never fails, also if there is none."""
        if self._closed or not self._in_transaction or self._forked:
            return
        self.detach_live()
        self._forget_transaction()
        commit.roll_back(self._duck)
        self._inline(wanted=True)
        try:
            self.settings.let_go()
        except duckdb.Error:
            self._closed = True
            self._session.close()

    def require_base(self, table: tuple[str, str], base: int | None) -> None:
        """Raise StaleBase if the table (schema and name) changed after snapshot ``base``.

        None says that it was never written.  Ask before changing it, in the transaction
        that will, so that nobody can come in between: its commit would fail.
        """
        self.begin()
        self.detach_live()
        self.work.guarded = True
        require_base(self._session, table, base)

    def reading(self) -> tuple[duckdb.DuckDBPyConnection, LakeConfig]:
        """Give what questions to the catalog are asked with, in this transaction."""
        self.check_open()
        if self._aborted_by is not None:
            raise errors.TransactionAborted(self._aborted_by) from self._aborted_by
        if not self._autocommit:
            self.begin()
        self.detach_live()
        return self._duck, self._session.config

    def interrupt(self) -> None:
        """Stop the statement that runs on this connection, from another thread."""
        self._duck.interrupt()

    def close(self) -> None:
        """Roll back what is open and close; doing it again is no error."""
        if self._closed:
            return
        self.rollback()
        self._closed = True
        if not self._forked:
            self._session.close()

    def __enter__(self) -> Self:
        self.check_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None and not self._closed:
                self.commit()
        finally:
            self.close()

    def __del__(self) -> None:
        # Half-made connections are collected too.
        if getattr(self, "_session", None) is not None and not self._closed:
            with contextlib.suppress(Exception):
                self.close()

    # What follows is for the cursors of this connection.

    def check_open(self) -> None:
        """Raise ClosedError if this connection was closed."""
        if self._closed:
            raise errors.ClosedError("connection")
        if self._forked:
            raise errors.ForkedError("connection")

    @property
    def _forked(self) -> bool:
        # What the parent opened needs the parent's threads, and its file is the parent's.
        return self._process != os.getpid()

    @property
    def duck(self) -> duckdb.DuckDBPyConnection:
        """The DuckDB connection below, for what this driver does not cover."""
        return self._duck

    @property
    def aborted(self) -> bool:
        """Tell whether a statement ended the transaction, so that only rollback is left."""
        return self._aborted_by is not None

    def atomically(
        self, work: Callable[[], None], *, guarded: bool, again: bool = True
    ) -> None:
        """Run work in the open transaction, or in one of its own.

        In one of its own it is run ``again``, as a whole, if another writer comes first.
        """
        if self._in_transaction or not self._autocommit:
            self.begin()
            work()
            return
        with self.exclusive() if guarded else contextlib.nullcontext():
            commit.run_again(lambda: self._alone(work), tries=commit.TRIES if again else 1)

    def _alone(self, work: Callable[[], None]) -> None:
        self.begin()
        try:
            work()
        except BaseException:
            self.rollback()
            raise
        self.commit()

    def send(self, statement: Any, values: Any) -> None:
        """Execute one statement in the open transaction, if there is one."""
        self.step_aside()
        self.detach_live()
        if self._aborted_by is not None:
            raise errors.TransactionAborted(self._aborted_by) from self._aborted_by
        deleting = may_delete(statement) and not self.staging
        self._inline(wanted=not deleting)
        try:
            calm = self._undisturbed() if deleting else contextlib.nullcontext()
            with calm, self.deadline.watching():
                self._duck.execute(statement, sendable(values))
        except (duckdb.Error, KeyboardInterrupt) as error:
            self.note(error)
            raise
        except RuntimeError as error:
            # How DuckDB's client passes on an interrupt from the keyboard; until they are
            # told too, its other threads work on, and whatever comes next waits for them.
            self._duck.interrupt()
            self.note(error)
            raise (error.__cause__ or error) from None

    @contextlib.contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Keep other writers away while a statement deletes, where DuckLake needs that.

        In SQLite each look of the engine at the catalog is newer than the one before.  A
        DELETE that finds other files than it pinned is a fatal error of DuckLake, which
        ends the whole instance (measured); and the commit would fail anyway.
        """
        if not isinstance(self._session.config.catalog, SQLiteCatalog):
            yield
            return
        with self.exclusive():
            try:
                commit.refuse_drift(self._session)
            except errors.SerializationFailure as error:
                self._aborted_by = error
                raise
            yield

    def trusts(self, script: Script) -> bool:
        """Tell whether the key that a script relies on is known to be unique."""
        self.detach_live()
        return self._trust.holds(script, self.work)

    def rows_before(self, script: Script) -> int | None:
        """Tell how many rows the table of a script has; None if that is not known."""
        return None if self.staging else self._trust.rows(script, self.work)

    def stream(self) -> Result:
        """Take the result of the last statement, which goes on streaming."""
        result = Result.of(self._duck)
        self._live = weakref.ref(result)
        return result

    def detach_live(self) -> None:
        """Make an open result independent of what happens next."""
        result = None if self._live is None else self._live()
        self._live = None
        error = None if result is None else result.detach()
        if error is not None:
            self.note(error)

    def abort(self, error: BaseException) -> None:
        """Leave nothing but a rollback: a statement failed when half of it was done."""
        if self._in_transaction and self._aborted_by is None:
            self._aborted_by = error

    def note(self, error: BaseException) -> None:
        """Find out whether ``error`` ended the transaction, and remember it."""
        if not self._in_transaction or self._aborted_by is not None:
            return
        try:
            self._duck.execute("SELECT 1")
        except duckdb.Error:
            self._aborted_by = error

    def _inline(self, *, wanted: bool) -> None:
        """Let small changes go into the catalog from now on, or not."""
        if wanted and self._not_inlining:
            self._reset(commit.INLINING)
        elif not wanted and not self._not_inlining:
            commit.INLINING.lower(self._duck)
        self._not_inlining = not wanted

    def _reset(self, setting: Lowered) -> None:
        """Let a setting be as it was; a connection that cannot is not used again."""
        try:
            setting.reset(self._duck)
        except duckdb.Error:
            self._closed = True
            self._session.close()

    def _forget_transaction(self) -> None:
        self.pending = None
        self._in_transaction = False
        self._aborted_by = None
        self.work = Work()
