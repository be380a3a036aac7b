"""A file in the making: what a session's thread does with what is queued, until it can be given its name."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from encoding.base import ChunkRecord, OutputSpec, Tail
from encoding.bounded import BoundedQueue
from encoding.errors import BadFrames, BadSound
from encoding.part import PartFile
from encoding.sound import SoundArrival
from encoding.transfer import Arrival
from encoding.writer import Writer


@dataclass(frozen=True, slots=True)
class Chunk:
    """Frames on their way; `size` bytes of the queue are held for them."""

    arrival: Arrival
    size: int
    written: float
    """When the sink was given them, on the clock `time.monotonic`."""


@dataclass(frozen=True, slots=True)
class Sound:
    """The sound on its way; `size` bytes of the queue are held for it until the encoder begins with it."""

    arrival: SoundArrival
    size: int


class Production:
    """Brings what `queue` holds through `writer` into `part`, and that to the disk.

    `check_running` raises when nobody wants the file any more; `stop` is set then.
    """

    def __init__(
        self,
        spec: OutputSpec,
        writer: Writer,
        part: PartFile,
        queue: BoundedQueue[Chunk | Sound],
        stop: threading.Event,
        check_running: Callable[[], None],
    ) -> None:
        self.records: list[ChunkRecord] = []
        self._spec = spec
        self._writer = writer
        self._part = part
        self._queue = queue
        self._stop = stop
        self._check_running = check_running
        self._sounded = False
        self._laps = Laps()
        self._beside = ThreadPoolExecutor(1, f"sync {spec.path.name}")

    def run(self) -> None:
        """Take all that comes; returns when the file is whole, checked and on the disk, without its name.

        Raises:
            BadFrames, BadSound: less came than was announced.
            EncodingError: what the encoder or the check found.
            Stopped: as `check_running`.
        """
        self._beside.submit(_nothing)  # starts its thread, which at the end would take as long as the check
        complete = False
        for item in self._queue:
            match item:
                case Sound():
                    self._encode_sound(item)
                case Chunk():
                    self._encode(item)
            if complete := self._has_all():  # whoever writes may take a while to say so
                self._complete()
            else:
                self._part.write_behind()
        if not complete:
            self._miss()

    def tail(self, commit: float) -> Tail:
        """Where the time went after the last frames had come; to give the file its name took `commit`."""
        return Tail(**self._laps.seconds, commit=commit)

    def close(self) -> None:
        """Wait for what runs beside, and let go of it. Idempotent."""
        self._beside.shutdown()

    def _encode(self, chunk: Chunk) -> None:
        taken = self._add(chunk.arrival)
        chunk.arrival.release()
        self._queue.release(chunk.size)
        encoded = self._laps.end("encode")
        self.records.append(ChunkRecord(chunk.arrival.frames, chunk.written, taken, encoded))

    def _add(self, arrival: Arrival) -> float:
        """Hand frames to the writer once they have come; returns when they had, and refers to none then."""
        last = self._encoded + arrival.frames == self._spec.num_frames
        frames = arrival.wait(self._stop, last=last)
        taken = self._laps.begin()
        for frame in frames:
            self._check_running()
            self._writer.add(frame)
        self._writer.end_chunk()
        return taken

    def _encode_sound(self, sound: Sound) -> None:
        for _ in self._writer.add_sound(sound.arrival.wait(self._stop)):
            self._check_running()
        sound.arrival.release()
        self._queue.release(sound.size)
        self._sounded = True

    @property
    def _encoded(self) -> int:
        return sum(record.frames for record in self.records)

    def _has_all(self) -> bool:
        silent = self._spec.audio is None
        return self._encoded == self._spec.num_frames and (silent or self._sounded)

    def _miss(self) -> None:
        if self._encoded != self._spec.num_frames:
            raise BadFrames(f"frames: {self._encoded} written, num_frames is {self._spec.num_frames}")
        raise BadSound("sound: announced, and none was written")

    def _complete(self) -> None:
        self._laps.begin()
        for _ in self._writer.drain():
            self._check_running()
        self._laps.end("drain")
        self._writer.close()
        self._part.flush()
        self._laps.end("close")
        synced = self._beside.submit(self._part.sync)
        self._writer.check(self._part.temporary)
        self._laps.end("check")
        self._check_running()
        synced.result()
        self._laps.end("sync")


def _nothing() -> None:
    """What a thread has to do that is wanted later."""


class Laps:
    """Seconds that one thing after another takes, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._since = 0.0

    def begin(self) -> float:
        """The next lap begins now, on the clock `time.monotonic`."""
        self._since = time.monotonic()
        return self._since

    def end(self, name: str) -> float:
        """A lap ends now, and the next one begins."""
        before = self._since
        self.seconds[name] = self.begin() - before
        return self._since
