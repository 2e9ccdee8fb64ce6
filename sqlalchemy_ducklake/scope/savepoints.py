"""Savepoints as marks, by name: the engine has none of its own.

A mark is a number.  What is logged carries the number of the innermost open savepoint, so
whatever came after a savepoint carries its number or a higher one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy_ducklake.errors import NoSavepoint, SavepointLost


class _Savepoint(NamedTuple):
    name: str
    mark: int


@dataclass(slots=True)
class Savepoints:
    """The open savepoints of a transaction, the innermost last.

    Names compare without regard to case; one that is used again hides the earlier one.
    """

    _open: list[_Savepoint] = field(default_factory=list)
    _last: int = 0
    _lost: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self._open)

    @property
    def mark(self) -> int:
        """The number that what is logged now carries: 0 without a savepoint."""
        return self._open[-1].mark if self._open else 0

    def take(self, name: str) -> int:
        """Open a savepoint and give its mark."""
        self._lost.pop(name.lower(), None)
        # Never a number again: what a released savepoint left behind carries its own.
        self._last += 1
        self._open.append(_Savepoint(name.lower(), self._last))
        return self.mark

    def back_to(self, name: str) -> int:
        """Close the savepoints inside of one, which stays open, and give its mark.

        Raises NoSavepoint for a name that is not open, SavepointLost for one after which
        the transaction wrote into the lake itself.
        """
        place = self._place(name)
        del self._open[place + 1 :]
        return self.mark

    def release(self, name: str) -> None:
        """Close a savepoint and those inside of it; what they did stays.

        Raises NoSavepoint for a name that is not open.
        """
        if self._lost.pop(name.lower(), None) is None:
            del self._open[self._place(name) :]

    def lose(self, because: str) -> None:
        """Close all savepoints, because what came after them cannot be undone any more."""
        self._lost |= {each.name: because for each in self._open}
        self._open.clear()

    def _place(self, name: str) -> int:
        for place in range(len(self._open) - 1, -1, -1):
            if self._open[place].name == name.lower():
                return place
        if name.lower() in self._lost:
            raise SavepointLost(name, self._lost[name.lower()])
        raise NoSavepoint(name)


class Control(NamedTuple):
    """A statement about savepoints: ``word`` is SAVEPOINT, ROLLBACK or RELEASE."""

    word: str
    name: str


def control_of(text: str) -> Control | None:
    """Read SAVEPOINT x, ROLLBACK TO [SAVEPOINT] x and RELEASE [SAVEPOINT] x.

    None for any other text: the engine's parser knows none of these.
    """
    words = text.strip().rstrip(";").split()
    upper = [each.upper() for each in words]
    if upper[:1] == ["SAVEPOINT"] and len(words) == 2:
        return Control("SAVEPOINT", _unquoted(words[1]))
    if upper[:2] == ["ROLLBACK", "TO"]:
        return _named("ROLLBACK", words[2:], upper[2:])
    if upper[:1] == ["RELEASE"]:
        return _named("RELEASE", words[1:], upper[1:])
    return None


def _named(word: str, words: list[str], upper: list[str]) -> Control | None:
    if len(words) == 2 and upper[0] == "SAVEPOINT":
        words = words[1:]
    return Control(word, _unquoted(words[0])) if len(words) == 1 else None


def _unquoted(name: str) -> str:
    if len(name) > 1 and name[0] == name[-1] == '"':
        return name[1:-1].replace('""', '"')
    return name
