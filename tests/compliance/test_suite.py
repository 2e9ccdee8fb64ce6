"""SQLAlchemy's own suite, with its one list of known drivers made to know ours."""

import pytest
from sqlalchemy.testing.suite import *  # noqa: F403
from sqlalchemy.testing.suite import ServerSideCursorsTest as _ServerSideCursorsTest

from sqlalchemy_ducklake.dialect.execution import StreamingCursor


class ServerSideCursorsTest(_ServerSideCursorsTest):
    def _is_server_side(self, cursor):
        return isinstance(cursor, StreamingCursor)

    @pytest.fixture(autouse=True)
    def no_row_locks_in_text(self, request):
        # The suite skips SQLite and SQL Server here by name.
        if "for_update_string" in request.node.name:
            pytest.skip("raw text asks for row locks, which the engine's grammar has not")
