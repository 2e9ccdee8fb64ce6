"""M27: savepoints by name, nested and shadowed, against copies of a whole state."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlalchemy_ducklake.errors import NoSavepoint, SavepointLost
from sqlalchemy_ducklake.scope.savepoints import Control, Savepoints, control_of

_NAMES = st.sampled_from(["a", "b", "A"])
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("take"), _NAMES),
        st.tuples(st.just("back"), _NAMES),
        st.tuples(st.just("release"), _NAMES),
        st.tuples(st.just("write"), st.integers(0, 3).map(str)),
    ),
    max_size=25,
)


class _Copies:
    """Savepoints as a stack of copies of everything."""

    def __init__(self) -> None:
        self.state: dict[str, int] = {}
        self.stack: list[tuple[str, dict[str, int]]] = []

    def place(self, name: str) -> int | None:
        found = [i for i, (own, _) in enumerate(self.stack) if own == name.lower()]
        return found[-1] if found else None


class _Versions:
    """A log of versions, as a scope keeps it."""

    def __init__(self) -> None:
        self.log: list[list[int | str | None]] = []

    def write(self, key: str, value: int, mark: int) -> None:
        kept = []
        for version in self.log:
            if version[0] == key and version[3] is None:
                if int(version[2] or 0) >= mark:
                    continue
                version[3] = mark
            kept.append(version)
        self.log = [*kept, [key, value, mark, None]]

    def undo(self, mark: int) -> None:
        self.log = [each for each in self.log if int(each[2] or 0) < mark]
        for each in self.log:
            if each[3] is not None and int(each[3]) >= mark:
                each[3] = None

    @property
    def state(self) -> dict[str, int]:
        return {str(key): int(value or 0) for key, value, _, until in self.log if until is None}


@given(_steps)
def test_marks_bring_back_exactly_what_copies_would(steps: list[tuple[str, str]]) -> None:
    copies, savepoints, versions = _Copies(), Savepoints(), _Versions()
    for number, (word, name) in enumerate(steps, start=1):
        if word == "write":
            copies.state[name] = number
            versions.write(name, number, savepoints.mark)
        elif word == "take":
            copies.stack.append((name.lower(), dict(copies.state)))
            savepoints.take(name)
        elif (place := copies.place(name)) is None:
            with pytest.raises(NoSavepoint):
                (savepoints.back_to if word == "back" else savepoints.release)(name)
        elif word == "back":
            copies.state = dict(copies.stack[place][1])
            del copies.stack[place + 1 :]
            versions.undo(savepoints.back_to(name))
        else:
            del copies.stack[place:]
            savepoints.release(name)
        assert versions.state == copies.state


def test_a_lost_savepoint_says_why_and_may_be_released() -> None:
    savepoints = Savepoints()
    savepoints.take("Outer")
    savepoints.lose("a table was made")
    with pytest.raises(SavepointLost) as caught:
        savepoints.back_to("outer")
    assert (caught.value.name, caught.value.because) == ("outer", "a table was made")
    savepoints.release("outer")
    with pytest.raises(NoSavepoint):
        savepoints.back_to("outer")


@pytest.mark.parametrize(
    ("text", "control"),
    [
        ("SAVEPOINT a", Control("SAVEPOINT", "a")),
        ("  savepoint a ; ", Control("SAVEPOINT", "a")),
        ('SAVEPOINT "my""sp"', Control("SAVEPOINT", 'my"sp')),
        ("ROLLBACK TO a", Control("ROLLBACK", "a")),
        ("rollback to savepoint a", Control("ROLLBACK", "a")),
        ("RELEASE a", Control("RELEASE", "a")),
        ("RELEASE SAVEPOINT a", Control("RELEASE", "a")),
        ("ROLLBACK", None),
        ("SELECT savepoint a", None),
        ("RELEASE", None),
        ("SAVEPOINT", None),
        ("ROLLBACK TO", None),
    ],
)
def test_texts_about_savepoints_are_read(text: str, control: Control | None) -> None:
    assert control_of(text) == control
