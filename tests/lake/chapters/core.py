"""Core: tables, inserts, selects with joins, groups and subqueries, updates and deletes."""

from __future__ import annotations

from sqlalchemy import (
    Column,
    Engine,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    inspect,
    literal_column,
    or_,
    select,
    text,
    union_all,
    update,
)

metadata = MetaData()
authors = Table(
    "authors",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(30), nullable=False),
    Column("land", String),
)
books = Table(
    "books",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("author_id", ForeignKey("authors.id"), nullable=False),
    Column("title", String, nullable=False),
)


def run(engine: Engine) -> None:
    """Tell the chapter on a lake."""
    metadata.create_all(engine)
    assert inspect(engine).get_foreign_keys("books")[0]["referred_table"] == "authors"
    with engine.begin() as connection:
        result = connection.execute(insert(authors).values(name="Ines", land="Peru"))
        assert result.inserted_primary_key == (1,)
        connection.execute(
            insert(authors), [{"name": "Omar", "land": None}, {"name": "Yuki", "land": "Japan"}]
        )
        chosen = select(authors.c.id).where(authors.c.name == bindparam("author"))
        connection.execute(
            insert(books).values(author_id=chosen.scalar_subquery()),
            [
                {"author": "Ines", "title": "Rain"},
                {"author": "Ines", "title": "Salt"},
                {"author": "Yuki", "title": "Moss"},
            ],
        )
    with engine.connect() as connection:
        joined = select(authors.c.name, books.c.title).join_from(authors, books)
        rows = connection.execute(joined.order_by(books.c.title)).all()
        assert rows == [("Yuki", "Moss"), ("Ines", "Rain"), ("Ines", "Salt")]
        counted = select(authors.c.name, func.count(books.c.id).label("n")).outerjoin(books)
        grouped = counted.group_by(authors.c.name).order_by(text("n DESC"), authors.c.name)
        assert connection.execute(grouped).all() == [("Ines", 2), ("Yuki", 1), ("Omar", 0)]
        assert connection.execute(grouped.having(func.count(books.c.id) > 1)).all() == [
            ("Ines", 2)
        ]
        idle = ~exists().where(books.c.author_id == authors.c.id)
        either = or_(idle, and_(authors.c.land == "Japan", authors.c.name.like("Y%")))
        names = select(authors.c.name).where(either)
        assert sorted(connection.scalars(names)) == ["Omar", "Yuki"]
        per_author = select(books.c.author_id, func.max(books.c.title).label("last"))
        last = per_author.group_by(books.c.author_id).cte("last")
        newest = select(authors.c.name, last.c.last).join(
            last, last.c.author_id == authors.c.id
        )
        found = {row.name: row.last for row in connection.execute(newest)}
        assert found == {"Ines": "Salt", "Yuki": "Moss"}
        place = func.row_number().over(partition_by=books.c.author_id, order_by=books.c.title)
        numbered = select(books.c.title, place).order_by(books.c.id)
        assert connection.execute(numbered).all() == [("Rain", 1), ("Salt", 2), ("Moss", 1)]
        both = union_all(select(authors.c.name), select(books.c.title)).subquery()
        assert connection.scalar(select(func.count()).select_from(both)) == 6
        assert connection.scalar(select(literal_column("1 + 1"))) == 2
    with engine.begin() as connection:
        renamed = update(authors).where(authors.c.name == "Omar").values(land="Egypt")
        assert connection.execute(renamed.returning(authors.c.id)).scalars().all() == [2]
        gone = delete(books).where(books.c.author_id == authors.c.id, authors.c.name == "Yuki")
        assert connection.execute(gone).rowcount == 1
