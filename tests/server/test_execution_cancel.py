"""A cancel at any point of a task: it ends once, soon, and leaves nothing."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest

import encoding.part
import server.engine.execution
from server.engine.base import DeviceFree, Failed, Finished, Started
from tests.server.executions import POINTS, Clip, Point, Run, Staged

pytestmark = pytest.mark.usefixtures("nothing_left")

SEEDS = range(150)


def cancel(run: Run) -> None:
    """As the worker does it: from another thread."""
    canceller = threading.Thread(target=run.execution.cancel)
    canceller.start()
    canceller.join()


def assert_cancelled(run: Run) -> None:
    last = run.events[-1]
    assert isinstance(last, Failed)
    assert (last.code, last.message) == ("cancelled", "the job was cancelled")
    assert sum(isinstance(event, Failed | Finished) for event in run.events) == 1


@pytest.mark.parametrize(
    ("point", "output"),
    [
        *((point, 0) for point in POINTS),
        *((point, 1) for point in POINTS if point[0] in ("denoise", "decode")),
    ],
)
def test_a_cancel_is_the_end_at_each_point(tmp_path: Path, point: Point, output: int) -> None:
    """Text, picture, steps, chunks, of the first output or the second: not one further point is reached."""
    run = Run(tmp_path, num_outputs=2)
    reached: list[Point] = []

    def before(here: Point) -> None:
        reached.append(here)
        if here == point and reached.count(point) == output + 1:
            cancel(run)

    run(Staged(before))
    assert_cancelled(run)
    assert reached[-1] == point
    assert reached.count(point) == output + 1
    assert {path.name for path in tmp_path.iterdir()} <= ({"video-0.mp4"} if output == 1 else set())


def test_a_cancel_before_the_start(tmp_path: Path) -> None:
    """A task that was cancelled while it waited is never said to have begun."""
    run = Run(tmp_path)
    cancel(run)
    run(Staged(lambda point: pytest.fail(f"reached {point}")))
    assert_cancelled(run)
    assert run.kinds() == [DeviceFree, Failed]


def test_a_cancel_while_the_encoder_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs the device nothing."""
    run = Run(tmp_path)
    monkeypatch.setattr(server.engine.execution, "try_spec", lambda _spec: cancel(run))
    run(Staged(lambda point: pytest.fail(f"reached {point}")))
    assert_cancelled(run)
    assert run.kinds() == [Started, DeviceFree, Failed]


def test_a_cancel_while_the_tail_is_encoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device is free already; the job ends although one call to the disk does not."""
    reached, released = threading.Event(), threading.Event()

    def sync(_self: object) -> None:
        reached.set()
        released.wait(120)

    monkeypatch.setattr(encoding.part.PartFile, "sync", sync)
    run = Run(tmp_path)
    run.execution.run(Clip())
    assert reached.wait(60)
    run.execution.cancel()
    ended = run.ended.wait(60)
    released.set()
    assert ended
    assert_cancelled(run)
    assert run.kinds() == [Started, DeviceFree, Failed]
    assert list(tmp_path.iterdir()) == []


def test_a_cancel_after_the_end_changes_nothing(tmp_path: Path) -> None:
    """The file was whole before."""
    run = Run(tmp_path)
    assert isinstance(run(Clip()), Finished)
    cancel(run)
    assert isinstance(run.events[-1], Finished)
    assert [path.name for path in tmp_path.iterdir()] == ["video-0.mp4"]


def test_a_cancel_at_any_moment(tmp_path: Path) -> None:
    """Each of many jobs has one last event: cancelled, or finished with all of its files."""
    ends, long = [], 0.1
    for seed in SEEDS:
        began = time.monotonic()
        ends.append(_raced(tmp_path / str(seed), random.Random(seed), long))  # noqa: S311 - chance, no secret
        # As long as the last one that came to its end, and longer with each that did not: whatever this
        # machine has to do beside, there are some of both.
        long = 1.1 * long if isinstance(ends[-1], Failed) else 1.3 * (time.monotonic() - began)
    assert {type(end) for end in ends} == {Failed, Finished}


def _raced(folder: Path, chance: random.Random, long: float) -> Failed | Finished:
    """How a job ends that is cancelled within so many seconds, if it is not over before."""
    folder.mkdir()
    run = Run(folder, num_outputs=2)
    canceller = threading.Timer(chance.uniform(0, long), run.execution.cancel)
    canceller.start()
    last = run(Clip())
    canceller.cancel()
    canceller.join()
    left = {path.name for path in folder.iterdir()}
    assert isinstance(last, Failed | Finished)
    assert sum(isinstance(event, Failed | Finished) for event in run.events) == 1
    assert run.forgotten == ["job"]
    if isinstance(last, Finished):
        assert left == {"video-0.mp4", "video-1.mp4"}
    else:
        assert_cancelled(run)
        assert not any(name.endswith(".part") for name in left)
    return last
