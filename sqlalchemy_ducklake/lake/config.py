"""What it takes to open a lake, as plain values.

Nothing here touches DuckDB or SQLAlchemy: a :class:`LakeConfig` can be built, compared
and printed in a test without opening anything.  Options that contradict each other are
refused here, once, for URLs and programs alike.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sqlalchemy_ducklake.errors import OptionError
from sqlalchemy_ducklake.lake.catalogs import Catalog, DuckDBCatalog
from sqlalchemy_ducklake.lake.storage import Storage, normal_data_path, store_of

DEFAULT_ALIAS = "lake"
RESERVED_ALIASES = frozenset({"main", "memory", "system", "temp"})


@dataclass(frozen=True, slots=True)
class LakeConfig:
    """Where a lake keeps its catalog and its data, and how to open it.

    ``schema`` is the one connections start in, ``alias`` the name of the lake inside
    DuckDB.  ``data_path`` None means: what the catalog says, and for a new lake in a
    file, a directory beside it.  ``snapshot`` (a number, or a time; a time without a
    zone is UTC) opens the lake as it was then, which is always read-only; in a DuckDB
    file it gets an alias of its own, so that it can be open beside the present.
    ``settings`` are DuckDB's own, name and value; they may hold keys, so ``repr()``
    leaves them out.
    """

    catalog: Catalog
    data_path: str | None = None
    schema: str = "main"
    alias: str = DEFAULT_ALIAS
    read_only: bool = False
    metadata_schema: str | None = None
    snapshot: int | datetime | None = None
    encrypted: bool = False
    data_inlining_row_limit: int | None = None
    override_data_path: bool = False
    automatic_migration: bool = False
    create: bool = True
    storage: Storage | None = None
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        for option, problem in self._contradictions():
            raise OptionError(option, problem)
        for name, value in self._normal_values():
            object.__setattr__(self, name, value)

    @property
    def shares_catalog(self) -> bool:
        """Whether this is a snapshot of a DuckDB file, to be attached beside the present."""
        return (
            isinstance(self.catalog, DuckDBCatalog)
            and self.snapshot is not None
            and self.alias == _snapshot_alias(self.snapshot)
        )

    @property
    def metadata_catalog(self) -> str:
        """The name of the attached catalog database, shared by the snapshots of one file."""
        return f"__ducklake_metadata_{DEFAULT_ALIAS if self.shares_catalog else self.alias}"

    @property
    def present(self) -> LakeConfig:
        """Give the lake that a snapshot of a DuckDB file is attached beside."""
        return dataclasses.replace(self, snapshot=None, alias=DEFAULT_ALIAS, create=False)

    @property
    def lake(self) -> LakeConfig:
        """Give this configuration without what belongs to one connection only."""
        return dataclasses.replace(self, schema="main")

    def _normal_values(self) -> Iterator[tuple[str, object]]:
        yield "settings", tuple(sorted(self.settings))
        yield "read_only", self.read_only or self.snapshot is not None
        if isinstance(self.catalog, DuckDBCatalog) and self.alias == DEFAULT_ALIAS:
            yield "alias", _snapshot_alias(_utc(self.snapshot))
        if self.data_path is not None:
            yield "data_path", normal_data_path(self.data_path)
        yield "snapshot", _utc(self.snapshot)

    def _contradictions(self) -> Iterator[tuple[str, str]]:
        if self.encrypted and not (self.create and not self.read_only):
            yield (
                "encrypted",
                (
                    "decides about a new lake, but create=false or read_only=true forbids "
                    "making one; leave it out, an existing lake knows whether it is encrypted"
                ),
            )
        if self.automatic_migration and self.read_only:
            yield "automatic_migration", "rewrites the catalog; it needs read_only=false"
        if self.override_data_path and self.data_path is None:
            yield "override_data_path", "needs data_path, the place to read instead"
        if self.data_inlining_row_limit is not None and self.data_inlining_row_limit < 0:
            yield "data_inlining_row_limit", "is a number of rows, 0 or more"
        if self.alias.lower() in RESERVED_ALIASES or not self.alias:
            yield "alias", f"{self.alias!r} is a name that DuckDB keeps for itself"
        yield from self._storage_contradictions()

    def _storage_contradictions(self) -> Iterator[tuple[str, str]]:
        if self.data_path is None or self.storage is None:
            return
        kind, _ = store_of(self.data_path)
        if kind != self.storage.kind:
            yield (
                "data_path",
                (
                    f"{self.data_path!r} is in a store of kind {kind!r}, but there are "
                    f"{self.storage.kind}_… options; change the path or leave them out"
                ),
            )


def _utc(snapshot: int | datetime | None) -> int | datetime | None:
    if not isinstance(snapshot, datetime):
        return snapshot
    return snapshot.replace(tzinfo=snapshot.tzinfo or UTC).astimezone(UTC)


def _snapshot_alias(snapshot: int | datetime | None) -> str:
    """Name a lake so that several snapshots of one file can be attached side by side."""
    if snapshot is None:
        return DEFAULT_ALIAS
    moment = isinstance(snapshot, datetime)
    when = f"{snapshot:%Y%m%dT%H%M%S_%f}" if moment else str(snapshot)
    return f"{DEFAULT_ALIAS}_at_{when}"
