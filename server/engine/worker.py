"""The worker process: pipeline → chunks → sinks. The one place that names both pipelines and encoding.

Started as `python -m server.engine.worker FD`, where FD is the inherited end of a connection: commands come
in (`Setup` first), events go out. It ends when the other side is gone.
"""

from __future__ import annotations

import gc
import logging
import os
import queue
import signal
import sys
import threading
from multiprocessing.connection import Connection

import torch

from encoding.probe import available_formats
from pipelines.base import Pipeline
from pipelines.errors import LoadFailed
from pipelines.registry import load
from server import logs
from server.engine.base import Cancel, Capabilities, Command, Ready, Run, Setup, StartFailed, WorkerEvent
from server.engine.execution import Execution

logger = logging.getLogger("reelserve.worker")


class Worker:
    """Runs one task after another; commands are read beside them, so that a cancel is heard at once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._waiting: queue.SimpleQueue[Execution] = queue.SimpleQueue()
        self._running: dict[str, Execution] = {}

    def serve(self) -> None:
        """Load the models, say so, and run tasks for ever."""
        setup = self._connection.recv()
        assert isinstance(setup, Setup)
        device = _device(setup.device)
        try:
            pipelines = {config.id: load(config, device) for config in setup.models}
        except LoadFailed as error:
            self.send(StartFailed(str(error)))
            return
        logs.adopt()  # the model libraries are imported now
        self.send(Ready(_capabilities(device, pipelines)))
        threading.Thread(target=self._read, name="commands", daemon=True).start()
        while True:
            execution = self._waiting.get()
            execution.run(pipelines[execution.task.params.model])
            job_id = execution.task.job_id
            del execution  # and with it the tensors that a failure's traceback holds
            _free(device, job_id)

    def send(self, event: WorkerEvent) -> None:
        """Pass an event on; callable from any thread."""
        with self._sending:
            try:
                self._connection.send(event)
            except OSError:  # the server is gone, and the work with it
                os._exit(1)

    def _read(self) -> None:
        while True:
            try:
                self._handle(self._connection.recv())
            except (EOFError, OSError):
                os._exit(0)

    def _handle(self, command: Command) -> None:
        match command:
            case Run(task):
                execution = Execution(task, self.send, self._running.pop)
                self._running[task.job_id] = execution
                self._waiting.put(execution)
            case Cancel(job_id):
                execution_or_none = self._running.get(job_id)
                if execution_or_none is not None:
                    execution_or_none.cancel()


def _device(name: str) -> str:
    if name != "auto":
        return name
    return "cuda:0" if torch.cuda.is_available() else "cpu"


def _capabilities(device: str, pipelines: dict[str, Pipeline]) -> Capabilities:
    label = f"{device} ({torch.cuda.get_device_name(device)})" if device.startswith("cuda") else device
    models = tuple(pipeline.info for pipeline in pipelines.values())
    return Capabilities(device=label, models=models, formats=available_formats())


def _free(device: str, job_id: str) -> None:
    """Give back what the job held; a device that is broken for good ends the process."""
    if not device.startswith("cuda"):
        return
    gc.collect()
    try:
        torch.cuda.synchronize(device)
        peak = torch.cuda.max_memory_allocated(device) / 2**20
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        logger.info("job %s: peak of device memory %.0f MiB", job_id, peak)
    except RuntimeError:
        logger.critical("the device is unusable; the worker ends", exc_info=True)
        os._exit(1)


def main() -> None:
    """Serve the connection whose file descriptor is the first argument."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal reaches the server, which ends us
    logs.configure_from_environment()
    Worker(Connection(int(sys.argv[1]))).serve()


if __name__ == "__main__":
    main()
