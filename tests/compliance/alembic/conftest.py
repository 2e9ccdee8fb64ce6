"""Lends pytest to Alembic's own suite, as Alembic's own conftest does."""

import pytest

pytest.register_assert_rewrite("sqlalchemy.testing.assertions", "alembic.testing.assertions")

from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: E402, F403
