"""One revision is one transaction is one snapshot, which says what it is.

Alembic runs all revisions in one transaction unless ``env.py`` says otherwise.  On a lake
each has its own, because a table cannot be renamed after another change of the same
transaction, and because its snapshot is the place to tell of it: author, message and extra
info carry the revision.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import event, make_url
from sqlalchemy.engine import Connection

from sqlalchemy_ducklake.alembic.elements import CallLake
from sqlalchemy_ducklake.alembic.layouts import set_options
from sqlalchemy_ducklake.alembic.refusals import MigratedMeanwhile
from sqlalchemy_ducklake.alembic.stored import StoredTables
from sqlalchemy_ducklake.dialect.commits import COMMIT
from sqlalchemy_ducklake.dialect.url import config_from_url
from sqlalchemy_ducklake.driver.commit import AUTHOR, CommitInfo
from sqlalchemy_ducklake.lake.attach import attaching

if TYPE_CHECKING:
    from alembic.runtime.migration import MigrationContext, MigrationInfo

#: The name under which the extra info of a snapshot tells of a revision.
NAMESPACE = "alembic"
#: The option of ``context.configure()`` that names the lake of an offline script.
URL_OPTION = "ducklake_url"


class RevisionRun(StoredTables):
    """How a run of revisions begins and ends its transactions."""

    def __init__(self, *args: Any, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self._run: MigrationContext | None = None
        self._begun = self._attached = False
        self._steps: list[MigrationInfo] = []
        self._told_in: object = None
        self._before: CommitInfo | None = None
        self._heads: set[str] | None = None
        self._checked: object = None

    def start_migrations(self) -> None:
        """Let each revision have its own transaction, and tell of it."""
        super().start_migrations()
        run = _running_environment()
        if run is not None and run.impl is self:
            self._run = run
            # Alembic has this as an option of env.py only.
            run._transaction_per_migration = True  # noqa: SLF001
            run.on_version_apply_callbacks = (*run.on_version_apply_callbacks, self._tell)
            if not self.as_sql:
                event.listen(self.lake, "begin", self._restore)

    def emit_begin(self) -> None:
        """Begin, unless it is begun; before the first time attach the lake."""
        if not self._attached:
            self._attached = True
            for line in self._preamble():
                self.static_output(line)
        if not self._begun:
            self._begun = True
            super().emit_begin()

    def emit_commit(self) -> None:
        """Commit what was begun, then set the options of tables that it made."""
        if self._begun:
            self._begun = False
            super().emit_commit()
            for late in self.take_later():
                for call in set_options(late):
                    self._exec(call)

    def check_turn(self) -> None:
        """Raise MigratedMeanwhile if another process has run a revision since the last one.

        Within a transaction its commit finds that out.
        """
        if self.as_sql or self._run is None or self._heads is None:
            return
        now = self.lake.get_transaction()
        if now is not None and now is not self._checked and now is not self._told_in:
            self._checked = now
            found = set(self._run.get_current_heads())
            if found != self._heads:
                raise MigratedMeanwhile(self._heads, found)

    def _tell(self, *, step: MigrationInfo, heads: set[str], **_: Any) -> None:
        """Let the snapshot of a revision say what it is; called before its commit."""
        self._heads = set(heads)
        if self.as_sql:
            info = described(CommitInfo(), [step])
            extra = json.dumps(dict(info.extra))
            said = (info.author or AUTHOR, info.message)
            self._exec(CallLake("ducklake_set_commit_message", said, {"extra_info": extra}))
            return
        transaction = self.lake.get_transaction()
        if transaction is not self._told_in:
            self._told_in = transaction
            self._steps = []
            self._before = _said(self.lake)
        self._steps.append(step)
        info = described(self._before or CommitInfo(), self._steps)
        self.lake.execution_options(**{COMMIT: info})

    def _restore(self, connection: Connection) -> None:
        """Let the next transaction say what it said before."""
        if self._before is not None:
            connection.execution_options(**{COMMIT: self._before})
            self._before = None

    def _preamble(self) -> list[str]:
        """Give the lines that attach the lake; secrets are never among them."""
        run = _running_environment()
        if run is None:
            return []
        config = run.config
        url = self.context_opts.get(URL_OPTION) or (
            config and config.get_main_option("sqlalchemy.url")
        )
        if not url or make_url(url).get_backend_name() != self.__dialect__:
            return [f"-- Attach the lake here; context.configure({URL_OPTION}=…) writes it."]
        return attaching(config_from_url(make_url(url)))


def _running_environment() -> Any:
    """Give the context of the env.py that runs, None without one."""
    from alembic import context as environment  # which imports this, by its plugins

    try:
        return environment.get_context()
    except (NameError, AttributeError):
        # Alembic raises the one before the first env.py has run, the other after the last.
        return None


def described(before: CommitInfo, steps: list[MigrationInfo]) -> CommitInfo:
    """Say what revisions a commit holds, beside what it would say anyway."""
    told = [_told(step) for step in steps]
    message = "; ".join(
        f"{one['direction']} {one['revision']}" + (f": {one['doc']}" if one["doc"] else "")
        for one in told
    )
    extra = {**told[-1], "revisions": [one["revision"] for one in told]}
    return replace(before, message=message, extra={**before.extra, NAMESPACE: extra})


def _told(step: MigrationInfo) -> dict[str, Any]:
    direction = "stamp" if step.is_stamp else "upgrade" if step.is_upgrade else "downgrade"
    docs = [getattr(script, "doc", None) for script in step.up_revisions]
    return {
        "revision": ", ".join(step.up_revision_ids),
        "down_revision": list(step.down_revision_ids),
        "direction": direction,
        "doc": "; ".join(filter(None, docs)),
    }


def _said(connection: Connection) -> CommitInfo:
    raw: Any = connection.connection.dbapi_connection
    return cast("CommitInfo", raw.commit_info)
