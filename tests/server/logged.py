"""What the log would say."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from server.logs import TextFormatter


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Every captured event as a line, with the fields that it was given itself."""
    return [TextFormatter().format(record) for record in caplog.records]


@contextmanager
def writing(caplog: pytest.LogCaptureFixture, level: int = logging.INFO) -> Iterator[None]:
    """Let `caplog.text` be what the log would be, with the fields that were bound when a line was said."""
    before = caplog.handler.formatter
    caplog.handler.setFormatter(TextFormatter())
    try:
        with caplog.at_level(level):
            yield
    finally:
        caplog.handler.setFormatter(before)
