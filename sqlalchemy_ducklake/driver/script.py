"""A script: several statements that are one to its user.

What the engine has no statement for (a keyed insert, a merge, RETURNING) is a
``;``-separated script.  Its text is split by the engine's own parser; a :class:`Script`
says, in the same order, what each step is for.  The driver runs the steps in one
transaction and adds up the counts; it knows nothing of keys or merges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pyarrow as pa

#: What the steps of a script may depend on besides its counts: which constraints are
#: enforced, and whether the table's key is known to be unique.
ENFORCE_KEYS, ENFORCE_ALL, TRUSTED = "enforce keys", "enforce all", "trusted"
#: The flag of a script whose changes foreign writers must not overlook (``touch.py``).
DEFENDED = "defended"


class Role(Enum):
    """What a step's result means."""

    RUN = "its result is ignored"
    COUNT = "its affected rows are added to the count that the step names"
    COUNTS = "its rows are (name, number), each added to the count of that name"
    ROWS = "its rows are the result of the script"
    CHECK = "any row is a violation; the step says which error that is"
    DROP = "it removes what the script made, and runs on every way out"


@dataclass(frozen=True, slots=True)
class Step:
    """One statement of a script.

    ``name`` is the count that a COUNT step feeds, ``less`` one that it lowers by as much.
    A step with ``when`` runs only if one of the counts it names is above zero, one with
    ``unless`` only if that count is zero; a flag of the script reads like a count of one.
    Neighbours with the same ``repeat`` run again and again until they leave that count at
    zero.  ``violation`` makes the error of a CHECK step from the rows it found.
    """

    role: Role = Role.RUN
    name: str = ""
    when: tuple[str, ...] = ()
    unless: str = ""
    repeat: str = ""
    less: str = ""
    violation: Callable[[Sequence[tuple[Any, ...]]], Exception] | None = None


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a batch: where it goes, and the type its values must fit.

    ``index`` is its place in a parameter set, ``column`` the name of its column in the
    batch, ``label`` what messages call it.  Without an ``arrow`` type the values decide.
    ``convert`` makes of what a program holds what the lake stores.
    """

    index: int
    column: str
    label: str
    arrow: pa.DataType | None = None
    type_name: str = ""
    convert: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """A parameter that is a table: its place in the parameters and its name in the steps.

    ``columns`` are the columns of the target that its columns of the same name go to.
    """

    index: int
    name: str
    columns: tuple[Parameter, ...] = ()


@dataclass(frozen=True, slots=True)
class Script:
    """What the steps of a script are for, and how its parameters become a batch.

    ``batch`` is the name under which the steps know the parameter sets of an
    ``executemany`` (None: the script takes one set), with a column ``sequence`` that
    numbers the sets from 0.  ``rowcount`` names the counts whose sum is the cursor's
    ``rowcount``; ``guarded`` scripts checked keys or change rows, so their commit must
    not be merged with anybody else's.  ``sources`` are parameters that hold tables.
    In a ``sequential`` script each set sees what the one before it did.

    ``table`` (schema and name), ``mode`` (insert, upsert, …) and ``validated_key`` (the
    columns whose values were proved unique in the whole table) are what the commit says
    of the script in the snapshot.  A script that ``keeps_key`` proves nothing: the key is
    unique after it if it was before.  ``flags`` are what its steps depend on beforehand.
    One that ``defines`` changes the catalog, not rows.
    """

    steps: tuple[Step, ...]
    batch: str | None = None
    sequence: str = ""
    parameters: tuple[Parameter, ...] = ()
    rowcount: tuple[str, ...] = ()
    guarded: bool = False
    sources: tuple[Source, ...] = ()
    sequential: bool = False
    table: tuple[str, str] | None = None
    mode: str = ""
    validated_key: tuple[str, ...] = ()
    keeps_key: bool = False
    flags: tuple[str, ...] = ()
    defines: bool = False


def readable_again(script: Script, values: Sequence[Any]) -> bool:
    """Tell whether the script's sources give their rows a second time: streams do not."""
    kept = (Sequence, pa.Table, pa.RecordBatch)
    return all(isinstance(values[source.index], kept) for source in script.sources)


@dataclass(slots=True)
class Outcome:
    """What a script did: its counts by name, as far as it came, and its flags."""

    counts: dict[str, int] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()

    def add(self, counts: Mapping[str, int]) -> None:
        """Add ``counts`` to the ones so far."""
        for name, number in counts.items():
            self.counts[name] = self.counts.get(name, 0) + number

    def wants(self, step: Step) -> bool:
        """Tell whether ``step`` has anything to do."""
        if step.unless and self._holds(step.unless):
            return False
        return not step.when or any(map(self._holds, step.when))

    def _holds(self, name: str) -> bool:
        return name in self.flags or bool(self.counts.get(name))
