"""Run the revisions on the lake that alembic.ini names, or write them as a script."""

from alembic import context
from sqlalchemy import create_engine

from migrations_example.flights import Base

url = context.config.get_main_option("sqlalchemy.url") or ""
if context.is_offline_mode():
    context.configure(url=url, target_metadata=Base.metadata, literal_binds=True)
    context.run_migrations()
else:
    with create_engine(url).connect() as connection:
        context.configure(connection=connection, target_metadata=Base.metadata)
        context.run_migrations()
