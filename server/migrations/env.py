"""What Alembic runs to find its connection."""

from __future__ import annotations

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    transactional_ddl=True,  # SQLite's too: its writers begin their transactions themselves
)
context.run_migrations()
