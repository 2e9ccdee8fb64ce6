"""What a connection lets its snapshots say: the option ``ducklake_commit``."""

from __future__ import annotations

from typing import Any, cast

from sqlalchemy import exc
from sqlalchemy.engine.characteristics import ConnectionCharacteristic
from sqlalchemy.engine.interfaces import DBAPIConnection, Dialect

from sqlalchemy_ducklake.driver import Connection
from sqlalchemy_ducklake.driver.commit import CommitInfo
from sqlalchemy_ducklake.lake.marks import CommitRecord

#: The option that says author, message and extra info of what a connection commits.
COMMIT = "ducklake_commit"


class CommitCharacteristic(ConnectionCharacteristic):
    """Author, message and extra info of the commits of a connection.

    It may be set while a transaction is open, for its commit, and ends with the
    connection's way back into the pool.
    """

    transactional = False

    def set_characteristic(
        self, dialect: Dialect, dbapi_conn: DBAPIConnection, value: Any
    ) -> None:
        """Let the commits of a connection say this.

        Raises ArgumentError for what is no Commit, OptionError for extra info that is not
        JSON or takes this package's own name in it.
        """
        del dialect
        if not isinstance(value, CommitInfo):
            raise exc.ArgumentError(f"{COMMIT} is a Commit(author=…, message=…), not {value!r}")
        CommitRecord("").encode(value.extra)
        cast("Connection", dbapi_conn).commit_info = value

    def reset_characteristic(self, dialect: Dialect, dbapi_conn: DBAPIConnection) -> None:
        """Let the commits say what they say by themselves."""
        del dialect
        cast("Connection", dbapi_conn).commit_info = CommitInfo()

    def get_characteristic(self, dialect: Dialect, dbapi_conn: DBAPIConnection) -> Any:
        """Tell what the commits of a connection say."""
        del dialect
        return cast("Connection", dbapi_conn).commit_info
