"""Rows on the screen: as a table, drawn by rich, or as JSON."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import exc

from sqlalchemy_ducklake.maintenance import Progress

_SHOWN_ITEMS = 3


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows with the same columns, and what they are about."""

    title: str
    rows: Sequence[dict[str, Any]]


def show(rows: Rows, *, as_json: bool) -> None:
    """Print rows on standard output."""
    if as_json:
        sys.stdout.write(json.dumps(list(rows.rows), default=str, indent=2) + "\n")
        return
    from rich.table import Table

    if not rows.rows:
        _console().print(f"{rows.title}: nothing", markup=False, highlight=False)
        return
    table = Table(title=rows.title)
    for name, value in rows.rows[0].items():
        table.add_column(name, justify="right" if isinstance(value, int) else "left")
    for row in rows.rows:
        table.add_row(*map(_cell, row.values()))
    _console().print(table, markup=False)


@contextlib.contextmanager
def progress_bar(*, hidden: bool) -> Iterator[Callable[[Progress], None] | None]:
    """Show on standard error how far upkeep is, while it runs."""
    if hidden:
        yield None
        return
    _console()  # says which extra is missing
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("upkeep", total=None)

        def advance(now: Progress) -> None:
            place = f" of {now.table}" if now.table else ""
            text = f"{now.step}{place}".replace("[", "\\[")
            bar.update(task, total=now.total, completed=now.done, description=text)

        yield advance


def _console() -> Any:
    try:
        from rich.console import Console
    except ImportError as error:
        raise exc.InvalidRequestError(
            'tables are drawn by rich: pip install "sqlalchemy_ducklake[cli]", or use --json'
        ) from error
    return Console()


def _cell(value: Any) -> Any:
    from rich.text import Text

    if isinstance(value, list):
        more = f" and {len(value) - _SHOWN_ITEMS} more" if len(value) > _SHOWN_ITEMS else ""
        return Text(", ".join(map(str, value[:_SHOWN_ITEMS])) + more)
    if isinstance(value, int) and not isinstance(value, bool):
        return Text(f"{value:,}")
    return Text("" if value is None else str(value))
