"""How a transaction ends: safely, or with the truth about what happened.

DuckLake retries a commit that another one overtook, ten times by default.  That is right
for appends to tables without keys.  It lets two writers insert one key, lets overlapping
deletes duplicate rows and lets a compaction undo a delete (all measured on 1.5.5).  So a
transaction that checked a key, changed rows or ran DDL commits by *compare-and-swap*:
with no retry, its commit fails if any snapshot was published since its own was pinned.

A COMMIT that fails may have been published all the same, if only the answer was lost.  So
every commit carries an id in the extra info of its snapshot, and after a failure the lake
is asked, never the message.
"""

from __future__ import annotations

import contextlib
import random
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb

from sqlalchemy_ducklake.driver.hazards import Hazards
from sqlalchemy_ducklake.driver.renames import altered_name, defined_name
from sqlalchemy_ducklake.driver.script import Script
from sqlalchemy_ducklake.driver.statements import (
    defines,
    describes_commit,
    is_guarded,
    may_change,
)
from sqlalchemy_ducklake.errors import (
    CommitFailed,
    FilesLost,
    OutcomeUnknown,
    SerializationFailure,
    StatementRefused,
)
from sqlalchemy_ducklake.errors.hints import has_moved
from sqlalchemy_ducklake.lake.catalogs import PostgresCatalog
from sqlalchemy_ducklake.lake.changes import (
    History,
    changed_tables,
    changes_between,
    pinned_snapshot,
)
from sqlalchemy_ducklake.lake.files import lost_files
from sqlalchemy_ducklake.lake.instances import Session
from sqlalchemy_ducklake.lake.locks import fence
from sqlalchemy_ducklake.lake.marks import CommitRecord, TableMark, table_label

#: How often a statement that commits by itself is run in all.
TRIES = 8

AUTHOR = "sqlalchemy_ducklake"

# Waiting for the catalog to answer again, and for a commit in the server to end; seconds.
_LOOK_UP_PAUSES = (0.0, 0.05, 0.2, 0.5, 1.0, 2.0)
_FENCE_TIMEOUT = 10.0

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0

