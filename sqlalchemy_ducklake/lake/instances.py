"""Share one DuckDB instance per lake and process.

DuckDB lets a file be attached once in a process, and ATTACH costs more than a query.
So all connections to a lake are cursors of one instance: the first one opens it, the
last one closes it.

Two ways to die are taken care of.  A session that was dropped, or is still open when
Python exits, is rolled back before it is closed: DuckDB aborts the process if it has to
roll back by itself and the PostgreSQL server is gone (measured).  And a forked child
starts with an empty registry: the parent's instances need threads that it lacks.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Hashable, Iterator
from contextlib import suppress
from pathlib import Path

import duckdb

from sqlalchemy_ducklake.errors import DataPathMismatch, LakeOpenedDifferently
from sqlalchemy_ducklake.lake.attach import attach, detach, open_instance, seal, use
from sqlalchemy_ducklake.lake.catalogs import DuckDBCatalog, FileCatalog
from sqlalchemy_ducklake.lake.config import LakeConfig


def open_session(config: LakeConfig) -> Session:
    """Give a DuckDB connection of its own that stands in the lake's schema."""
    instance, user = _instance_of(config), object()
    duck = instance.enter(user, config)
    session = Session(instance, user, duck, config)
    try:
        use(duck, config)
    except BaseException:
        session.close()
        raise
    return session


def keep(config: LakeConfig) -> Hold:
    """Keep the lake open while no session is, for whoever opens and closes many."""
    instance, user = _instance_of(config), object()
    return Hold(instance, user, instance.enter(user, config))


class Hold:
    """Somebody's interest in an open lake, which ends once: by hand, by loss or at exit."""

    __slots__ = ("__weakref__", "_end")

    def __init__(
        self, instance: Instance, user: object, duck: duckdb.DuckDBPyConnection
    ) -> None:
        self._end = weakref.finalize(self, _end, instance, user, duck, os.getpid())

    def release(self) -> None:
        """Let go; the lake closes if nobody else uses it."""
        self._end()


class Session(Hold):
    """One connection to a lake: ``duck`` has its own transaction and temporary tables."""

    __slots__ = ("config", "duck")

    def __init__(
        self,
        instance: Instance,
        user: object,
        duck: duckdb.DuckDBPyConnection,
        config: LakeConfig,
    ) -> None:
        super().__init__(instance, user, duck)
        self.duck = duck
        self.config = config
        _sessions.add(self)

    def close(self) -> None:
        """Roll back what is open and let go of the lake; a second call does nothing."""
        self.release()


class Instance:
    """One DuckDB with one lake in it, and who uses it.

    Closed and opened again as users leave and come; ``lock`` covers both, so nobody
    opens a file that somebody is still closing.
    """

    __slots__ = ("__weakref__", "attached", "duck", "lock", "read_only", "stored", "users")

    def __init__(self) -> None:
        self.duck: duckdb.DuckDBPyConnection | None = None
        self.attached: dict[str, LakeConfig] = {}
        self.stored: dict[str, str] = {}
        self.read_only = False
        self.users: set[object] = set()
        self.lock = threading.Lock()

    def enter(self, user: object, config: LakeConfig) -> duckdb.DuckDBPyConnection:
        """Open the lake if need be and give a cursor."""
        # A user counts from here on, so that nobody closes under it; leave() takes the
        # lock only when the last one goes, which a finalizer inside enter() never is.
        self.users.add(user)
        try:
            with self.lock:
                return self._opened(config).cursor()
        except BaseException:
            self.leave(user)
            raise

    def leave(self, user: object) -> None:
        """Close the lake behind the last one."""
        self.users.discard(user)
        if not self.users:
            with self.lock:
                if not self.users:
                    self._close()

    def abandon(self) -> None:
        """Forget a DuckDB that a fatal error has ended; the next user opens another one.

        It is not destroyed: it would roll back what was open in it, and abort the process.
        """
        # No lock: a finalizer may be here in the middle of enter().
        duck, self.duck, self.attached = self.duck, None, {}
        _never_destroy(duck)

    def _opened(self, config: LakeConfig) -> duckdb.DuckDBPyConnection:
        if self.duck is not None:
            self._agree(config)
            return self._attached(self.duck, config)
        if isinstance(config.catalog, FileCatalog):
            config.catalog.check(may_create=config.create and not config.read_only)
        self.read_only = _opens_read_only(config)
        self.duck = open_instance(config)
        try:
            self._attached(self.duck, config)
            seal(self.duck, config, self.stored)
        except BaseException:
            self._close()  # the next one may come with other options
            raise
        return self.duck

    def _attached(
        self, duck: duckdb.DuckDBPyConnection, config: LakeConfig
    ) -> duckdb.DuckDBPyConnection:
        # Detaching a snapshot takes the catalog from the present too, so both stay to
        # the end, and the present comes first whoever asks.
        for wanted in (config.present, config) if config.shares_catalog else (config,):
            if wanted.alias not in self.attached:
                self.stored = attach(duck, wanted, read_only=self.read_only)
                self.attached[wanted.alias] = wanted
        return duck

    def _agree(self, config: LakeConfig) -> None:
        """Refuse what one DuckDB with one attached file cannot do both ways."""
        title = config.catalog.title
        for option in _differences(next(iter(self.attached.values())), config):
            # The values are not told: settings and storage may hold keys.
            raise LakeOpenedDifferently(title, option)
        if config.snapshot is None and config.read_only != self.read_only:
            raise LakeOpenedDifferently(title, "read_only")
        if config.override_data_path:
            return  # the paths of the two were compared with the other options
        if config.data_path not in (None, self.stored["data_path"]):
            raise DataPathMismatch(title, str(config.data_path))

    def _close(self) -> None:
        duck, self.duck = self.duck, None
        attached, self.attached = list(self.attached), {}
        if duck is None:
            return
        for alias in attached:
            # The server may be gone; closing must go on.
            with suppress(duckdb.Error):
                detach(duck, alias)
        duck.close()


