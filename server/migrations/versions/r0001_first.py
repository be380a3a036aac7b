"""The tables of the first servers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Jobs, keys of requests, and events to be delivered."""
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("created_us", sa.BigInteger, nullable=False, index=True),
        sa.Column("status", sa.String(16), nullable=False, index=True),
        sa.Column("resolved", sa.Text, nullable=False),
        sa.Column("waits", sa.Boolean, nullable=False),
        sa.Column("remixed_from", sa.String(64)),
        sa.Column("progress", sa.Integer, nullable=False),
        sa.Column("started_us", sa.BigInteger),
        sa.Column("completed_us", sa.BigInteger),
        sa.Column("error", sa.JSON),
        sa.Column("files", sa.JSON, nullable=False),
        sa.Column("timings", sa.JSON, nullable=False),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("key", sa.String(255), primary_key=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("created_us", sa.BigInteger, nullable=False, index=True),
    )
    op.create_table(
        "webhook_deliveries",
        sa.Column("event_id", sa.String(64), primary_key=True),
        sa.Column("url", sa.String(2000), primary_key=True),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("created_us", sa.BigInteger, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("next_us", sa.BigInteger, nullable=False, index=True),
    )