_DESCRIBE = "CALL ducklake_set_commit_message($1, $2, $3, extra_info => $4)"


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """What the user lets the snapshots of a connection say.

    Without a ``message`` it names the operations and tables; ``extra`` is kept in the
    extra info beside the driver's own part.
    """

    author: str | None = AUTHOR
    message: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Work:
    """What a transaction did so far, as far as its commit must know.

    ``marks`` are what the snapshot will say of each table.  ``unmarked`` tells that
    statements ran of which nobody knows what they did to which key, ``changed_catalog``
    that something was defined, ``defined`` which tables and views were made or dropped
    (None: nobody knows), and ``altered`` which were altered or commented on.  ``info`` is
    what the snapshot of this transaction says, whatever others of the connection do.
    ``direct`` tells that the lake itself was changed, not only what waits for the commit;
    ``keys`` are those of tables that somebody asked for, by schema and name.
    """

    guarded: bool = False
    changed: bool = False
    direct: bool = False
    unmarked: bool = False
    described: bool = False
    changed_catalog: bool = False
    defined: set[str | None] = field(default_factory=set)
    altered: set[str] = field(default_factory=set)
    hazards: Hazards = field(default_factory=Hazards)
    operations: dict[str, None] = field(default_factory=dict)
    marks: dict[str, TableMark] = field(default_factory=dict)
    keys: dict[tuple[str, str], Any] = field(default_factory=dict)
    commit_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    info: CommitInfo | None = None

    def note_script(
        self, script: Script, *, trusted: bool = False, staged: bool = False
    ) -> None:
        """Remember what a script is about to do, to a table whose key is ``trusted``."""
        if script.table is not None and script.mode != "delete":
            self.hazards.check_write(script.table[1].lower(), script.mode)
        self.changed = True
        self.direct = self.direct or not staged
        self.guarded = self.guarded or script.guarded
        if script.table is None:
            self._forget_keys()
            self.operations[script.mode or "script"] = None
            return
        label = table_label(*script.table)
        self.marks[label] = TableMark(script.mode, script.validated_key if trusted else ())
        self.operations[f"{script.mode} {label}".strip()] = None

    def note_proof(self, script: Script) -> None:
        """Remember that a script ran through, and so proved a key."""
        if script.table is not None and script.validated_key and not script.keeps_key:
            label = table_label(*script.table)
            self.marks[label] = TableMark(script.mode, script.validated_key)

    def note_rows(self, table: tuple[str, str], before: int, counts: Mapping[str, int]) -> None:
        """Remember how many rows a table has by now, for whoever trusts its key."""
        label = table_label(*table)
        mark = self.marks.get(label)
        if mark is not None and mark.validated_key:
            now = before + counts.get("inserted", 0) - counts.get("deleted", 0)
            self.marks[label] = replace(mark, row_count=now)

    def forget_rows(self) -> None:
        """Remember no more how many rows tables have: a part of the work was undone."""
        self.marks = {name: replace(mark, row_count=None) for name, mark in self.marks.items()}

    def note_mode(self, table: tuple[str, str], mode: str) -> None:
        """Let the snapshot say what several statements did to a table together."""
        label = table_label(*table)
        if label in self.marks:
            self.marks[label] = replace(self.marks[label], mode=mode)
            self.operations = {
                name: None for name in self.operations if not name.endswith(f" {label}")
            }
            self.operations[f"{mode} {label}"] = None

    def note_statement(self, statement: duckdb.Statement) -> None:
        """Remember what a statement is about to do."""
        if not may_change(statement):
            return
        self._note_definition(statement)
        self.changed = self.direct = True
        self.guarded = self.guarded or is_guarded(statement)
        self.described = self.described or describes_commit(statement)
        self.operations[statement.type.name.lower().replace("_", " ")] = None
        self._forget_keys()

    def may_have_defined(self, table: tuple[str, str]) -> bool:
        """Tell whether a table may be another than the catalog knows of."""
        name = table[1].lower()
        return not self.defined.isdisjoint({name, None}) or name in self.altered

    def may_have_changed(self, table: tuple[str, str]) -> bool:
        """Tell whether this transaction changed a table, or nobody knows."""
        return self.unmarked or table_label(*table) in self.marks

    def _note_definition(self, statement: duckdb.Statement) -> None:
        """Remember what is defined anew; refuse the rename that would ruin the lake."""
        if not defines(statement):
            return
        self.changed_catalog = True
        found = altered_name(statement.query)
        if found is None:
            self.defined.add(defined_name(statement.query))
            return
        name, renames = found
        if renames and name in self.altered:
            raise StatementRefused(
                statement.query,
                f"{name!r} was altered or commented on earlier in this transaction; to rename "
                "it now would make the whole lake unreadable (DuckLake 1.5.5). Rename it "
                "first, or in a transaction of its own",
            )
        if not renames:
            self.altered.add(name)

    def _forget_keys(self) -> None:
        self.unmarked = True
        self.marks = {name: TableMark(mark.mode) for name, mark in self.marks.items()}

    @property
    def record(self) -> CommitRecord:
        """What the snapshot says of this work."""
        return CommitRecord(self.commit_id, self.marks)


@dataclass(slots=True)
class Commit:
    """A commit that went through; its snapshot is looked up when somebody asks."""

    commit_id: str
    base: int
    guarded: bool
    _snapshot: int | None = None
    _known: bool = False

    def snapshot(self, session: Session) -> int | None:
        """Give the snapshot of this commit, None if nothing had changed."""
        if not self._known:
            # Compare-and-swap publishes the next number or none.
            head = self.base + 1 if self.guarded else None
            with contextlib.closing(session.duck.cursor()) as duck:
                history = changes_between(duck, session.config, self.base, head)
            self._snapshot, self._known = history.committed(self.commit_id), True
        return self._snapshot


class Lowered:
    """A setting of the session that is lowered for a while, and must be raised again."""

    __slots__ = ("_lower", "_reset")

    def __init__(self, name: str) -> None:
        self._lower = f"SET SESSION {name} = 0"
        self._reset = f"RESET SESSION {name}"

    def lower(self, duck: duckdb.DuckDBPyConnection) -> None:
        """Set it to zero."""
        duck.execute(self._lower)

    def reset(self, duck: duckdb.DuckDBPyConnection) -> None:
        """Let it be what it is for everybody."""
        duck.execute(self._reset)


RETRIES = Lowered("ducklake_max_retry_count")
INLINING = Lowered("ducklake_default_data_inlining_row_limit")


