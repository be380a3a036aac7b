"""What a session's thread has ready before the end, when somebody waits for the file."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch

from encoding.formats import open_sink
from encoding.mp4 import VideoWriter
from encoding.part import PartFile
from encoding.session import Session
from encoding.transfer import Arrival
from tests.encoding.clips import chunks, describe, smooth


def test_the_thread_that_syncs_is_there_before_the_end(tmp_path: Path) -> None:
    """To start one takes as long as the check beside it."""
    there: list[threading.Thread] = []
    synced: list[threading.Thread] = []

    class Told(PartFile):
        def sync(self) -> None:
            synced.append(threading.current_thread())
            super().sync()

    class Telling(VideoWriter):
        def add(self, frame: torch.Tensor) -> None:
            there.extend(threading.enumerate())
            super().add(frame)

    clip = smooth(4, 32, 48)
    spec = describe(tmp_path / "clip.mp4", clip)
    part = Told(spec.path)
    sink = Session(spec, Telling(spec, part.file), part)
    sink.write(clip)
    sink.close()
    assert len(synced) == 1
    assert synced[0] in there


def test_the_last_chunk_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked for more often: from then on somebody waits for the file."""
    told: list[bool] = []
    wait = Arrival.wait

    def watched(self: Arrival, stop: threading.Event, *, last: bool = False) -> torch.Tensor:
        told.append(last)
        return wait(self, stop, last=last)

    monkeypatch.setattr(Arrival, "wait", watched)
    clip = smooth(9, 32, 48)
    with open_sink(describe(tmp_path / "clip.mp4", clip)) as sink:
        for frames in chunks(clip, 4):
            sink.write(frames)
    sink.close()
    assert told == [False, False, True]
