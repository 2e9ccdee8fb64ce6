"""How long a statement may take, and what stops it.

DuckDB has no such setting.  A thread interrupts it when the time is over, as another thread
of the user could.  A COMMIT is never interrupted: it takes what it takes, and whether it was
published would be a question.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

import duckdb

from sqlalchemy_ducklake.driver.keyboard import stopping
from sqlalchemy_ducklake.errors import StatementTimeout

if TYPE_CHECKING:
    from sqlalchemy_ducklake.driver.cursor import Cursor

_Method = TypeVar("_Method", bound=Callable[..., Any])

# An interrupt that comes between two calls of the engine is lost, so it is given again.
_AGAIN = 0.05


class Deadline:
    """The time that is left to what a connection does just now; without end unless set."""

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._interrupt = interrupt
        self._seconds = 0.0
        self._end: float | None = None

    @contextlib.contextmanager
    def within(self, seconds: float | None) -> Iterator[None]:
        """Give what is done ``seconds`` in all, if that is not within something else."""
        if seconds is None or self._end is not None:
            yield
            return
        self._seconds, self._end = seconds, time.monotonic() + seconds
        try:
            yield
        finally:
            self._end = None

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Interrupt the engine when the time is over, or Ctrl-C is pressed.

        Raises StatementTimeout or KeyboardInterrupt then.
        """
        if self._end is None:
            with stopping(self._interrupt):
                yield
            return
        with stopping(self._interrupt), self._timed():
            yield

    @contextlib.contextmanager
    def _timed(self) -> Iterator[None]:
        if self._end is None:
            yield
            return
        left = self._end - time.monotonic()
        if left <= 0:
            raise StatementTimeout(self._seconds)
        done, fired = threading.Event(), threading.Event()
        watch = threading.Thread(
            target=self._watch, args=(left, done, fired), name="ducklake-timeout", daemon=True
        )
        watch.start()
        try:
            yield
        except duckdb.Error as error:
            if fired.is_set():
                raise StatementTimeout(self._seconds) from error
            raise
        finally:
            done.set()
            watch.join()

    def _watch(self, left: float, done: threading.Event, fired: threading.Event) -> None:
        while not done.wait(left):
            fired.set()
            self._interrupt()
            left = _AGAIN


def in_time(method: _Method) -> _Method:
    """Let a method of a cursor execute within the time that the cursor gives a statement."""

    @functools.wraps(method)
    def run(cursor: Cursor, *args: Any, **kwargs: Any) -> Any:
        if cursor.timeout is None:
            return method(cursor, *args, **kwargs)
        with cursor.connection.deadline.within(cursor.timeout):
            return method(cursor, *args, **kwargs)

    return cast("_Method", run)


def fetching_in_time(method: _Method) -> _Method:
    """Let a method of a cursor fetch within that time, and see what an error of it ended."""

    @functools.wraps(method)
    def run(cursor: Cursor, *args: Any, **kwargs: Any) -> Any:
        deadline = cursor.connection.deadline
        try:
            with deadline.within(cursor.timeout), deadline.watching():
                return method(cursor, *args, **kwargs)
        except duckdb.NotSupportedError:
            raise  # by this driver: the engine goes on with its stream
        except (duckdb.Error, KeyboardInterrupt) as error:
            cursor.connection.note(error)
            raise

    return cast("_Method", run)
