"""Sinks on a disk that is really full: the error is the disk's, and nothing is left on it."""

from __future__ import annotations

import errno
import time
from pathlib import Path

import pytest
import torch

from encoding.base import Sink
from encoding.errors import StorageFailed
from encoding.formats import open_sink
from tests.disks import Disk
from tests.encoding.clips import SUFFIXES, chunks, describe, noise

pytestmark = pytest.mark.mounts

ROOM = 100_000
"""Bytes; each clip needs more."""


def leave_room(disk: Disk) -> None:
    """Fill the disk but for `ROOM` bytes."""
    disk.fill()
    size = disk.ballast.stat().st_size
    with disk.ballast.open("r+b") as file:
        file.truncate(size - ROOM)


def write_all(sink: Sink, clip: torch.Tensor) -> Path:
    """In the block of a worker, slow enough for errors of the thread to show at a later write."""
    with sink:
        for frames in chunks(clip, 4):
            sink.write(frames)
            time.sleep(0.005)
    return sink.close().path


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_disk_that_fills_up(disk: Disk, suffix: str) -> None:
    """In the middle of the file, or as it is closed; the next one is written when there is room again."""
    clip = noise(40, 64, 96)
    spec = describe(disk.path / f"clip{suffix}", clip)
    leave_room(disk)
    with pytest.raises(StorageFailed) as raised:
        write_all(open_sink(spec), clip)
    assert isinstance(raised.value.__cause__, OSError)
    assert raised.value.__cause__.errno == errno.ENOSPC
    assert list(disk.path.iterdir()) == [disk.ballast]
    disk.clear()
    assert write_all(open_sink(spec), clip).stat().st_size > ROOM


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_read_only_disk(disk: Disk, suffix: str) -> None:
    """It is refused before the first frame."""
    clip = noise(4, 64, 96)
    disk.read_only(True)
    with pytest.raises(StorageFailed) as raised:
        open_sink(describe(disk.path / f"clip{suffix}", clip))
    assert isinstance(raised.value.__cause__, OSError)
    assert raised.value.__cause__.errno == errno.EROFS
