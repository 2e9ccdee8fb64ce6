"""Ctrl-C while the engine works.

Python runs the handler of a signal when its main thread comes back from the engine.  DuckDB
looks for signals between two of its tasks, so one long task (a cross join, say) keeps
whoever pressed Ctrl-C waiting for a minute and more (measured on 1.5.5), however many
threads it has.  ``interrupt()`` stops it at once, but takes another thread to be called: one
that sleeps until Python tells it of a signal.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator

import duckdb

# An interrupt that comes between two calls of the engine is lost, so it is given again.
_AGAIN = 0.05


class _Keyboard:
    """Who is to be interrupted, and the thread that does it, from the first need on."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin, in a process that was forked anew: it has the pipe, but not the thread."""
        self._lock = threading.Lock()
        self._interrupt: Callable[[], None] | None = None
        self._fired = False
        self._told: int | None = None

    @contextlib.contextmanager
    def stopping(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Call ``interrupt`` when Ctrl-C is pressed; it then raises KeyboardInterrupt.

        Only in the main thread, and only where Ctrl-C means that: a program that handles it
        by itself, or lets itself be woken by signals (asyncio does), goes on as it wants.
        """
        if (
            os.name != "posix"
            or threading.current_thread() is not threading.main_thread()
            or self._interrupt is not None
            or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        ):
            yield
            return
        before = signal.set_wakeup_fd(self._ear(), warn_on_full_buffer=False)
        if before != -1:
            signal.set_wakeup_fd(before)
            yield
            return
        self._interrupt, self._fired = interrupt, False
        try:
            yield
        except duckdb.InterruptException as error:
            # DuckDB may have seen the signal too, and then Python forgets it.
            if self._fired:
                raise KeyboardInterrupt from error
            raise
        finally:
            signal.set_wakeup_fd(-1)
            with self._lock:
                self._interrupt = None

    def _ear(self) -> int:
        """Give the file that Python writes the numbers of signals to."""
        if self._told is None:
            listening, self._told = os.pipe()
            os.set_blocking(self._told, False)
            threading.Thread(
                target=self._listen, args=(listening,), name="ducklake-keyboard", daemon=True
            ).start()
        return self._told

    def _listen(self, listening: int) -> None:
        while numbers := os.read(listening, 64):
            if signal.SIGINT in numbers:
                self._stop()

    def _stop(self) -> None:
        pause = threading.Event()
        meant = self._interrupt
        while meant is not None:
            with self._lock:
                if self._interrupt is not meant:
                    return
                self._fired = True
                meant()
            pause.wait(_AGAIN)


_keyboard = _Keyboard()
stopping = _keyboard.stopping

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keyboard.begin)
