"""One task inside a worker: its control, its sinks, and how it ends."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from itertools import groupby
from types import MappingProxyType

from encoding.base import Artifact, Sink
from encoding.errors import EncodingError, StorageFailed
from encoding.formats import open_sink
from encoding.probe import try_spec
from pipelines.base import Pipeline, Stage
from pipelines.errors import BadOutput, Cancelled, InvalidParams, OutOfMemory
from server.engine.base import (
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

logger = logging.getLogger("reelserve.worker")

ERROR_CODES: Mapping[type[Exception], JobErrorCode] = MappingProxyType(
    {
        Cancelled: "cancelled",
        CancelledError: "cancelled",
        InvalidParams: "invalid_reference",
        OutOfMemory: "out_of_memory",
        BadOutput: "internal_error",
        StorageFailed: "storage_failed",
        EncodingError: "encoding_failed",
    }
)
"""What a client is told, looked up along the MRO; any other error is ours: `internal_error`."""

PRIVATE: Mapping[JobErrorCode, str] = MappingProxyType(
    {"storage_failed": "the server could not store the file", "cancelled": "the job was cancelled"}
)
"""Said instead of the error's own words, which may name paths of this machine."""


class Control:
    """`pipelines.base.Control` of one task; keeps the time of each stage. Cancelled from another thread."""

    def __init__(self, report: Callable[[Stage, int, int, float], None]) -> None:
        self._report = report
        self._cancelled = threading.Event()
        self._stage: Stage | None = None
        self._since = time.monotonic()
        self.seconds: dict[Stage, float] = {}

    def progress(self, stage: Stage, step: int, steps: int, cost: float | None = None) -> None:
        """See `pipelines.base.Control.progress`."""
        if self._cancelled.is_set():
            raise Cancelled("the job was cancelled")
        self._clock(stage)
        self._report(stage, step, steps, step / steps if cost is None else cost)

    def cancel(self) -> None:
        self._cancelled.set()

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def _clock(self, stage: Stage) -> None:
        now = time.monotonic()
        if self._stage is not None:
            self.seconds[self._stage] = self.seconds.get(self._stage, 0.0) + now - self._since
        self._stage, self._since = stage, now


class Execution:
    """Runs a task on a pipeline. `send` gets its events, the last one Finished or Failed, from any thread.

    `ended` is called with the job's id just before the last event.
    """

    def __init__(
        self, task: EngineTask, send: Callable[[JobEvent], None], ended: Callable[[str], object]
    ) -> None:
        self.task = task
        self._send = send
        self._ended = ended
        self._sinks: list[Sink] = []
        self._unfinished = len(task.outputs)
        self._lock = threading.Lock()
        self._generation = 0.0
        self._control = Control(lambda *done: send(Progress(task.job_id, *done)))

    def cancel(self) -> None:
        """Stop at the next step or chunk; what is being encoded stops now."""
        self._control.cancel()
        for sink in tuple(self._sinks):
            sink.abort()

    def run(self, pipeline: Pipeline) -> None:
        """Generate; returns when the last chunk has left the device. The sinks' results end the task."""
        started = time.monotonic()
        try:
            self._send(Started(self.task.job_id))
            self._generate(pipeline)
            self._generation = time.monotonic() - started
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends this job and no other
            for sink in self._sinks:
                sink.abort()
            self._send(DeviceFree(self.task.job_id))
            self._fail(error)
            return
        self._send(DeviceFree(self.task.job_id))
        for sink in self._sinks:
            sink.result.add_done_callback(self._output_done)

    def _generate(self, pipeline: Pipeline) -> None:
        for spec in self.task.outputs:
            try_spec(spec)
        chunks = pipeline.generate(self.task.params, self._control)
        for output, group in groupby(chunks, key=lambda chunk: chunk.output):
            live = self._live if self.task.live and output == 0 else None
            with open_sink(self.task.outputs[output], live) as sink:
                self._sinks.append(sink)
                for chunk in group:
                    sink.write(chunk.frames)
        if self._control.cancelled:  # between the last chunk and here
            raise Cancelled("the job was cancelled")

    def _live(self, data: bytes) -> None:
        self._send(Fragment(self.task.job_id, data))

    def _output_done(self, result: Future[Artifact]) -> None:
        with self._lock:
            self._unfinished -= 1
            if self._unfinished > 0:
                return
        try:
            artifacts = tuple(sink.result.result() for sink in self._sinks)
        except (Exception, CancelledError) as error:  # noqa: BLE001 - as in `run`
            self._fail(error)
            return
        self._ended(self.task.job_id)
        self._send(Finished(self.task.job_id, artifacts, self._timings(artifacts)))

    def _timings(self, artifacts: tuple[Artifact, ...]) -> Mapping[str, float]:
        """Seconds; `encode` is what encoding added: the waits for it, and the last tail."""
        waits = sum(artifact.blocked_seconds for artifact in artifacts)
        encode = waits + max(artifact.tail_seconds for artifact in artifacts)
        seconds = self._control.seconds
        return {
            "generation": self._generation,
            "denoise": seconds.get("denoise", 0.0),
            "decode": seconds.get("decode", 0.0),
            "encode": encode,
        }

    def _fail(self, error: BaseException) -> None:
        code = next((ERROR_CODES[kind] for kind in type(error).__mro__ if kind in ERROR_CODES), None)
        if self._control.cancelled:
            code = "cancelled"
        if code is None or code == "storage_failed":
            logger.error("job %s failed", self.task.job_id, exc_info=error)
        if code is None:
            code, message = "internal_error", f"an error of the server ended the job ({type(error).__name__})"
        else:
            message = PRIVATE.get(code, str(error))
        self._ended(self.task.job_id)
        self._send(Failed(self.task.job_id, code, message))
