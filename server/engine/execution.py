"""One task inside a worker: its control, its sinks, and how it ends."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import closing
from itertools import groupby

from encoding.base import Artifact, OutputSpec, Sink
from encoding.formats import open_sink
from encoding.probe import try_spec
from pipelines.ahead import asked_ahead
from pipelines.base import Chunk, Pipeline, Sound, Stage
from pipelines.errors import BadOutput, Cancelled
from server.engine.base import (
    DeviceFree,
    EngineTask,
    Failed,
    Finished,
    Fragment,
    JobEvent,
    Progress,
    Started,
)
from server.engine.failures import judge

logger = logging.getLogger("reelserve.worker")


class Control:
    """`pipelines.base.Control` of one task; keeps the time of each stage. Cancelled from another thread."""

    def __init__(
        self, report: Callable[[Stage, int, int, float], None], settle: Callable[[], object]
    ) -> None:
        self._report = report
        self._settle = settle
        self._cancelled = threading.Event()
        self._stage: Stage | None = None
        self._since = time.monotonic()
        self.seconds: dict[Stage, float] = {}

    def progress(self, stage: Stage, step: int, steps: int, cost: float | None = None) -> None:
        """See `pipelines.base.Control.progress`."""
        self.check()
        self._clock(stage)
        self._report(stage, step, steps, step / steps if cost is None else cost)

    def check(self) -> None:
        """Raise `Cancelled` if the job is."""
        if self._cancelled.is_set():
            raise Cancelled("the job was cancelled")

    def cancel(self) -> None:
        self._cancelled.set()

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def end(self) -> None:
        """The device has done all that it was given, and the last stage is over."""
        self._clock(None)

    def _clock(self, stage: Stage | None) -> None:
        if stage != self._stage:
            # A GPU is behind those who give it work: without this its time would count for the next stage.
            self._settle()
        now = time.monotonic()
        if self._stage is not None:
            self.seconds[self._stage] = self.seconds.get(self._stage, 0.0) + now - self._since
        self._stage, self._since = stage, now


class Execution:
    """Runs a task on a pipeline. `send` gets its events, the last one Finished or Failed, from any thread.

    `ended` is called with the job's id just before the last event, and `lose_device` before it if an error
    has made the device unusable; that answers whether another job had found out before. `settle` waits until
    the device has done all that it was given.
    """

    def __init__(
        self,
        task: EngineTask,
        send: Callable[[JobEvent], None],
        ended: Callable[[str], object],
        lose_device: Callable[[], bool],
        settle: Callable[[], object],
    ) -> None:
        self.task = task
        self.begun = False
        self.free_at = 0.0
        """When the device was free again, on the clock `time.monotonic`."""
        self.failed = False
        self._send = send
        self._ended = ended
        self._lose_device = lose_device
        self._sinks: list[Sink] = []
        self._unfinished = len(task.outputs)
        self._lock = threading.Lock()
        self._generation = 0.0
        self._lag = 0.0
        """How long the device worked after it had been given the last of it."""
        self._control = Control(self._progress, settle)

    def cancel(self) -> None:
        """Stop at the next step or chunk; what is being encoded stops now."""
        self._control.cancel()
        for sink in tuple(self._sinks):
            sink.abort()

    def run(self, pipeline: Pipeline, idle_s: float | None = None) -> None:
        """Generate; returns when the last chunk has left the device. The sinks' results end the task.

        `idle_s`: how long the device has been free, in seconds; None if this is its first task.
        """
        self.begun = True
        started = time.monotonic()
        try:
            self._control.check()
            self._send(Started(self.task.job_id, idle_s))
            self._generate(pipeline)
            given = time.monotonic()
            # Before the next task: an error of this one's kernels that came to light there would be its own.
            self._control.end()
            self._lag = time.monotonic() - given
            self._generation = time.monotonic() - started
            logger.info("job has left the device", extra={"seconds": round(self._generation, 4)})
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends this job and no other
            for sink in self._sinks:
                sink.abort()
            self._fail(error, on_device=True)
            return
        self._free()
        for sink in self._sinks:
            sink.result.add_done_callback(self._output_done)

    def _generate(self, pipeline: Pipeline) -> None:
        for spec in self.task.outputs:
            try_spec(spec)
            self._control.check()
        # Closed here, and not when it is collected: the device is said to be free after this.
        with closing(pipeline.generate(self.task.params, self._control)) as made:
            for output, parts in groupby(made, key=lambda part: part.output):
                spec, live = self._spec(output), self._live if self.task.live and output == 0 else None
                ahead = asked_ahead(parts, spec.num_frames)
                with open_sink(spec, live) as sink:
                    self._sinks.append(sink)
                    for part in ahead:
                        _write(sink, part)
        self._control.check()  # a cancel between the last chunk and here
        if len(self._sinks) < len(self.task.outputs):
            raise BadOutput(f"{len(self._sinks)} videos were made, {len(self.task.outputs)} are wanted")

    def _spec(self, output: int) -> OutputSpec:
        """What the next output is, which a pipeline says is this one."""
        due, wanted = len(self._sinks), len(self.task.outputs)
        if output != due or due == wanted:
            raise BadOutput(f"output {output} came where {due} was due, of {wanted}")
        return self.task.outputs[output]

    def _progress(self, stage: Stage, step: int, steps: int, cost: float) -> None:
        for sink in self._sinks:
            if sink.result.done():
                sink.result.result()  # raises what it failed with: all that follows would be made for nothing
        self._send(Progress(self.task.job_id, stage, step, steps, cost))

    def _free(self) -> None:
        self.free_at = time.monotonic()
        self._send(DeviceFree(self.task.job_id))

    def _live(self, data: bytes) -> None:
        self._send(Fragment(self.task.job_id, data))

    def _output_done(self, result: Future[Artifact]) -> None:
        with self._lock:
            self._unfinished -= 1
            if self._unfinished > 0:
                return
        try:
            artifacts = tuple(sink.result.result() for sink in self._sinks)
            finished = Finished(self.task.job_id, artifacts, self._timings(artifacts))
        except (Exception, CancelledError) as error:  # noqa: BLE001 - as in `run`
            self._fail(error, on_device=False)
            return
        self._ended(self.task.job_id)
        self._send(finished)

    def _timings(self, artifacts: tuple[Artifact, ...]) -> Mapping[str, float]:
        """Seconds; `encode` is what encoding added: the waits for it, and the last tail."""
        waits = sum(artifact.blocked_seconds for artifact in artifacts)
        encode = waits + max(max(artifact.tail_seconds for artifact in artifacts) - self._lag, 0.0)
        seconds = self._control.seconds
        return {
            "generation": self._generation,
            "denoise": seconds.get("denoise", 0.0),
            "decode": seconds.get("decode", 0.0),
            "encode": encode,
        }

    def _fail(self, error: BaseException, *, on_device: bool) -> None:
        self.failed = True
        job_id, verdict = self.task.job_id, judge(error)
        victim = verdict.device_lost and self._lose_device()
        if on_device:
            self._free()
        code, message = verdict.code, verdict.message
        if self._control.cancelled:
            code, message = "cancelled", "the job was cancelled"
        elif not verdict.expected:
            known = {"job_id": job_id, "error": type(error).__name__}
            logger.error("job failed", exc_info=error, extra=known)
        self._ended(job_id)
        self._send(Failed(job_id, code, message, victim and code != "cancelled"))


def _write(sink: Sink, part: Chunk | Sound) -> None:
    match part:
        case Sound(samples, sample_rate):
            sink.write_sound(samples, sample_rate)
        case Chunk(frames):
            sink.write(frames)
