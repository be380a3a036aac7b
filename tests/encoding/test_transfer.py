"""Waiting for a copy on its way to the host."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
import torch

from encoding.transfer import Arrival, Stopped

if TYPE_CHECKING:
    from collections.abc import Callable


class Copy:
    """An event of the device; `looks` at it later it has come, and each look calls `at_look`."""

    def __init__(self, looks: int, at_look: Callable[[], None] = lambda: None) -> None:
        self.left = looks
        self._at_look = at_look

    def query(self) -> bool:
        self._at_look()
        self.left -= 1
        return self.left < 0


def arriving(event: Copy) -> Arrival:
    """Two frames of three bytes, all finite."""
    found: Any = event
    return Arrival(2, torch.tensor([1, 2, 3, 4, 5, 6, 1], dtype=torch.uint8), found)


@pytest.mark.parametrize("last", [False, True])
def test_frames_are_given_when_they_have_come(*, last: bool) -> None:
    event = Copy(3)
    frames = arriving(event).wait(threading.Event(), last=last)
    assert frames.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert event.left == -1


@pytest.mark.parametrize("last", [False, True])
def test_a_wait_ends_when_the_sink_is_aborted(*, last: bool) -> None:
    """Though the copy never ends."""
    stop = threading.Event()
    event = Copy(10**9, stop.set)
    with pytest.raises(Stopped):
        arriving(event).wait(stop, last=last)
    assert event.left == 10**9 - 1
