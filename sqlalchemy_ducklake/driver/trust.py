"""What a connection knows of keys, so that rows are not searched for duplicates again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy_ducklake.lake.changes import pinned_snapshot
from sqlalchemy_ducklake.lake.marks import table_label
from sqlalchemy_ducklake.lake.trust import KeyOf, Proof, count_rows, prove

if TYPE_CHECKING:
    from sqlalchemy_ducklake.driver.commit import Work
    from sqlalchemy_ducklake.driver.script import Script
    from sqlalchemy_ducklake.lake.instances import Session


class Trust:
    """The proofs that a connection has found, by key."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._proofs: dict[KeyOf, Proof] = {}

    def holds(self, script: Script, work: Work) -> bool:
        """Tell whether the key that a script relies on is unique already.

        What the transaction did itself counts first; only before its first write to the
        table is the history asked.
        """
        if script.table is None or not script.validated_key:
            return False
        mark = work.marks.get(table_label(*script.table))
        if mark is not None:
            return mark.validated_key == script.validated_key
        return not work.unmarked and self._proved(KeyOf(script.table, script.validated_key))

    def rows(self, script: Script, work: Work) -> int | None:
        """Tell how many rows the table of a script has before it; None if nobody counted.

        Ask after :meth:`holds`, which finds the proof.
        """
        if script.table is None or not script.validated_key:
            return None
        mark = work.marks.get(table_label(*script.table))
        if mark is not None:
            return mark.row_count
        if work.unmarked:
            return None
        proof = self._proofs.get(KeyOf(script.table, script.validated_key))
        if proof is not None and proof.rows is not None:
            return proof.rows
        return count_rows(self._session.duck, self._session.config, script.table)

    def _proved(self, key: KeyOf) -> bool:
        duck, config = self._session.duck, self._session.config
        head = pinned_snapshot(duck, config)
        proof = prove(duck, config, key, head, self._proofs.pop(key, None))
        if proof is not None:
            self._proofs[key] = proof
        return proof is not None
