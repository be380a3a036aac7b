"""What the log would say."""

from __future__ import annotations

import pytest

from server.logs import TextFormatter


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Every captured event as a line, its fields included."""
    return [TextFormatter().format(record) for record in caplog.records]
