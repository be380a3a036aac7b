"""The rules of a sink: how it ends, and that nothing is left of a failure."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, wait
from pathlib import Path

import pytest
import torch

from encoding.base import Sink
from encoding.errors import EncodingError, SinkClosed
from encoding.formats import open_sink
from encoding.frames import YUV420P
from encoding.mp4 import VideoWriter
from encoding.session import start
from tests.encoding.aborting import assert_abort_is_quick
from tests.encoding.clips import FILM, SUFFIXES, describe, encode, noise, smooth
from tests.encoding.held import HELD_S, HeldWriter, open_held
from tests.encoding.judge import assert_plays

PATIENCE_S = 60.0
"""For what will happen; less than what is held is held."""


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited for {PATIENCE_S} seconds"
        time.sleep(0.002)


def in_thread(call: Callable[[], None]) -> tuple[threading.Thread, list[BaseException]]:
    """Run `call` beside the test; what it raises is appended."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except EncodingError as error:
            raised.append(error)

    thread = threading.Thread(target=run, name="producer")
    thread.start()
    return thread, raised


def write_then_fail(sink: Sink, frames: torch.Tensor) -> None:
    """A worker whose generation fails."""
    with sink:
        sink.write(frames)
        raise KeyError("generation")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_file_appears_only_when_whole(tmp_path: Path, suffix: str) -> None:
    """Its name is not there before the result is, and nothing else is there afterwards."""
    clip = smooth(6, 32, 48)
    path = tmp_path / f"clip{suffix}"
    with open_sink(describe(path, clip)) as sink:
        sink.write(clip[:, :5])
        assert not path.exists()
        sink.write(clip[:, 5:])
    artifact = sink.result.result(PATIENCE_S)
    assert list(tmp_path.iterdir()) == [path] == [artifact.path]
    assert sink.close() == artifact


def test_an_older_file_is_replaced(tmp_path: Path) -> None:
    """A second run of a job writes over what the first left."""
    clip = smooth(6, 32, 48)
    (tmp_path / "clip.mp4").write_bytes(b"old")
    assert_plays(encode(describe(tmp_path / "clip.mp4", clip), clip).path, (48, 32), 6, FILM)


def test_finish_returns_before_the_tail_is_encoded(tmp_path: Path, writers: list[HeldWriter]) -> None:
    """The producer is free while frames still wait. Finishing twice changes nothing."""
    clip = smooth(6, 32, 48)
    with open_held(describe(tmp_path / "clip.mp4", clip), writers) as sink:
        sink.write(clip)
    assert not sink.result.done()
    assert sink.finish() is sink.result
    writers[-1].may_go.set()
    assert sink.result.result(PATIENCE_S).tail_seconds > 0


@pytest.mark.parametrize("ends", [True, False])
def test_the_file_is_made_before_its_end_is_told(tmp_path: Path, ends: bool) -> None:
    """Once the last frame is there, all but the name; that only with `finish`, and never after an abort."""
    checked = threading.Event()

    class Told(VideoWriter):
        def check(self, path: Path) -> None:
            super().check(path)
            checked.set()

    clip = smooth(6, 32, 48)
    path = tmp_path / "clip.mp4"
    sink = start(describe(path, clip), lambda file: Told(describe(path, clip), file))
    sink.write(clip)
    assert checked.wait(PATIENCE_S)
    assert not path.exists()
    if ends:
        assert sink.close().path == path
    else:
        sink.abort()
    assert path.exists() == ends


def test_a_result_does_not_wait_for_what_is_let_go(tmp_path: Path) -> None:
    """The file is there; the encoder's memory and threads are given back behind it."""
    may_go, gone = threading.Event(), threading.Event()

    class Slow(VideoWriter):
        def abandon(self) -> None:
            may_go.wait(HELD_S)
            super().abandon()
            gone.set()

    clip = smooth(6, 32, 48)
    spec = describe(tmp_path / "clip.mp4", clip)
    sink = start(spec, lambda file: Slow(spec, file))
    sink.write(clip)
    assert sink.close().path.exists()
    assert not gone.is_set()
    may_go.set()
    assert gone.wait(PATIENCE_S)


@pytest.mark.parametrize("end", ["finish", "close", "abort"])
def test_nothing_is_taken_after_the_end(tmp_path: Path, end: str) -> None:
    """A write after finish, close or abort says so."""
    clip = smooth(4, 32, 48)
    sink = open_sink(describe(tmp_path / "clip.mp4", clip))
    sink.write(clip)
    getattr(sink, end)()
    with pytest.raises(SinkClosed, match=r"clip\.mp4"):
        sink.write(clip)
    sink.abort()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_exception_in_the_block_aborts(tmp_path: Path, suffix: str) -> None:
    """It passes unchanged; the result is cancelled and the folder empty."""
    clip = smooth(9, 32, 48)
    sink = open_sink(describe(tmp_path / f"a{suffix}", clip))
    with pytest.raises(KeyError, match="generation"):
        write_then_fail(sink, clip[:, :4])
    assert sink.result.cancelled()
    assert list(tmp_path.iterdir()) == []


