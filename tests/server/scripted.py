"""An engine that does what a test tells it, and a dispatcher over a real store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from fractions import Fraction

from encoding.base import Artifact, OutputSpec, Tail
from pipelines.base import GenerationParams
from server.engine.base import (
    Capabilities,
    DeviceFree,
    EngineTask,
    Failed,
    Finished,
    Fragment,
    JobErrorCode,
    JobEvent,
    Progress,
    Started,
)
from server.jobs import Job, new_job_id
from server.params import Resolved


def resolved(**changes: object) -> Resolved:
    """Parameters of a small video; `changes` to `GenerationParams`."""
    params = GenerationParams(
        model="tiny",
        prompt="a circle",
        negative_prompt="",
        width=100,
        height=60,
        num_frames=18,
        seed=0,
        num_inference_steps=4,
        guidance_scale=4.0,
        guidance_scale_2=0.0,
        boundary_ratio=0.875,
        flow_shift=5.0,
        max_sequence_length=64,
    )
    return Resolved(
        params=replace(params, **changes),  # type: ignore[arg-type]
        format="mp4",
        fps=Fraction(2997, 125),
        codec_options={"crf": "18"},
        response_format="video_bytes",
        stream=False,
    )


def new_job(created_us: int = 1, **changes: object) -> Job:
    """A queued job."""
    return Job(id=new_job_id(), created_us=created_us, resolved=resolved(**changes))


def written(spec: OutputSpec, content: bytes) -> Artifact:
    """The file of `spec`, with this content, as a worker reports it."""
    spec.path.write_bytes(content)
    return Artifact(
        path=spec.path,
        format=spec.format,
        size_bytes=len(content),
        width=spec.width,
        height=spec.height,
        num_frames=spec.num_frames,
        fps=spec.fps,
        records=(),
        blocked_seconds=0.0,
        tail_seconds=0.0,
        tail=Tail(),
    )


class ScriptedEngine:
    """An `Engine` whose tasks run until `finish` or `fail` is called for them."""

    capabilities: Capabilities | None = None
    failure: str | None = None
    ready = True

    def __init__(self, slots: int = 1) -> None:
        self.slots = slots
        self.tasks: dict[str, EngineTask] = {}
        self.begun: list[str] = []
        self.cancelled: list[str] = []
        self.deaf = False
        """Whether a cancel is heard and not followed."""
        self._watchers: list[Callable[[str], None]] = []
        self.idle_s: float | None = None
        """What is told of the device's idling when a task begins."""
        self._events: dict[str, asyncio.Queue[JobEvent]] = {}

    @property
    def up(self) -> int:
        return self.slots if self.ready else 0

    def watch(self, note: Callable[[str], None]) -> None:
        self._watchers.append(note)

    def worker_ended(self, reason: str) -> None:
        for note in self._watchers:
            note(reason)

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def wait_idle(self) -> None: ...

    async def wait_ready(self) -> None: ...

    async def run(self, task: EngineTask) -> AsyncGenerator[JobEvent, None]:
        self.tasks[task.job_id] = task
        self.begun.append(task.job_id)
        events = self._events[task.job_id] = asyncio.Queue()
        yield Started(task.job_id, self.idle_s)
        event: JobEvent | None = None
        while not isinstance(event, Finished | Failed):
            event = await events.get()
            yield event

    async def cancel(self, job_id: str) -> None:
        self.cancelled.append(job_id)
        if job_id in self._events and not self.deaf:
            self.fail(job_id, "cancelled")

    def progress(self, job_id: str, step: int, steps: int) -> None:
        self._events[job_id].put_nowait(Progress(job_id, "denoise", step, steps, step / steps))

    def free(self, job_id: str) -> None:
        self._events[job_id].put_nowait(DeviceFree(job_id))

    def fragment(self, job_id: str, data: bytes) -> None:
        self._events[job_id].put_nowait(Fragment(job_id, data))

    def fail(
        self, job_id: str, code: JobErrorCode, message: str = "by the test", *, victim: bool = False
    ) -> None:
        self._events[job_id].put_nowait(Failed(job_id, code, message, victim=victim))

    def finish(self, job_id: str) -> None:
        """Write the job's files and say that they are whole."""
        artifacts = tuple(written(spec, b"video") for spec in self.tasks[job_id].outputs)
        timings = {"generation": 2.0, "denoise": 1.0, "decode": 0.5, "encode": 0.25}
        self._events[job_id].put_nowait(Finished(job_id, artifacts, timings))
