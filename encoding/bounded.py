"""A queue between one producer and one consumer, bounded by what its items weigh."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")


class QueueClosed(Exception):
    """The queue was closed: nothing goes in or comes out any more."""


class BoundedQueue(Generic[Item]):
    """Items of at most `limit` bytes together, from `reserve` until `release`.

    A single heavier item passes when nothing else is held.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._items: deque[Item] = deque()
        self._held = 0
        self._ended = False
        self._closed = False
        self._changed = threading.Condition()

    @property
    def held(self) -> int:
        """Bytes reserved and not yet released."""
        return self._held

    def reserve(self, size: int) -> float:
        """Wait until `size` bytes fit, and hold them. Returns the seconds waited.

        Raises:
            QueueClosed: at once, or while it waits.
        """
        began = time.monotonic()
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._fits(size))
            self._check()
            self._held += size
        return time.monotonic() - began

    def release(self, size: int) -> None:
        """Stop holding `size` bytes."""
        with self._changed:
            self._held -= size
            self._changed.notify_all()

    def put(self, item: Item) -> None:
        """Add an item whose bytes are reserved."""
        with self._changed:
            self._check()
            self._items.append(item)
            self._changed.notify_all()

    def end(self) -> None:
        """Nothing more will be put; what is queued still comes out."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def close(self) -> None:
        """Drop what is queued and wake whoever waits."""
        with self._changed:
            self._closed = True
            self._items.clear()
            self._changed.notify_all()

    def __iter__(self) -> Iterator[Item]:
        """Items in order, waiting for each, until the end.

        Raises:
            QueueClosed: instead of the next item.
        """
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._ended or self._items)
                self._check()
                if not self._items:
                    return
                item = self._items.popleft()
            yield item
            del item

    def _fits(self, size: int) -> bool:
        return self._held == 0 or self._held + size <= self._limit

    def _check(self) -> None:
        if self._closed:
            raise QueueClosed
