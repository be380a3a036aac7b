"""One task inside a worker: however it ends, nothing outlives it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

import av.error
import pytest
import torch

import encoding.part
from encoding.base import AudioSpec
from pipelines.base import Chunk, Control, GenerationParams, Sound
from pipelines.errors import BadOutput, InvalidParams, OutOfMemory
from server.engine.base import DeviceFree, Failed, Finished, Fragment, Progress, Started
from tests.server.executions import FRAMES, WAIT_S, Clip, Run

pytestmark = pytest.mark.usefixtures("nothing_left")


def raising(error: Exception, at: int) -> Callable[[int], None]:
    def before(frame: int) -> None:
        if frame == at:
            raise error

    return before


def test_a_task_that_succeeds(tmp_path: Path) -> None:
    """Started, device free, finished: with the file, and the four times that a client is told."""
    run = Run(tmp_path)
    last = run(Clip())
    assert isinstance(last, Finished)
    assert run.kinds() == [Started, DeviceFree, Finished]
    assert last.artifacts[0].path.exists()
    assert last.artifacts[0].num_frames == FRAMES
    assert set(last.timings) == {"generation", "denoise", "decode", "encode"}
    assert run.forgotten == ["job"]


def test_the_time_of_a_device_that_is_behind(tmp_path: Path) -> None:
    """It counts for the stage that gave it the work, not for the encoder; the next task comes after it."""
    run, seen = Run(tmp_path), []

    def behind() -> None:
        seen.append(run.kinds())
        if len(seen) == 3:
            run.wait_for_output(0)  # so that no encoder works longer than the device
        time.sleep(0.1)

    run.behind = behind
    last = run(Clip())
    assert isinstance(last, Finished)
    assert seen == [[Started]] * 3  # before the first stage, between two, and at the end
    assert last.timings["denoise"] >= 0.1
    assert last.timings["decode"] >= 0.1
    assert last.timings["generation"] >= 0.3
    assert last.timings["encode"] <= last.timings["generation"] - 0.2


def test_an_error_that_the_device_tells_late(tmp_path: Path) -> None:
    """It is an error of the task that gave the work, which leaves no file."""
    run = Run(tmp_path)

    def behind() -> None:
        if any(isinstance(event, Progress) and event.stage == "decode" for event in run.events):
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    run.behind = behind
    last = run(Clip())
    assert isinstance(last, Failed)
    assert last.code == "worker_crashed"
    assert list(tmp_path.iterdir()) == []


def test_two_outputs_are_two_files(tmp_path: Path) -> None:
    """Each with all of its frames, in one last event."""
    last = Run(tmp_path, num_outputs=2)(Clip())
    assert isinstance(last, Finished)
    assert [artifact.path.name for artifact in last.artifacts] == ["video-0.mp4", "video-1.mp4"]
    assert all(artifact.path.exists() for artifact in last.artifacts)


def test_a_live_task_sends_its_fragments(tmp_path: Path) -> None:
    """A fragmented MP4, all of it before the end."""
    run = Run(tmp_path)
    run.execution.task = replace(run.task, live=True)
    assert isinstance(run(Clip()), Finished)
    stream = b"".join(event.data for event in run.events if isinstance(event, Fragment))
    assert stream[4:8] == b"ftyp"
    assert stream.count(b"moof") >= 1


@pytest.mark.parametrize("at", [0, 4, FRAMES - 1])
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OutOfMemory("too large"), "out_of_memory"),
        (BadOutput("NaN"), "internal_error"),
        (InvalidParams("latents", "wrong shape"), "invalid_reference"),
        (RuntimeError("/secret/path"), "internal_error"),
        (av.error.FFmpegError(-5, "encoder"), "internal_error"),
    ],
)
def test_a_failure_while_frames_are_made(tmp_path: Path, error: Exception, code: str, at: int) -> None:
    """Before the first frame, in the middle, at the last: one error, no file, no path in the message."""
    run = Run(tmp_path)
    last = run(Clip(raising(error, at)))
    assert isinstance(last, Failed)
    assert last.code == code
    assert "/secret" not in last.message
    assert run.kinds() == [Started, DeviceFree, Failed]
    assert list(tmp_path.iterdir()) == []


def test_a_failure_of_the_second_output(tmp_path: Path) -> None:
    """It fails the job, whatever became of the first output."""
    frames = 0

    def before(_frame: int) -> None:
        nonlocal frames
        frames += 1
        if frames == FRAMES + 3:
            raise OutOfMemory("too large")

    last = Run(tmp_path, num_outputs=2)(Clip(before))
    assert isinstance(last, Failed)
    assert last.code == "out_of_memory"


def test_a_failure_of_the_first_output_ends_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the next step: what is left to be made would be made for nothing."""
    begun = threading.Event()

    def full(_self: object) -> None:
        assert begun.wait(WAIT_S)  # or the first output's own end would meet the failure
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(encoding.part.PartFile, "sync", full)
    run = Run(tmp_path, num_outputs=3)
    made = 0

    def before(_frame: int) -> None:
        nonlocal made
        made += 1
        if made == FRAMES + 2:
            begun.set()
            run.wait_for_output(0)

    last = run(Clip(before))
    assert isinstance(last, Failed)
    assert last.code == "storage_failed"
    assert made == FRAMES + 2


