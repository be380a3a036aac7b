"""Jobs and keys of requests have owners; jobs know how often they were begun, and when their files go."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """What is there has no owner, and was never begun by anyone who counted."""
    op.add_column("jobs", sa.Column("owner", sa.String(64), nullable=False, server_default=sa.text("''")))
    op.add_column("jobs", sa.Column("attempts", sa.Integer, nullable=False, server_default=sa.text("0")))
    op.add_column("jobs", sa.Column("expires_us", sa.BigInteger))
    op.create_index("ix_jobs_owner", "jobs", ["owner", "created_us", "id"])
    op.create_index("ix_jobs_expires_us", "jobs", ["expires_us"])
    _key_by_owner()


def _key_by_owner() -> None:
    """Made anew: SQLite cannot change a primary key. Keys are those of one day, so there are few."""
    connection = op.get_bind()
    query = sa.text("SELECT key, fingerprint, job_id, created_us FROM idempotency_keys")
    rows = connection.execute(query).mappings().all()
    op.drop_table("idempotency_keys")
    keys = op.create_table(
        "idempotency_keys",
        sa.Column("owner", sa.String(64), primary_key=True),
        sa.Column("key", sa.String(255), primary_key=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("created_us", sa.BigInteger, nullable=False, index=True),
    )
    op.bulk_insert(keys, [{**row, "owner": ""} for row in rows])
