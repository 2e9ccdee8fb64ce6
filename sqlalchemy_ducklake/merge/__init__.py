"""The staged merge, on one page.

A lake has no keys, so what a database does row by row is done here for a whole batch:

1. *Stage* the batch in a temporary table that has the target's types (``staging``).
2. *Reduce* it to one change per key (``reduction``).
3. Find the *effects* with one join against the target, the only read of it: which rows
   are new, which differ, which are the same (``effects``).
4. *Check* the *images*, the rows as they would be (``images``): keys (``checks``), foreign
   keys and CHECK (``constraints``).  A violation is found before anything is written.
5. *Apply* only what differs: UPDATE first, which keeps row ids, then INSERT in the order
   of first mention.  Without effects nothing is written, so there is no snapshot.

This package turns a statement into a plan: ordered steps, each a SQLAlchemy expression and
what it is for.  It runs nothing.  The dialect compiles a plan to one ``;``-separated script,
the driver runs the script in one transaction and adds up the counts, and
:class:`~sqlalchemy_ducklake.merge.result.MergeResult` tells them.
"""

from __future__ import annotations

from sqlalchemy_ducklake.merge.result import MergeResult

__all__ = ["MergeResult"]