def test_an_output_that_was_not_made(tmp_path: Path) -> None:
    """A pipeline that ends too soon is an error, and no job that never ends."""
    run = Run(tmp_path, num_outputs=2)
    run.execution.task = replace(run.task, params=replace(run.task.params, num_outputs=1))
    last = run(Clip())
    assert isinstance(last, Failed)
    assert last.code == "internal_error"


@pytest.mark.parametrize("at", [0, 4, FRAMES])
def test_sound_goes_to_the_file_of_its_output(tmp_path: Path, at: int) -> None:
    """Before, among and after the frames of each of two outputs."""
    run = Run(tmp_path, num_outputs=2)
    outputs = tuple(
        replace(spec, path=spec.path.with_suffix(".pt"), format="pt", audio=AudioSpec(16_000, 1))
        for spec in run.task.outputs
    )
    run.execution.task = replace(run.task, outputs=outputs)
    last = run(Clip(sound=torch.full((1, 9_000), 0.5), sound_at=at))
    assert isinstance(last, Finished)
    for artifact in last.artifacts:
        heard = torch.load(artifact.path, weights_only=True)["audio"]
        assert torch.equal(heard, torch.full((1, 9_000), 0.5))  # 9 frames at 16 a second


@pytest.mark.parametrize("announced", [False, True])
def test_sound_that_is_not_as_announced(tmp_path: Path, announced: bool) -> None:
    """A model that says it is silent and is not, or the other way round, fails its job and leaves no file."""
    run = Run(tmp_path)
    audio = AudioSpec(16_000, 1) if announced else None
    spec = replace(run.task.outputs[0], path=tmp_path / "video.pt", format="pt", audio=audio)
    run.execution.task = replace(run.task, outputs=(spec,))
    last = run(Clip(sound=None if announced else torch.zeros(1, 100)))
    assert isinstance(last, Failed)
    assert (last.code, last.message.split(":")[0]) == ("encoding_failed", "sound")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("first", [1, -1])
def test_outputs_in_another_order(tmp_path: Path, first: int) -> None:
    """A pipeline that begins with another output than is due is an error of ours."""

    class Astray(Clip):
        def generate(self, params: GenerationParams, control: Control) -> Generator[Chunk | Sound]:
            for part in super().generate(params, control):
                yield replace(part, output=part.output + first)

    last = Run(tmp_path, num_outputs=2)(Astray())
    assert isinstance(last, Failed)
    assert last.code == "internal_error"
    assert list(tmp_path.iterdir()) == []


def test_frames_that_are_not_finite(tmp_path: Path) -> None:
    """NaN ends in an error of encoding, and in no file."""
    last = Run(tmp_path)(Clip(value=float("nan")))
    assert isinstance(last, Failed)
    assert last.code == "encoding_failed"
    assert list(tmp_path.iterdir()) == []


def test_a_failure_when_the_file_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fills up at the last moment: storage_failed, after the device was already free."""

    def full(_self: object) -> None:
        raise OSError(28, os.strerror(28), str(tmp_path))

    monkeypatch.setattr(encoding.part.PartFile, "sync", full)
    run = Run(tmp_path)
    last = run(Clip())
    assert isinstance(last, Failed)
    assert last.code == "storage_failed"
    assert str(tmp_path) not in last.message
    assert run.kinds() == [Started, DeviceFree, Failed]


def test_what_the_encoder_refuses_is_found_before_the_first_step(tmp_path: Path) -> None:
    """An option that no encoder takes costs no time on the device."""
    run = Run(tmp_path)
    refused = replace(run.task.outputs[0], codec_options={"preset": "fastest"})
    run.execution.task = replace(run.task, outputs=(refused,))
    begun: list[int] = []
    last = run(Clip(begun.append))
    assert isinstance(last, Failed)
    assert last.code == "encoding_failed"
    assert begun == []


def test_three_good_tasks_after_a_bad_one(tmp_path: Path) -> None:
    """The same bytes as without it."""
    first = Run(tmp_path)(Clip())
    Run(tmp_path)(Clip(raising(RuntimeError("bad"), 3)))
    assert isinstance(first, Finished)
    content = first.artifacts[0].path.read_bytes()
    for _ in range(3):
        last = Run(tmp_path)(Clip())
        assert isinstance(last, Finished)
        assert last.artifacts[0].path.read_bytes() == content
