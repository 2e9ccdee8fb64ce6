"""Lends pytest to SQLAlchemy's own suite, as its README.dialects.rst says."""

import os

import pytest

pytest.register_assert_rewrite("sqlalchemy.testing.assertions")

from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: E402, F403

if os.environ.get("WRITE_SCOPE") == "0":
    # No engine of the suite keeps its writes aside.
    from sqlalchemy_ducklake.dialect.base import DuckLakeDialect

    DuckLakeDialect.usual_scope = None
