"""Lends pytest to SQLAlchemy's own suite, as its README.dialects.rst says."""

import pytest

pytest.register_assert_rewrite("sqlalchemy.testing.assertions")

from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: E402, F403
