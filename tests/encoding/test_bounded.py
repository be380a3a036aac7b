"""The queue between producer and encoder holds no more bytes than it may."""

from __future__ import annotations

import threading
import time

import pytest

from encoding.bounded import BoundedQueue, QueueClosed


def test_items_come_out_in_order_until_the_end() -> None:
    """What was put before the end is still delivered."""
    queue: BoundedQueue[int] = BoundedQueue(100)
    for item in range(5):
        assert queue.reserve(10) < 1
        queue.put(item)
    queue.end()
    assert list(queue) == [0, 1, 2, 3, 4]
    assert queue.held == 50


def test_a_full_queue_makes_the_producer_wait() -> None:
    """Until as much was released as it needs; the time is returned."""
    queue: BoundedQueue[int] = BoundedQueue(100)
    queue.reserve(60)
    releaser = threading.Timer(0.1, queue.release, (60,))
    releaser.start()
    assert queue.reserve(41) > 0.05
    releaser.join()
    assert queue.held == 41


def test_a_heavy_item_passes_alone() -> None:
    """More than the limit is taken when nothing else is held, and only then."""
    queue: BoundedQueue[int] = BoundedQueue(100)
    queue.reserve(1)
    releaser = threading.Timer(0.1, queue.release, (1,))
    releaser.start()
    assert queue.reserve(500) > 0.05
    releaser.join()
    assert queue.held == 500


@pytest.mark.parametrize("waiting", ["producer", "consumer"])
def test_closing_wakes_whoever_waits(waiting: str) -> None:
    """And drops what was queued."""
    queue: BoundedQueue[int] = BoundedQueue(10)
    if waiting == "producer":
        queue.reserve(10)
    closer = threading.Timer(0.05, queue.close)
    closer.start()
    began = time.monotonic()
    with pytest.raises(QueueClosed):
        queue.reserve(10) if waiting == "producer" else next(iter(queue))
    assert time.monotonic() - began < 5
    closer.join()
    with pytest.raises(QueueClosed):
        queue.put(1)
    with pytest.raises(QueueClosed):
        next(iter(queue))
