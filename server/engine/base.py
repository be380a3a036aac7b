"""What passes between the server and its workers: small frozen messages, and the Engine protocol."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from encoding.base import Artifact, OutputSpec
from encoding.formats import Mp4Codec
from pipelines.base import GenerationParams, ModelConfig, ModelInfo, Stage

JobErrorCode = Literal[
    "cancelled",
    "timeout",
    "out_of_memory",
    "worker_crashed",
    "server_restarted",
    "invalid_reference",
    "encoding_failed",
    "storage_failed",
    "internal_error",
]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What only a worker can know, reported once when it is ready."""

    device: str
    """As torch names it, with the card's name: `cuda:0 (NVIDIA H200)`."""
    models: tuple[ModelInfo, ...]
    formats: tuple[str, ...]
    """Keys of `encoding.formats.FORMATS` whose encoder was found."""
    mp4_codecs: tuple[str, ...] = ()
    """The encoders of MP4 that work there."""
    sound_formats: tuple[str, ...] = ()
    """Those of `formats` that can be made with sound."""


@dataclass(frozen=True, slots=True)
class EngineTask:
    """A job as a worker sees it: one generation, and a file for each of its outputs."""

    job_id: str
    params: GenerationParams
    outputs: tuple[OutputSpec, ...]
    live: bool = False
    """Send `Fragment` events of the first output, a fragmented MP4."""


# To the worker, the first one before all others.


@dataclass(frozen=True, slots=True)
class Setup:
    """What a worker serves, and where: torch's device name, or `auto` for the first GPU or else the CPU."""

    device: str
    models: tuple[ModelConfig, ...]
    mp4_codec: Mp4Codec = "libx264"
    """Must work: the worker tries it before it loads anything."""


@dataclass(frozen=True, slots=True)
class Run:
    task: EngineTask


@dataclass(frozen=True, slots=True)
class Cancel:
    job_id: str


Command = Run | Cancel

HEARTBEAT_S = 1.0
"""Seconds between two signs of life of a worker."""

# From the worker.


@dataclass(frozen=True, slots=True)
class Ready:
    capabilities: Capabilities


@dataclass(frozen=True, slots=True)
class StartFailed:
    """The worker ends: what it was told to serve cannot be served."""

    message: str
    transient: bool = False
    """Another start may well succeed: the device was full or failed, or nobody foresaw this error."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The worker is alive: its interpreter runs. Sent every `HEARTBEAT_S`, also while models load."""


@dataclass(frozen=True, slots=True)
class DeviceLost:
    """The device answers with errors only: the worker begins no further task, and ends after its tails."""


@dataclass(frozen=True, slots=True)
class Started:
    """The job has the device from now on."""

    job_id: str
    idle_s: float | None = None
    """Seconds since the job before it left the device, whether or not this one waited; None for the first.

    The device idled for want of speed, not of work, for at most this and at most the job's time in the queue.
    """


@dataclass(frozen=True, slots=True)
class Progress:
    """`step` of `steps` of `stage` are done, counted over all outputs of the job.

    `cost` is the share of the stage's time that this is, 0 to 1.
    """

    job_id: str
    stage: Stage
    step: int
    steps: int
    cost: float


@dataclass(frozen=True, slots=True)
class Fragment:
    job_id: str
    data: bytes


@dataclass(frozen=True, slots=True)
class DeviceFree:
    """The job needs the device no more: the next one may start while the tail is encoded.

    Sent once for every job, before its last event.
    """

    job_id: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The files are whole, opened and counted. `timings` in seconds by name (api.md, Server-Timing)."""

    job_id: str
    artifacts: tuple[Artifact, ...]
    timings: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Failed:
    job_id: str
    code: JobErrorCode
    message: str
    victim: bool = False
    """The end of the worker was none of its doing: another job had the device, or none, and this one had not
    begun or was only being encoded. It may run again; one that is no victim may be what kills workers."""


JobEvent = Started | Progress | Fragment | DeviceFree | Finished | Failed
WorkerEvent = Ready | StartFailed | Heartbeat | DeviceLost | JobEvent


class Engine(Protocol):
    """Runs tasks on workers. Every method is called on the event loop and never blocks it."""

    @property
    def capabilities(self) -> Capabilities | None:
        """What the workers reported; None until the first is ready. Kept while a worker restarts."""

    @property
    def slots(self) -> int:
        """How many tasks can run side by side."""

    @property
    def failure(self) -> str | None:
        """Why no worker can be started any more; None while there is hope."""

    @property
    def ready(self) -> bool:
        """Whether at least one worker serves: its models are loaded, and it answers."""

    @property
    def up(self) -> int:
        """How many do."""

    def watch(self, note: Callable[[str], None]) -> None:
        """Call `note` whenever a worker has ended that should not have, with a word that says why."""

    async def wait_idle(self) -> None:
        """Return when a worker can begin a task at once."""

    async def wait_ready(self) -> None:
        """Return when a worker can take work, or when none ever will (`failure`)."""

    async def start(self) -> None:
        """Start the workers; returns at once, they become ready in their own time."""

    async def stop(self) -> None:
        """End the workers and wait for them."""

    def run(self, task: EngineTask) -> AsyncGenerator[JobEvent, None]:
        """Run a task on a free worker; the last event is `Finished` or `Failed`, whatever happens to it.

        A task whose worker dies before it began is given to another one, once, and nobody is told.
        A generator that is closed before its end cancels the task.
        """

    async def cancel(self, job_id: str) -> None:
        """Ask a task to stop, also one that no worker has begun; its last event says how it ended.

        One that does not stop in time is ended with its worker.
        """
