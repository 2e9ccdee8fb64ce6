"""The rows that a scope keeps in Python, of all its tables."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from sqlalchemy_ducklake.driver import Connection
from sqlalchemy_ducklake.lake.changes import TableName
from sqlalchemy_ducklake.scope.keeping import Keeper
from sqlalchemy_ducklake.scope.log import Log, lowered
from sqlalchemy_ducklake.scope.savepoints import Savepoints
from sqlalchemy_ducklake.scope.straight import Straight
from sqlalchemy_ducklake.scope.writing import Run


class Keepers:
    """What is kept of each table, by its name in lower case.

    ``run`` runs a statement, ``make`` makes a log and its views.
    """

    def __init__(
        self,
        connection: Connection,
        run: Run,
        make: Callable[[Log], None],
        savepoints: Savepoints,
    ) -> None:
        self._connection = connection
        self._run = run
        self._make = make
        self._savepoints = savepoints
        self._keepers: dict[TableName, Keeper] = {}

    def of(self, log: Log) -> Keeper:
        """Give what is kept of a table."""
        name = lowered(log.table)
        keeper = self._keepers.get(name)
        if keeper is None:
            make, shown = partial(self._make, log), partial(self.log, [name])
            keeper = Keeper.of(self._connection, self._run, make, shown, log)
            self._keepers[name] = keeper
        return keeper

    def straight(self) -> dict[TableName, Straight]:
        """Give what is to be written without a log."""
        return {
            name: keeper.straight()
            for name, keeper in self._keepers.items()
            if keeper.goes_straight()
        }

    def log(self, tables: Iterable[TableName], *, shown: bool = True) -> None:
        """Log what is kept of these tables, and let their views show it."""
        with self.poisoning():
            for keeper in self._waiting(tables):
                if not keeper.log.made:
                    keeper.make()
                hides = keeper.log_kept(self._savepoints)
                if hides and shown and not keeper.log.hides:
                    keeper.log.hides = True
                    self._show_anew(keeper.log)

    def log_all(self) -> None:
        """Log all that is kept."""
        self.log(list(self._keepers))

    def ready(self) -> None:
        """Log what cannot be written without a log; nobody looks at it again."""
        logged = [name for name, keeper in self._keepers.items() if not keeper.goes_straight()]
        self.log(logged, shown=False)

    def show(self, tables: Iterable[TableName]) -> None:
        """Let queries see what is kept of these tables."""
        with self.poisoning():
            for keeper in self._waiting(tables):
                if not keeper.show():
                    keeper.log_shown()
                elif not keeper.log.recent:
                    keeper.log.recent = True
                    self._show_anew(keeper.log)

    def forget(self, tables: Iterable[TableName]) -> None:
        """Know nothing of these tables any more: others change their logs."""
        for table in tables:
            keeper = self._keepers.pop(table, None)
            if keeper is not None:
                keeper.hide()

    def forget_all(self) -> None:
        """Forget what is kept: it was undone, or is written."""
        self.forget(list(self._keepers))

    @contextlib.contextmanager
    def poisoning(self) -> Iterator[None]:
        """Let nothing but a rollback follow an error: half of something may be done."""
        try:
            yield
        except BaseException as error:
            self._connection.abort(error)
            raise

    def _waiting(self, tables: Iterable[TableName]) -> Iterator[Keeper]:
        for table in tables:
            keeper = self._keepers.get(table)
            if keeper is not None and keeper.kept.waits:
                yield keeper

    def _show_anew(self, log: Log) -> None:
        """Make the views of a table, which show something else than before."""
        for text in log.views():
            self._run(text)