def temporary_lake() -> DuckDBCatalog:
    """Make a place for a lake that lives as long as this process."""
    folder = tempfile.mkdtemp(prefix="ducklake-")
    # Finalizers run backwards at exit: this one after those of the lake's sessions.
    weakref.finalize(_registry, _remove, folder, os.getpid())
    return DuckDBCatalog(str(Path(folder) / "temporary.ducklake"))


class _Registry:
    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        # A lock may have been held at the moment of a fork, so the child needs a new one.
        self.lock = threading.Lock()
        self.instances: weakref.WeakValueDictionary[Hashable, Instance] = (
            weakref.WeakValueDictionary()
        )


_registry = _Registry()
_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


def _instance_of(config: LakeConfig) -> Instance:
    """Find the instance by what it must be alone with: a DuckDB file, or all options."""
    catalog = config.catalog
    key: Hashable = catalog if isinstance(catalog, DuckDBCatalog) else config.lake
    with _registry.lock:
        instance = _registry.instances.get(key)
        if instance is None:
            instance = _registry.instances[key] = Instance()
        return instance


def _opens_read_only(config: LakeConfig) -> bool:
    """Tell how the catalog is opened: for a snapshot as it would be for the present.

    Both must fit into one instance, whichever comes first.
    """
    if config.snapshot is None:
        return config.read_only
    return isinstance(config.catalog, FileCatalog) and not config.catalog.writable


def _differences(opened: LakeConfig, asked: LakeConfig) -> Iterator[str]:
    if opened.metadata_catalog != asked.metadata_catalog:
        yield "alias"
    for option in ("settings", "storage", "metadata_schema", "data_inlining_row_limit"):
        if getattr(opened, option) != getattr(asked, option):
            yield option


def _end(
    instance: Instance, user: object, duck: duckdb.DuckDBPyConnection, process: int
) -> None:
    if process != os.getpid():
        return
    try:
        duck.rollback()
    except duckdb.FatalException:
        # Its transaction is still open, and closing would roll back: an abort.
        _never_destroy(duck)
        instance.abandon()
    except duckdb.Error:
        _close_quietly(duck)  # nothing was open
    else:
        _close_quietly(duck)
    instance.leave(user)


def _close_quietly(duck: duckdb.DuckDBPyConnection) -> None:
    with suppress(duckdb.Error):
        duck.close()


def _never_destroy(*ducks: duckdb.DuckDBPyConnection | None) -> None:
    """Keep the engine from destroying what it would crash on: by a reference too many."""
    for duck in ducks:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(duck))


def _remove(folder: str, process: int) -> None:
    if process == os.getpid():
        shutil.rmtree(folder, ignore_errors=True)


def _forget_parent() -> None:
    """Start a forked child with no instance, and never destroy the parent's in it.

    Destroying them would join threads that do not exist here (a crash), write to files
    whose lock is the parent's, and talk on its sockets.  One reference too many prevents
    that.  DuckDB's own default connection, made by importing it, is in the same danger.
    """
    parents = [instance.duck for instance in _registry.instances.values()]
    sessions = [session.duck for session in _sessions]
    _never_destroy(*parents, *sessions, duckdb.default_connection())
    _registry.clear()


os.register_at_fork(after_in_child=_forget_parent)
