"""What a worker process does: pipeline → chunks → sinks, one task after the other."""

from __future__ import annotations

import gc
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection

from encoding.base import AudioSpec
from encoding.errors import EncodingError
from encoding.probe import available_codecs, available_formats, available_sound_formats, try_codec, try_sound
from pipelines.base import Pipeline
from pipelines.errors import LoadFailed
from pipelines.registry import load
from server import logs
from server.engine.base import (
    HEARTBEAT_S,
    Cancel,
    Capabilities,
    Command,
    DeviceLost,
    Heartbeat,
    Ready,
    Run,
    Setup,
    StartFailed,
    WorkerEvent,
)
from server.engine.device import Device
from server.engine.execution import Execution
from server.engine.failures import judge

logger = logging.getLogger("reelserve.worker")

TIDY_AFTER_S = 0.5
"""A device without a next task for so long is tidied; before that it would only hold up the next one."""
TAIL_SECONDS = 30.0
"""How long tails may take to be encoded once the device is lost."""


class Service:
    """Runs one task after another; commands are read beside them, so that a cancel is heard at once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._waiting: queue.SimpleQueue[Execution | None] = queue.SimpleQueue()
        """Tasks that have not begun; None wakes whoever waits for one."""
        self._running: dict[str, Execution] = {}
        self._lost = threading.Event()
        self._device: Device | None = None

    def serve(self) -> None:
        """Load the models, say so, and run tasks until the device is lost or the server is gone."""
        setup = self._connection.recv()
        assert isinstance(setup, Setup)
        self.send(Heartbeat())  # from here on silence counts, whatever happens to the threads
        _start_thread("commands", self._read)
        _start_thread("heartbeats", self._beat)
        try:
            _check_codec(setup.mp4_codec)
            device = self._device = Device(setup.device)
            pipelines = {config.id: load(config, device.name) for config in setup.models}
            _check_sounds(pipelines)
            capabilities = _capabilities(device, pipelines)
        except Exception as error:  # noqa: BLE001 - the server is told, and decides
            self.send(_refusal(error))
            return
        logs.adopt()  # the model libraries are imported now
        gc.collect()
        gc.freeze()  # the models stay: no later collection has to walk through them
        self.send(Ready(capabilities))
        self._work(device, pipelines)
        self._retire()

    def send(self, event: WorkerEvent) -> None:
        """Pass an event on; callable from any thread."""
        with self._sending:
            try:
                self._connection.send(event)
            except OSError:  # the server is gone, and the work with it
                os._exit(1)

    def _work(self, device: Device, pipelines: dict[str, Pipeline]) -> None:
        free_at: float | None = None
        while (execution := self._next(device)) is not None:
            idle_s = None if free_at is None else time.monotonic() - free_at
            job_id, model = execution.task.job_id, execution.task.params.model
            with logs.about(job_id=job_id, model=model):
                execution.run(pipelines[model], idle_s)
                free_at, failed = execution.free_at, execution.failed
                del execution  # and with it the tensors that a failure's traceback holds
                if self._lost.is_set():
                    return
                device.log_peak(job_id)
            if failed:
                self._tidy(device)

    def _next(self, device: Device) -> Execution | None:
        """The next task, when there is one; None when the device is lost."""
        try:
            execution = self._waiting.get(timeout=TIDY_AFTER_S)
        except queue.Empty:
            self._tidy(device)
            execution = self._waiting.get()
        return None if self._lost.is_set() else execution

    def _tidy(self, device: Device) -> None:
        """Give back what no task holds any more."""
        try:
            device.tidy()
        except RuntimeError:  # an error of an earlier call, which broke the device
            logger.critical("device is lost", exc_info=True)
            self._lose()

    def _lose(self) -> bool:
        """Take no further task; whether that had been decided before."""
        known = self._lost.is_set()
        if not known:
            self._lost.set()
            self.send(DeviceLost())
            self._waiting.put(None)
        return known

    def _retire(self) -> None:
        """Wait for the tails, which need no device any more, up to a bound."""
        end = time.monotonic() + TAIL_SECONDS
        while any(execution.begun for execution in tuple(self._running.values())) and time.monotonic() < end:
            time.sleep(0.02)
        logger.critical("worker ends: its device is lost")

    def _beat(self) -> None:
        while True:
            self.send(Heartbeat())
            time.sleep(HEARTBEAT_S)

    def _read(self) -> None:
        while True:
            try:
                self._handle(self._connection.recv())
            except (EOFError, OSError):
                os._exit(0)

    def _handle(self, command: Command) -> None:
        match command:
            case Run(task):
                assert self._device is not None  # no task comes before `Ready`
                execution = Execution(task, self.send, self._running.pop, self._lose, self._device.settle)
                self._running[task.job_id] = execution
                self._waiting.put(execution)
            case Cancel(job_id):
                execution_or_none = self._running.get(job_id)
                if execution_or_none is not None:
                    execution_or_none.cancel()


def _start_thread(name: str, work: Callable[[], None]) -> None:
    """A thread without which the worker is worth nothing."""

    def run() -> None:
        try:
            work()
        except BaseException:
            logger.critical("error ends a thread, and the worker", exc_info=True, extra={"reason": name})
        os._exit(1)

    threading.Thread(target=run, name=name, daemon=True).start()


def _refusal(error: Exception) -> StartFailed:
    """What the server is told of an error while the models were loaded."""
    told = isinstance(error, LoadFailed) and error.__cause__ is None
    logger.error("models cannot be loaded", exc_info=None if told else error, extra={"reason": str(error)})
    verdict = judge(error)
    if isinstance(error, _CodecFailed):
        return StartFailed(str(error))
    if isinstance(error, LoadFailed):
        return StartFailed(str(error), transient=verdict.device_lost or verdict.code == "out_of_memory")
    return StartFailed(f"{type(error).__name__}: {error}", transient=True)


def _capabilities(device: Device, pipelines: dict[str, Pipeline]) -> Capabilities:
    models = tuple(pipeline.info for pipeline in pipelines.values())
    return Capabilities(
        device=device.label,
        models=models,
        formats=available_formats(),
        sound_formats=available_sound_formats(),
        mp4_codecs=available_codecs("mp4"),
    )


class _CodecFailed(RuntimeError):
    """An encoder that the configuration needs does not work here."""


def _check_codec(codec: str) -> None:
    try:
        try_codec("mp4", codec)
    except EncodingError as error:
        there = ", ".join(available_codecs("mp4")) or "no encoder of MP4"
        raise _CodecFailed(
            f"encoding.mp4_codec: {codec} does not work here: {error}; what works is {there}"
        ) from None


def _check_sounds(pipelines: Mapping[str, Pipeline]) -> None:
    """Whether MP4, which is what is made unless a request says otherwise, can hold what the models make."""
    for model, pipeline in pipelines.items():
        if (sound := pipeline.info.sound) is None:
            continue
        try:
            try_sound("mp4", AudioSpec(sound.sample_rate, sound.channels))
        except EncodingError as error:
            raise _CodecFailed(f"model {model}: its sound cannot be written here: {error}") from None
