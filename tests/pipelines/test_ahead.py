"""How much is made before somebody turns to the encoder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from pipelines.ahead import asked_ahead
from pipelines.base import Chunk, Sound

QUEUED = "meta"
"""A device that has made nothing when it gives a tensor."""


def chunk(frames: int, device: str) -> Chunk:
    return Chunk(torch.empty(3, frames, 4, 4, device=device))


def asked(parts: list[Chunk | Sound], num_frames: int) -> int:
    """How many of `parts` were asked for before the first was taken; all of them come, in order."""
    given: list[Chunk | Sound] = []

    def made() -> Iterator[Chunk | Sound]:
        for part in parts:
            given.append(part)
            yield part

    ahead = asked_ahead(made(), num_frames)
    count = len(given)
    assert [id(part) for part in ahead] == [id(part) for part in parts]
    return count


def test_two_chunks_are_queued_on_a_device() -> None:
    assert asked([chunk(1, QUEUED), chunk(4, QUEUED), chunk(4, QUEUED)], 9) == 2


def test_a_cpu_has_made_what_it_gives() -> None:
    """A second chunk would hold up the first."""
    assert asked([chunk(1, "cpu"), chunk(4, "cpu")], 5) == 1


@pytest.mark.parametrize("device", ["cpu", QUEUED])
def test_a_sound_is_no_chunk(device: str) -> None:
    """It is there before a speaker's pictures."""
    sound = Sound(torch.zeros(1, 8), 8)
    chunks = [chunk(1, device), chunk(4, device), chunk(4, device)]
    assert asked([sound, *chunks], 9) == 1 + asked([*chunks], 9)


def test_nothing_is_made_for_the_next_output() -> None:
    """A picture waits for no other: the part behind it may be a generation away."""
    assert asked([chunk(1, QUEUED), chunk(1, QUEUED)], 1) == 1
    assert asked([chunk(5, QUEUED), chunk(1, QUEUED)], 5) == 1
