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
import select
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial

import duckdb

# An interrupt that comes between two calls of the engine is lost, so it is given again.
_AGAIN = 0.05
# What is told to the thread besides signals, none of which has this number, to hear that it
# has heard of all before; and how many seconds that may take.
_ASKED, _LONGEST_WAIT = 0, 1.0


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
        self._unheard = select.poll() if os.name == "posix" else None
        self._heard = threading.Event()

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
        self._forget_earlier()
        with self._lock:
            # One of its own each time, so that nobody takes the next statement for this one.
            self._interrupt, self._fired = partial(interrupt), False
        try:
            yield
        except duckdb.InterruptException as error:
            # DuckDB may have seen the signal too, and then Python forgets it.
            if self._fired:
                raise KeyboardInterrupt from error
            raise
        finally:
            # Each call here may be where Python raises KeyboardInterrupt; it does so once.
            try:
                with self._lock:
                    self._interrupt = None
            finally:
                self._interrupt = None
                signal.set_wakeup_fd(-1)

    def _ear(self) -> int:
        """Give the file that Python writes the numbers of signals to."""
        if self._told is None:
            listening, self._told = os.pipe()
            os.set_blocking(self._told, False)
            if self._unheard is not None:
                self._unheard.register(listening, select.POLLIN)
            threading.Thread(
                target=self._listen, args=(listening,), name="ducklake-keyboard", daemon=True
            ).start()
        return self._told

    def _listen(self, listening: int) -> None:
        waiting = select.poll()
        waiting.register(listening, select.POLLIN)
        while waiting.poll():
            with self._lock:
                # Read only now, so that until now everybody sees that there is a signal.
                numbers = os.read(listening, 64)
                meant = self._interrupt if signal.SIGINT in numbers else None
            self._stop(meant)
            if _ASKED in numbers:
                self._heard.set()

    def _forget_earlier(self) -> None:
        """Let a signal that the thread has not heard of yet concern nothing that comes."""
        if self._told is not None and self._unheard is not None and self._unheard.poll(0):
            self._heard.clear()
            os.write(self._told, bytes([_ASKED]))
            self._heard.wait(_LONGEST_WAIT)

    def _stop(self, meant: Callable[[], None] | None) -> None:
        pause = threading.Event()
        while meant is not None:
            with self._lock:
                if self._interrupt is not meant:
                    return
                self._fired = True
                # Who closed the connection meanwhile has stopped it too.
                with contextlib.suppress(duckdb.Error):
                    meant()
            pause.wait(_AGAIN)


_keyboard = _Keyboard()
stopping = _keyboard.stopping

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keyboard.begin)
