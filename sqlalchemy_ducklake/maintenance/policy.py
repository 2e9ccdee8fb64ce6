"""All upkeep of a lake in one run, as a policy says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine

from sqlalchemy_ducklake.errors import OptionError
from sqlalchemy_ducklake.lake.changes import TableName
from sqlalchemy_ducklake.maintenance.steps import (
    WEEK,
    Scope,
    Upkeep,
    chosen_tables,
    cleanup_files,
    delete_orphans,
    expire_snapshots,
    flush_inlined,
    merge_small_files,
    old_snapshots,
    refuse_read_only,
    rewrite_deleted,
)


@dataclass(frozen=True, slots=True)
class Policy:
    """What is done to a lake, and how old what goes must be.

    ``expire_older_than`` is the age of snapshots that are forgotten (None: none are), a
    week by default; ``delete_older_than`` that of files that nobody needs, by default the
    same.  ``rewrite_threshold`` is the share of deleted rows from which a file is written
    anew (None: never).  ``tables`` limits compaction and flushing to some tables.
    """

    merge: bool = True
    flush: bool = True
    rewrite_threshold: float | None = 0.95
    expire_older_than: timedelta | None = WEEK
    delete_older_than: timedelta | None = None
    orphans: bool = True
    max_files: int | None = None
    tables: Scope = None

    def __post_init__(self) -> None:
        for option in ("expire_older_than", "delete_older_than"):
            age = getattr(self, option)
            if age is not None and not (isinstance(age, timedelta) and age >= timedelta()):
                raise OptionError(option, f"is an age, not {age!r}")

    @property
    def delete_age(self) -> timedelta:
        """The age of files that may be deleted."""
        for age in (self.delete_older_than, self.expire_older_than):
            if age is not None:
                return age
        return WEEK


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: ``done`` of ``total`` steps, and the one that is next or was last."""

    done: int
    total: int
    step: str
    table: str | None = None


def maintain(
    engine: Engine,
    policy: Policy | None = None,
    *,
    dry_run: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> list[Upkeep]:
    """Do the upkeep of a lake, and tell what was done; what did nothing is left out.

    A dry run changes nothing and tells what the same run would do at the same time: what a
    run itself throws away is only deleted by a later one.  ``progress`` is called before
    each step and at the end; an error in it ends the run between two steps.

    Raises ReadOnlyLake for a lake that was opened read-only.
    """
    refuse_read_only(engine, "maintain")
    wanted = policy or Policy()
    steps = list(_steps(engine, wanted, dry_run=dry_run))
    done: list[Upkeep] = []
    for number, (name, table, run) in enumerate(steps):
        if progress is not None:
            progress(Progress(number, len(steps), name, table))
        done.extend(each for each in run() if each.count)
    if progress is not None:
        progress(Progress(len(steps), len(steps), "done"))
    return done


_Step = tuple[str, str | None, Callable[[], list[Upkeep]]]


def _steps(engine: Engine, policy: Policy, *, dry_run: bool) -> Iterator[_Step]:
    """Give the steps, in an order in which none depends on what another one did.

    Expiring and deleting look at what was there when the run began: its age is measured
    from then on.  So the dry run, which does nothing, sees the same.
    """
    began = datetime.now(UTC)
    yield from _forgetting(engine, policy, began, dry_run=dry_run)
    for name in chosen_tables(engine, policy.tables):
        yield from _compacting(engine, policy, name, dry_run=dry_run)


def _forgetting(
    engine: Engine, policy: Policy, began: datetime, *, dry_run: bool
) -> Iterator[_Step]:
    if policy.expire_older_than is not None:
        versions = old_snapshots(engine, began - policy.expire_older_than)

        def expire() -> list[Upkeep]:
            if not versions:
                return []
            return [expire_snapshots(engine, versions=versions, dry_run=dry_run)]

        yield "expire_snapshots", None, expire
    cutoff = began - policy.delete_age
    yield (
        "cleanup_files",
        None,
        lambda: [cleanup_files(engine, older_than=cutoff, dry_run=dry_run)],
    )
    if policy.orphans:
        yield (
            "delete_orphans",
            None,
            lambda: [delete_orphans(engine, older_than=cutoff, dry_run=dry_run)],
        )


def _compacting(
    engine: Engine, policy: Policy, name: TableName, *, dry_run: bool
) -> Iterator[_Step]:
    label = ".".join(name)
    threshold, most = policy.rewrite_threshold, policy.max_files
    if policy.merge:
        yield (
            "merge_small_files",
            label,
            lambda: merge_small_files(engine, [name], max_files=most, dry_run=dry_run),
        )
    if threshold is not None:
        yield (
            "rewrite_deleted",
            label,
            lambda: rewrite_deleted(engine, [name], threshold=threshold, dry_run=dry_run),
        )
    if policy.flush:
        yield "flush_inlined", label, lambda: flush_inlined(engine, [name], dry_run=dry_run)
