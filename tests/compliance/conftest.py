"""Lends pytest to SQLAlchemy's own suite, as its README.dialects.rst says."""

import os

import pytest

pytest.register_assert_rewrite("sqlalchemy.testing.assertions")

from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: E402, F403

if os.environ.get("WRITE_SCOPE"):
    # Every engine of the suite keeps its writes aside, so its savepoint tests can run.
    from sqlalchemy_ducklake.dialect.base import DuckLakeDialect
    from sqlalchemy_ducklake.scope.options import WriteScope

    DuckLakeDialect.usual_scope = WriteScope()
