from __future__ import annotations

import gc
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest

from server.database import Database
from server.store import Store
from tests.server.bench import Bench, dispatching
from tests.server.door import Door, make_settings
from tests.server.internet import HERE, Internet, connected, ok
from tests.server.running import Server, serving
from tests.serving import LIGHT


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
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server over a scripted engine, with every default, its files below `tmp_path`."""
    async with serving(tmp_path) as running:
        yield running


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """A dispatcher with room for three."""
    async with dispatching(tmp_path, max_jobs=3) as made:
        yield made


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """An open one, of each kind in turn."""
    opened = Database(database_url)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


@pytest.fixture
async def internet(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Internet]:
    """One with a public name, and a page there."""
    async with connected(monkeypatch) as opened:
        opened.names["public.example"] = [HERE]
        opened.pages["/"] = ok(b"content")
        yield opened


@pytest.fixture
def light_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of this process serve a pipeline of no weight; prompts ask them for faults."""
    for name, value in LIGHT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def nothing_left(tmp_path: Path) -> Iterator[None]:
    """Threads and descriptors are counted around a test; of files, only whole videos may be there."""
    gc.collect()
    process = psutil.Process()
    threads, descriptors = threading.active_count(), process.num_fds()
    yield
    end = time.monotonic() + 60
    while time.monotonic() < end and (threading.active_count() > threads or process.num_fds() > descriptors):
        gc.collect()
        time.sleep(0.02)
    assert threading.active_count() <= threads
    assert process.num_fds() <= descriptors
    assert [path for path in tmp_path.rglob("*") if path.name.endswith(".part")] == []
