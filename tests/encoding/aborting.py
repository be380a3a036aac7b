"""How soon an abort returns."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from encoding.base import Sink

ABORT_S = 0.25
TRIES = 20
"""A machine that does other work may hold up some; a sink that waits for its encoder holds up all."""


def assert_abort_is_quick(folder: Path, make_busy: Callable[[], Sink]) -> None:
    """An abort of what `make_busy` opens in `folder` returns in `ABORT_S` seconds; it leaves nothing."""
    took: list[float] = []
    while not took or (took[-1] >= ABORT_S and len(took) < TRIES):
        sink = make_busy()
        began = time.monotonic()
        sink.abort()
        took.append(time.monotonic() - began)
        assert list(folder.iterdir()) == []
    assert took[-1] < ABORT_S, took
