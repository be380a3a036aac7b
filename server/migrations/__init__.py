"""The tables as they came to be: one revision a change, applied when a server opens its database.

A change of a table in the code needs a revision in `versions/`; a test compares the two. There is no way
back: an older server refuses a newer database, and only a backup returns to it.
"""

from __future__ import annotations

import logging
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from server.start import StartError

logger = logging.getLogger("reelserve.store")

HEAD = "0002"
"""The newest revision, known without importing Alembic: a start that has nothing to do takes no time."""

BASE = "0001"
"""The tables of the first servers, which did not say their revision."""

_LOCK = 7_310_001
"""PostgreSQL's advisory lock of whoever changes tables."""


def upgrade(connection: Connection) -> None:
    """Bring the tables to `HEAD`, in the transaction of `connection`; one server at a time does it.

    Raises:
        StartError: a newer server has changed them.
    """
    if revision(connection) == HEAD:
        return
    if connection.dialect.name == "postgresql":  # SQLite's writers are alone as it is
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    found = revision(connection)
    if found == HEAD:
        return
    if found is None and inspect(connection).has_table("jobs"):
        found = BASE
    _apply(connection, found)


def revision(connection: Connection) -> str | None:
    """What the database says that it is; None if it says nothing."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return found


def _apply(connection: Connection, found: str | None) -> None:
    """Every revision after `found`, in order."""
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    logging.getLogger("alembic").setLevel(logging.WARNING)
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    known = {step.revision for step in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        raise StartError(
            f"store.url: the database has the revision {found}, which a newer version of reelserve made; "
            f"this one knows revisions up to {HEAD}: install the newer version, or restore an older backup"
        )
    if found is not None:
        command.stamp(config, found)
    command.upgrade(config, HEAD)
    was = "made" if found is None else f"from revision {found}"
    logger.info("database upgraded", extra={"reason": f"{was} to revision {HEAD}"})
