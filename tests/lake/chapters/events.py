"""Events: of engines, of sessions, of mapped classes and of attributes."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sqlalchemy import Engine, event, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, with_loader_criteria


class Base(DeclarativeBase):
    """The base of the classes of this chapter."""


class Note(Base):
    """A note, perhaps hidden."""

    __tablename__ = "note"
    id: Mapped[int] = mapped_column(primary_key=True)
    text: Mapped[str]
    hidden: Mapped[bool] = mapped_column(default=False)


seen: Counter[str] = Counter()


def commented(*arguments: Any) -> tuple[str, Any]:
    """Count a statement, and leave a trace in its text."""
    seen["statements"] += 1
    return f"{arguments[2]} -- seen", arguments[3]


def committed(_: Any) -> None:
    """Count a commit."""
    seen["commits"] += 1


def trimmed(_mapper: Any, _connection: Any, note: Note) -> None:
    """Store a text without the blanks around it."""
    note.text = note.text.strip()


def never_empty(_note: Note, value: str, *_: Any) -> str:
    """Give an empty text another one."""
    return value or "(nothing)"


def without_hidden(state: Any) -> None:
    """Let no query find hidden notes."""
    if state.is_select and not state.is_column_load:
        criteria = with_loader_criteria(Note, Note.hidden.is_(False))
        state.statement = state.statement.options(criteria)


def run(engine: Engine) -> None:
    """Tell the chapter on a lake."""
    seen.clear()
    event.listen(engine, "before_cursor_execute", commented, retval=True)
    event.listen(engine, "commit", committed)
    event.listen(Note, "before_insert", trimmed)
    event.listen(Note.text, "set", never_empty, retval=True)
    event.listen(Session, "do_orm_execute", without_hidden)
    try:
        _tell(engine)
    finally:
        event.remove(Session, "do_orm_execute", without_hidden)
        event.remove(Note.text, "set", never_empty)
        event.remove(Note, "before_insert", trimmed)


def _tell(engine: Engine) -> None:
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add_all([Note(text=" a "), Note(text=""), Note(text="secret", hidden=True)])
        session.commit()
        found = session.scalars(select(Note).order_by(Note.id)).all()
        assert [note.text for note in found] == ["a", "(nothing)"]
        found[0].text = "b"
        assert session.is_modified(found[0])
        session.rollback()
        assert found[0].text == "a"
    assert seen["statements"] >= 3
    assert seen["commits"] == 2
