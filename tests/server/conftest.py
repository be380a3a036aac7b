from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.server.bench import Bench, dispatching
from tests.server.door import Door, make_settings


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    """A server with every default."""
    opened = Door(make_settings())
    yield opened
    await opened.close()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    folder.mkdir()
    return folder / "image.png"


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """A dispatcher with room for three."""
    async with dispatching(tmp_path, max_jobs=3) as made:
        yield made