def publish(session: Session, work: Work, info: CommitInfo) -> Commit | None:
    """Commit, by compare-and-swap if the work is guarded; None if it changed nothing.

    Raises SerializationFailure where another writer came first, CommitFailed where
    nobody did, OutcomeUnknown if that cannot be found out, FilesLost if the engine removed
    what was published.  The transaction is over in any case.
    """
    if not work.changed or session.config.read_only:
        session.duck.commit()
        return None
    base = _describe(session, work, info)
    try:
        _commit(session.duck, guarded=work.guarded)
    except duckdb.Error as error:
        roll_back(session.duck)
        _settle(session, work, base, error)
    return Commit(work.commit_id, base, work.guarded)


def refuse_drift(session: Session) -> None:
    """Raise SerializationFailure if the lake moved since this transaction pinned it."""
    base = _pinned(session)
    with contextlib.closing(session.duck.cursor()) as duck:
        history = changes_between(duck, session.config, base)
        if history.head > base:
            tables = changed_tables(duck, session.config, history)
            raise SerializationFailure(base, history.head, "", tables)


def roll_back(duck: duckdb.DuckDBPyConnection) -> None:
    """Undo what is open.

    What a failing ROLLBACK would undo is gone already: with the backend that died, or
    with the statement that ended the transaction.
    """
    with contextlib.suppress(duckdb.Error):
        duck.rollback()


def run_again(attempt: Callable[[], None], *, tries: int = TRIES) -> None:
    """Run a whole piece of work, again if another writer came first, ``tries`` times."""
    for number in range(tries):
        try:
            return attempt()
        except duckdb.Error as error:
            first = isinstance(error, SerializationFailure | CommitFailed) or has_moved(error)
            if not first or number + 1 == tries:
                raise
        pause(number)
    return None


def pause(number: int) -> None:
    """Wait before running again what failed for the ``number``-th time, from 0."""
    # Full jitter keeps losers from meeting again.
    time.sleep(random.uniform(0, min(_FIRST_PAUSE * 2**number, _LONGEST_PAUSE)))


def _describe(session: Session, work: Work, info: CommitInfo) -> int:
    """Give the snapshot its words, and tell which one this transaction has pinned."""
    base = _pinned(session)
    if not work.described:
        message = info.message or ", ".join(work.operations)
        extra = work.record.encode(info.extra)
        session.duck.execute(_DESCRIBE, [session.config.alias, info.author, message, extra])
    return base


def _pinned(session: Session) -> int:
    return pinned_snapshot(session.duck, session.config)


def _commit(duck: duckdb.DuckDBPyConnection, *, guarded: bool) -> None:
    if not guarded:
        duck.commit()
        return
    RETRIES.lower(duck)
    duck.commit()


def _settle(session: Session, work: Work, base: int, error: duckdb.Error) -> None:
    """Find out whether a commit that failed was published; if it was not, say why."""
    reason = str(error)
    try:
        history = _outcome(session, work, base)
        tables = changed_tables(session.duck, session.config, history)
        snapshot = history.committed(work.commit_id)
        files = () if snapshot is None else lost_files(session.duck, session.config, snapshot)
    except duckdb.Error as trouble:
        raise OutcomeUnknown(base, work.commit_id, f"{reason}; then {trouble}") from error
    if snapshot is not None:
        if files:
            raise FilesLost(snapshot, files) from error
        return
    if work.described and isinstance(session.config.catalog, PostgresCatalog):
        hint = "it carries no id, because its message was set by CALL, not by commit_info"
        raise OutcomeUnknown(base, work.commit_id, f"{reason}; {hint}") from error
    if history.head > base:
        raise SerializationFailure(base, history.head, reason, tables) from error
    raise CommitFailed(base, reason) from error


def _outcome(session: Session, work: Work, base: int) -> History:
    """Read what was published after ``base``, when nothing can be added to it any more."""
    history = _history(session, base)
    decided = work.guarded and history.head > base
    if decided or history.committed(work.commit_id) is not None:
        return history
    with fence(session, timeout=_FENCE_TIMEOUT):
        return _history(session, base)


def _history(session: Session, base: int) -> History:
    """Read the history, as often as a server needs to come back."""
    for wait in _LOOK_UP_PAUSES[:-1]:
        time.sleep(wait)
        with contextlib.suppress(duckdb.Error):
            return changes_between(session.duck, session.config, base)
    time.sleep(_LOOK_UP_PAUSES[-1])
    return changes_between(session.duck, session.config, base)
