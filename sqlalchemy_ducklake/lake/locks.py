"""Locks between writers: politeness, not safety.

Safe is the compare-and-swap of the commit.  But without queueing, whoever commits back to
back overtakes all others for good (measured: of eight writers seven got one commit each).
Each kind of catalog has a lock that a dying process lets go of:

- PostgreSQL: an advisory lock, held by a helper connection of the same instance, because
  inside the lake's own transaction it would be in another backend and released early;
- SQLite: ``flock`` on a file beside the catalog;
- DuckDB files, which one process has for itself: a lock of this process.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import duckdb

from sqlalchemy_ducklake.errors import LockTimeout
from sqlalchemy_ducklake.lake.attach import identifier, literal
from sqlalchemy_ducklake.lake.catalogs import DuckDBCatalog, PostgresCatalog
from sqlalchemy_ducklake.lake.changes import TableName
from sqlalchemy_ducklake.lake.config import LakeConfig
from sqlalchemy_ducklake.lake.instances import Session
from sqlalchemy_ducklake.lake.marks import table_label

if sys.platform != "win32":
    import fcntl

DEFAULT_TIMEOUT = 60.0

# Seconds until who waits looks up for the first time, which loses the place in the queue.
_PATIENCE, _PATIENCE_WHILE_READING = 5.0, 0.5

_WAITING = """SELECT 1 AS waiting FROM pg_locks JOIN pg_database ON pg_database.oid = database
    WHERE locktype = 'relation' AND NOT granted AND datname = current_database() LIMIT 1"""


@contextmanager
def lake_lock(
    session: Session,
    *,
    timeout: float = DEFAULT_TIMEOUT,
    look: Callable[[], None] | None = None,
) -> Iterator[None]:
    """Hold the one lock of a lake; raises LockTimeout after ``timeout`` seconds.

    Who has read a PostgreSQL catalog holds locks of its tables until the transaction ends.
    If the lock's holder waits for one of those (after a flush of inlined rows their table is
    dropped), nobody gets on, and the server cannot see why: two backends stand for each
    writer.  So who waits looks up now and then, and goes on without the lock, which is
    politeness only, when anybody at all waits for a table.  A waiter that has such a
    transaction open gives ``look``, which may raise; it is called sooner.
    """
    if not isinstance(session.config.catalog, PostgresCatalog):
        with _held(session, "", (), timeout):
            yield
        return
    with contextlib.ExitStack() as stack:
        patience = _PATIENCE if look is None else _PATIENCE_WHILE_READING
        _wait_and_look(session, stack, timeout, patience, look or _nothing)
        yield


def _wait_and_look(
    session: Session,
    stack: contextlib.ExitStack,
    timeout: float,
    patience: float,
    look: Callable[[], None],
) -> None:
    deadline = time.monotonic() + timeout
    while True:
        left = max(deadline - time.monotonic(), 0.001)
        try:
            stack.enter_context(_advisory(session, "", (), min(patience, left)))
        except LockTimeout:
            look()
            if _somebody_waits_for_a_table(session):
                return
            if patience >= left:
                raise LockTimeout((), timeout) from None
            patience *= 2
        else:
            return


def _somebody_waits_for_a_table(session: Session) -> bool:
    with contextlib.closing(session.duck.cursor()) as duck:
        database = session.config.metadata_catalog
        found = duck.execute("FROM postgres_query($1, $2)", [database, _WAITING]).fetchone()
    return found is not None


def _nothing() -> None:
    """See nothing that speaks against waiting."""


@contextmanager
def table_lock(
    session: Session, *tables: TableName, timeout: float = DEFAULT_TIMEOUT
) -> Iterator[None]:
    """Hold the locks of tables, taken in sorted order so that no two wait for each other.

    Raises LockTimeout after ``timeout`` seconds in all.
    """
    labels = sorted({table_label(*table).lower() for table in tables})
    deadline = time.monotonic() + timeout
    with contextlib.ExitStack() as stack:
        for label in labels:
            left = max(deadline - time.monotonic(), 0.001)
            stack.enter_context(_held(session, label, labels, left))
        yield


@contextmanager
def fence(session: Session, *, timeout: float) -> Iterator[None]:
    """Wait until no commit is under way in a PostgreSQL catalog, and hold up new ones.

    A commit whose answer was lost may still be running in the server.  It has written to
    the table of snapshots, so whoever locks that table sees the outcome.  In a file there
    is nothing to wait for: a commit that failed in this process is over.
    """
    config = session.config
    if not isinstance(config.catalog, PostgresCatalog):
        yield
        return
    schema = config.metadata_schema
    table = "ducklake_snapshot" if schema is None else f"{identifier(schema)}.ducklake_snapshot"
    with _backend(session, timeout) as (duck, database):
        # Who may not write that table cannot lock it either, and has published nothing.
        asked = f"select has_table_privilege({literal(table)}, 'insert') as may"
        if duck.execute("FROM postgres_query($1, $2)", [database, asked]).fetchone() == (True,):
            statement = f"lock table {table} in share mode"
            duck.execute("CALL postgres_execute($1, $2)", [database, statement])
        yield


def _held(
    session: Session, label: str, wanted: Sequence[str], timeout: float
) -> AbstractContextManager[None]:
    config = session.config
    if isinstance(config.catalog, PostgresCatalog):
        return _advisory(session, label, wanted, timeout)
    if isinstance(config.catalog, DuckDBCatalog) or sys.platform == "win32":
        return _in_process(config.catalog.path, label, wanted, timeout)
    return _file(Path(f"{config.catalog.path}.locks"), label, wanted, timeout)


@contextmanager
def _advisory(
    session: Session, label: str, wanted: Sequence[str], timeout: float
) -> Iterator[None]:
    query = f"select pg_advisory_xact_lock({_number(session.config, label)})::text"
    began = time.monotonic()
    with _backend(session, timeout) as (duck, database):
        try:
            duck.execute("FROM postgres_query($1, $2)", [database, query]).fetchall()
        except duckdb.IOException as error:
            # The server's refusal has no class of its own; the time it took tells.
            if time.monotonic() - began < timeout:
                raise
            raise LockTimeout(wanted, timeout) from error
        yield


def _number(config: LakeConfig, label: str) -> int:
    """Give the key of an advisory lock; those of a database are shared by all its lakes."""
    named = "\0".join(("sqlalchemy_ducklake", config.metadata_schema or "", label))
    digest = hashlib.blake2b(named.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


@contextmanager
def _backend(
    session: Session, timeout: float
) -> Iterator[tuple[duckdb.DuckDBPyConnection, str]]:
    """Open a transaction in a PostgreSQL backend of its own, and end it on the way out."""
    helper = _Helper(session.duck.cursor())
    database = session.config.metadata_catalog
    milliseconds = max(int(timeout * 1000), 1)
    try:
        helper.duck.begin()
        limit = f"set local lock_timeout = {milliseconds}"
        helper.duck.execute("CALL postgres_execute($1, $2)", [database, limit])
        yield helper.duck, database
    finally:
        helper.end()


class _Helper:
    """A connection that is rolled back before it goes, also at exit.

    DuckDB aborts the process if it has to roll back by itself and the server is gone.
    """

    def __init__(self, duck: duckdb.DuckDBPyConnection) -> None:
        self.duck = duck
        self.end = weakref.finalize(self, _end, duck, os.getpid())


def _end(duck: duckdb.DuckDBPyConnection, process: int) -> None:
    if process != os.getpid():
        return
    with contextlib.suppress(duckdb.Error):
        duck.rollback()
    with contextlib.suppress(duckdb.Error):
        duck.close()


_descriptors: set[int] = set()


@contextmanager
def _file(folder: Path, label: str, wanted: Sequence[str], timeout: float) -> Iterator[None]:
    folder.mkdir(exist_ok=True)
    name = hashlib.blake2b(label.encode(), digest_size=8).hexdigest() if label else "lake"
    deadline = time.monotonic() + timeout
    try:
        # One at a time may wait for the lock itself; so who lets go of it and wants it
        # again at once stands behind those who came before.
        turn = _acquired(folder / f"{name}.queue", deadline)
        try:
            held = _acquired(folder / name, deadline)
        finally:
            _close(turn)
    except TimeoutError as error:
        raise LockTimeout(wanted, timeout) from error
    try:
        yield
    finally:
        _close(held)


def _acquired(path: Path, deadline: float) -> int:
    """Open a file and lock it; raises TimeoutError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    _descriptors.add(descriptor)
    try:
        if _locked(descriptor) or _queued(descriptor, deadline - time.monotonic()):
            return descriptor
        raise TimeoutError
    except BaseException:
        _close(descriptor)
        raise


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _queued(descriptor: int, timeout: float) -> bool:
    """Wait in the kernel's queue, in a thread, which can be given up."""
    # The lock is held by all descriptors that are copies, until the last one is closed.
    copy = os.dup(descriptor)
    _descriptors.add(copy)
    granted = threading.Event()

    def wait() -> None:
        try:
            fcntl.flock(copy, fcntl.LOCK_EX)
            granted.set()
        finally:
            _close(copy)

    threading.Thread(target=wait, name="ducklake-lock", daemon=True).start()
    return granted.wait(timeout)


def _close(descriptor: int) -> None:
    """Let go of a lock, as dying would; in a forked child that was done already."""
    if descriptor in _descriptors:
        _descriptors.remove(descriptor)
        os.close(descriptor)


_locks: dict[tuple[str, str], threading.Lock] = {}


@contextmanager
def _in_process(path: str, label: str, wanted: Sequence[str], timeout: float) -> Iterator[None]:
    lock = _locks.setdefault((path, label), threading.Lock())
    if not lock.acquire(timeout=timeout):
        raise LockTimeout(wanted, timeout)
    try:
        yield
    finally:
        lock.release()


def _forget_parent() -> None:
    """Let go, in a forked child, of what threads that it lacks would hold for ever."""
    _locks.clear()
    for descriptor in _descriptors:
        os.close(descriptor)
    _descriptors.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parent)
