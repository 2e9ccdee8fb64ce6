"""How long a statement may take, as an execution option: ``ducklake_timeout`` in seconds.

It stands above what the URL or ``connect_args`` say with ``statement_timeout``, and None
takes away any limit.  It counts for the execution and again for each fetch of rows.
"""

from __future__ import annotations

import threading
from typing import Any, cast

from sqlalchemy import exc
from sqlalchemy.engine.interfaces import DBAPICursor

from sqlalchemy_ducklake import driver

OPTION = "ducklake_timeout"


def limited(cursor: DBAPICursor, context: Any) -> driver.Cursor:
    """Let a cursor keep to the time that its statement's options give it.

    Raises ArgumentError for what is no such time.
    """
    own = cast("driver.Cursor", cursor)
    options = {} if context is None else context.execution_options
    if OPTION in options:
        own.timeout = _seconds(options[OPTION])
    return own


def _seconds(value: Any) -> float | None:
    if value is None:
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and 0 < value < threading.TIMEOUT_MAX:
        return float(value)
    raise exc.ArgumentError(f"{OPTION} is {value!r}; it must be seconds, more than 0, or None")
