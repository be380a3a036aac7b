"""The queue between producer and encoder holds no more bytes than it may."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from encoding.bounded import BoundedQueue, QueueClosed

WAIT_S = 0.1


class Told(threading.Condition):
    """Says when somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.waited_for = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.waited_for.set()
        return super().wait(timeout)


@contextmanager
def once_it_waits(
    queue: BoundedQueue[int], monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]
) -> Iterator[None]:
    """Beside the block: `act`, when the block has waited for the queue as long as `WAIT_S`."""
    changed = Told()
    monkeypatch.setattr(queue, "_changed", changed)

    def run() -> None:
        changed.waited_for.wait()
        time.sleep(WAIT_S)
        act()

    actor = threading.Thread(target=run, daemon=True)
    actor.start()
    yield
    actor.join()


def test_items_come_out_in_order_until_the_end() -> None:
    """What was put before the end is still delivered."""
    queue: BoundedQueue[int] = BoundedQueue(100)
    for item in range(5):
        queue.reserve(10)
        queue.put(item)
    queue.end()
    assert list(queue) == [0, 1, 2, 3, 4]
    assert queue.held == 50


def test_a_full_queue_makes_the_producer_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until as much was released as it needs; the time is returned."""
    queue: BoundedQueue[int] = BoundedQueue(100)
    queue.reserve(60)
    with once_it_waits(queue, monkeypatch, lambda: queue.release(60)):
        assert queue.reserve(41) >= WAIT_S
    assert queue.held == 41


def test_a_heavy_item_passes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than the limit is taken when nothing else is held, and only then."""
    queue: BoundedQueue[int] = BoundedQueue(100)
    queue.reserve(1)
    with once_it_waits(queue, monkeypatch, lambda: queue.release(1)):
        assert queue.reserve(500) >= WAIT_S
    assert queue.held == 500


@pytest.mark.parametrize("waiting", ["producer", "consumer"])
def test_closing_wakes_whoever_waits(waiting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And drops what was queued."""
    queue: BoundedQueue[int] = BoundedQueue(10)
    if waiting == "producer":
        queue.reserve(10)
    with once_it_waits(queue, monkeypatch, queue.close), pytest.raises(QueueClosed):
        queue.reserve(10) if waiting == "producer" else next(iter(queue))
    with pytest.raises(QueueClosed):
        queue.put(1)
    with pytest.raises(QueueClosed):
        next(iter(queue))
