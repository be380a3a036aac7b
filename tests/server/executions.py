"""Executions over a pipeline that does what a test tells it."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable, Generator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import torch

from encoding.base import OutputSpec
from pipelines.base import Chunk, Control, GenerationParams, ModelInfo, Pipeline, Sound, Stage
from server.engine.base import EngineTask, Failed, Finished, JobEvent, Progress
from server.engine.execution import Execution
from tests.server.scripted import resolved

FRAMES = 9
WAIT_S = 60

Point = tuple[Stage, int]
POINTS: tuple[Point, ...] = (
    *(("prompt", 0), ("prompt", 1), ("image", 0), ("image", 1)),
    *(("denoise", 0), ("denoise", 1), ("denoise", 2), ("denoise", 3)),
    *(("decode", frame) for frame in range(1, FRAMES + 1)),
)
"""Where a job can be cancelled, in order; those from `denoise` on come again for each output."""


class Clip:
    """A pipeline that yields grey frames one by one, and does something before each."""

    info: ModelInfo

    def __init__(
        self,
        before: Callable[[int], None] = lambda _: None,
        value: float = 0.0,
        sound: torch.Tensor | None = None,
        sound_at: int = 0,
    ) -> None:
        """`sound`, at 16 kHz, is given for each output before its frame number `sound_at`."""
        self._before = before
        self._value = value
        self._sound = sound
        self._sound_at = sound_at

    def generate(self, params: GenerationParams, control: Control) -> Generator[Chunk | Sound]:
        for output in range(params.num_outputs):
            control.progress("denoise", output, params.num_outputs)
            for frame in range(FRAMES + 1):
                if self._sound is not None and frame == self._sound_at:
                    yield Sound(self._sound, 16_000, output)
                if frame == FRAMES:
                    break
                self._before(frame)
                control.progress("decode", frame, FRAMES)
                yield Chunk(torch.full((3, 1, params.height, params.width), self._value), output)


class Run:
    """An execution with what it sent."""

    def __init__(self, folder: Path, **changes: object) -> None:
        params = replace(resolved().params, num_frames=FRAMES, width=64, height=32, **changes)  # type: ignore[arg-type]
        outputs = tuple(
            OutputSpec(folder / f"video-{index}.mp4", "mp4", 64, 32, FRAMES, Fraction(16))
            for index in range(params.num_outputs)
        )
        self.events: list[JobEvent] = []
        self.ended = threading.Event()
        self.forgotten: list[str] = []
        self.behind: Callable[[], None] = lambda: None
        """What the device has still to do whenever it is waited for."""
        self.task = EngineTask("job", params, outputs)
        self.execution = Execution(self.task, self._send, self.forgotten.append, lambda: False, self.settle)

    def settle(self) -> None:
        self.behind()

    def _send(self, event: JobEvent) -> None:
        self.events.append(event)
        if isinstance(event, Finished | Failed):
            self.ended.set()

    def __call__(self, pipeline: Pipeline) -> JobEvent:
        """The last event."""
        self.execution.run(pipeline)
        assert self.ended.wait(WAIT_S)
        return self.events[-1]

    def wait_for_output(self, output: int) -> None:
        """Return when the file of an output is whole, or has failed."""
        result = self.execution._sinks[output].result
        assert concurrent.futures.wait([result], timeout=WAIT_S).done

    def kinds(self) -> list[type[JobEvent]]:
        return [type(event) for event in self.events if not isinstance(event, Progress)]


class Staged:
    """A pipeline with every stage that a real one has; `before` is called at each point."""

    info: ModelInfo

    def __init__(self, before: Callable[[Point], None]) -> None:
        self._before = before

    def generate(self, params: GenerationParams, control: Control) -> Generator[Chunk]:
        for point in POINTS[:4]:
            self._reach(point, control)
        for output in range(params.num_outputs):
            for point in POINTS[4:8]:
                self._reach(point, control)
            for frame in range(FRAMES):
                yield Chunk(torch.zeros(3, 1, params.height, params.width), output)
                self._reach(("decode", frame + 1), control)

    def _reach(self, point: Point, control: Control) -> None:
        self._before(point)
        stage, step = point
        control.progress(stage, step, 10)
