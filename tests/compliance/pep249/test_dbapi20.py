"""The public suite of PEP 249, ``dbapi-compliance``, on a lake for each test."""

import tempfile
import unittest
from pathlib import Path

import dbapi20
import pytest

from sqlalchemy_ducklake import driver
from sqlalchemy_ducklake.lake.catalogs import DuckDBCatalog
from sqlalchemy_ducklake.lake.config import LakeConfig


class LakeTest(dbapi20.DatabaseAPI20Test):
    driver = driver

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        lake = LakeConfig(DuckDBCatalog(str(Path(folder.name, "test.ducklake"))))
        self.connect_args = (lake,)
        # What the tests leave open must be closed before the directory goes.
        self.opened = []
        self.addCleanup(lambda: [each.close() for each in self.opened])

    def _connect(self):
        self.opened.append(super()._connect())
        return self.opened[-1]

    @unittest.skip("a lake has no stored procedures")
    def test_callproc(self): ...

    def test_nextset(self):
        """PEP 249 lets a driver have no ``nextset``; the last query of a text is its result."""
        cursor = self._connect().cursor()
        assert not hasattr(cursor, "nextset")
        cursor.execute("SELECT 1; SELECT 2")
        assert cursor.fetchall() == [(2,)]

    def test_setoutputsize(self):
        """PEP 249 lets a driver do nothing; rows come whole."""
        cursor = self._connect().cursor()
        cursor.setoutputsize(1)
        cursor.setoutputsize(1, 0)
        cursor.execute("SELECT 'abc'")
        assert cursor.fetchall() == [("abc",)]

    def test_non_idempotent_close(self):
        """The suite leaves open who is right: here a second close is no error."""
        connection = self._connect()
        connection.close()
        connection.close()
        with pytest.raises(self.driver.Error):
            connection.cursor()
