"""Settings of the engine that hold for one connection while something runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import duckdb

from sqlalchemy_ducklake.lake.attach import identifier


class HeldSettings:
    """The settings that a connection has changed and must let go of.

    The engine takes no RESET in a transaction that an error ended, so what could not be
    reset at once waits for the rollback.
    """

    def __init__(self, duck: duckdb.DuckDBPyConnection) -> None:
        self._duck = duck
        self._held: set[str] = set()

    @contextlib.contextmanager
    def hold(self, values: Mapping[str, str | int]) -> Iterator[None]:
        """Set settings for this connection, and let them be as they were afterwards."""
        try:
            for name, value in values.items():
                self._held.add(name)
                self._duck.execute(f"SET SESSION {identifier(name)} = $1", [value])
            yield
        except BaseException:
            with contextlib.suppress(duckdb.Error):
                self.let_go()
            raise
        self.let_go()

    def let_go(self) -> None:
        """Let everything be as it was; for the end of a transaction too."""
        while self._held:
            name = next(iter(self._held))
            self._duck.execute(f"RESET SESSION {identifier(name)}")
            self._held.discard(name)
