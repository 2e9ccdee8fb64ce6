"""SQLAlchemy's own suite, with its one list of known drivers made to know ours."""

from sqlalchemy.testing.suite import *  # noqa: F403
from sqlalchemy.testing.suite import ServerSideCursorsTest as _ServerSideCursorsTest

from sqlalchemy_ducklake.dialect.execution import StreamingCursor


class ServerSideCursorsTest(_ServerSideCursorsTest):
    def _is_server_side(self, cursor):
        return isinstance(cursor, StreamingCursor)