def test_abort_twice_is_abort_once(tmp_path: Path) -> None:
    """Aborting again, finishing and closing afterwards do no harm; waiting for the result ends."""
    clip = smooth(4, 32, 48)
    sink = open_sink(describe(tmp_path / "clip.mp4", clip))
    sink.abort()
    sink.abort()
    assert wait([sink.finish()], PATIENCE_S).not_done == set()
    with pytest.raises(CancelledError):
        sink.result.result()
    with pytest.raises(SinkClosed):
        sink.close()
    assert list(tmp_path.iterdir()) == []


def test_abort_after_the_result_keeps_the_file(tmp_path: Path) -> None:
    """What was finished stays."""
    clip = smooth(4, 32, 48)
    with open_sink(describe(tmp_path / "clip.mp4", clip)) as sink:
        sink.write(clip)
    artifact = sink.close()
    sink.abort()
    assert artifact.path.exists()
    assert sink.result.result() == artifact


def test_abort_ends_a_blocked_write(tmp_path: Path, writers: list[HeldWriter]) -> None:
    """A producer that waits for room is freed by whoever aborts, in another thread."""
    clip = smooth(20, 32, 48)
    spec = describe(tmp_path / "clip.mp4", clip, max_pending_bytes=3 * YUV420P.packed_bytes(1, 48, 32))
    sink = open_held(spec, writers)
    producer, raised = in_thread(lambda: sink.write(clip))
    wait_until(lambda: sink.pending_bytes > 2 * YUV420P.packed_bytes(1, 48, 32))
    sink.abort()
    producer.join(PATIENCE_S)  # the writer is held for longer
    assert [type(error) for error in raised] == [SinkClosed]
    assert list(tmp_path.iterdir()) == []


def test_abort_is_quick_in_mid_encode(tmp_path: Path) -> None:
    """With 720p noise before it and much of it queued, the encoder stops at once and leaves nothing."""
    clip = noise(8, 720, 1280)

    def make_busy() -> Sink:
        sink = open_sink(describe(tmp_path / "clip.mp4", clip, max_pending_bytes=2**28))
        sink.write(clip)
        time.sleep(0.1)
        return sink

    assert_abort_is_quick(tmp_path, make_busy)


def test_abort_does_not_wait_for_a_stuck_encoder(tmp_path: Path, writers: list[HeldWriter]) -> None:
    """It returns although the thread is inside a call that does not; the thread ends when that returns."""
    clip = smooth(6, 32, 48)

    def make_busy() -> Sink:
        sink = open_held(describe(tmp_path / "clip.mp4", clip), writers)
        sink.write(clip)
        assert writers[-1].holds.wait(PATIENCE_S)
        return sink

    assert_abort_is_quick(tmp_path, make_busy)
    assert any(thread.name == "encode clip.mp4" for thread in threading.enumerate())
    encode(describe(tmp_path / "clip.mp4", clip), clip)  # a retry is not disturbed by what still ends
    for writer in writers:
        writer.may_go.set()
    wait_until(lambda: not any(thread.name.startswith("encode") for thread in threading.enumerate()))
    assert list(tmp_path.iterdir()) == [tmp_path / "clip.mp4"]


def test_abort_from_the_encoders_own_thread(tmp_path: Path) -> None:
    """A live callback may abort the sink that calls it."""
    clip = noise(41, 32, 48)
    sinks: list[Sink] = []
    aborted = threading.Event()

    def abort_all(_: bytes) -> None:
        for sink in sinks:
            sink.abort()
            aborted.set()

    with open_sink(describe(tmp_path / "clip.mp4", clip), abort_all) as sink:
        sinks.append(sink)
        sink.write(clip[:, :40])
        assert aborted.wait(PATIENCE_S)
        with pytest.raises(SinkClosed):
            sink.write(clip[:, 40:])
    assert sink.result.cancelled()
    assert list(tmp_path.iterdir()) == []


def test_a_result_that_its_holder_cancels_is_an_abort(tmp_path: Path, writers: list[HeldWriter]) -> None:
    """No file appears for a future that nobody wants any more."""
    clip = smooth(6, 32, 48)
    with open_held(describe(tmp_path / "clip.mp4", clip), writers) as sink:
        sink.write(clip)
    assert sink.result.cancel()
    writers[-1].may_go.set()
    wait_until(lambda: list(tmp_path.iterdir()) == [])
