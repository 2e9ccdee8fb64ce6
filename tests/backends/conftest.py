"""Every kind of catalog with every kind of store."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from sqlalchemy import URL

from fixtures.catalogs import url_of
from fixtures.stores import Store

CATALOGS = ("ducklake", "ducklake+sqlite", "ducklake+postgresql")


@pytest.fixture(
    params=list(itertools.product(CATALOGS, ("local", "s3"))), ids=lambda both: "-".join(both)
)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> URL:
    """The address of a lake that does not exist yet."""
    catalog, place = request.param
    url = url_of(catalog, request, tmp_path)
    if place == "local":
        return url
    store: Store = request.getfixturevalue("store")
    return url.update_query_dict({**store.options(), "data_path": store.new_path()})
