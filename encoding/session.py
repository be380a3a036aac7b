"""A chunked session: the thread, the queue and the rules that every file sink shares."""

from __future__ import annotations

import contextlib
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextvars import copy_context
from enum import Enum
from functools import partial
from types import TracebackType
from typing import BinaryIO, Self

import torch

from encoding.base import Artifact, OutputSpec
from encoding.bounded import BoundedQueue, QueueClosed
from encoding.errors import BadFrames, BadSound, EncodingError, SinkClosed, translate
from encoding.part import PartFile
from encoding.production import Chunk, Laps, Production, Sound
from encoding.sound import check_sound, held_bytes, send_sound
from encoding.transfer import Stopped, Transfer, open_transfer
from encoding.writer import Writer

_ABORT_SECONDS = 0.08
"""How long `abort` waits for the thread: it stops between two frames, which take less at sane settings."""


class _State(Enum):
    OPEN = "open"
    ENDING = "finished"
    DONE = "closed"
    FAILED = "failed"
    ABORTED = "aborted"


class Session:
    """A `Sink` that encodes on a thread of its own and renames the file into place when it is whole.

    At most `spec.max_pending_bytes` of packed frames are held; a longer chunk is split, and a single frame
    that is larger passes alone. Sound is held among them until the encoder begins with it, and beside them
    then. `finish` raises the thread's failure if there is one already. `abort` returns within 100 ms; a
    thread that is then still inside one call of the encoder ends with that call, with nothing left on disk.
    """

    def __init__(self, spec: OutputSpec, writer: Writer, part: PartFile) -> None:
        self.result: Future[Artifact] = Future()
        self._spec = spec
        self._packing = writer.packing
        self._queue: BoundedQueue[Chunk | Sound] = BoundedQueue(spec.max_pending_bytes)
        self._transfers: dict[torch.device, Transfer] = {}
        self._written = 0
        self._sounded = False
        self._blocked = 0.0
        self._finished_at = 0.0
        self._state = _State.OPEN
        self._error: EncodingError | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        # In the context of whoever opened it: what is logged from there on has the same fields.
        run = partial(copy_context().run, self._run, writer, part)
        self._thread = threading.Thread(target=run, name=f"encode {spec.path.name}", daemon=True)
        self._part = part
        self._thread.start()

    @property
    def pending_bytes(self) -> int:
        """What of the host's memory is held for frames and sound on their way to the encoder."""
        return self._queue.held

    # The producer's side.

    def write(self, frames: torch.Tensor) -> None:
        written = time.monotonic()
        self._check_open()
        self._check_frames(frames)
        for first in range(0, frames.shape[1], self._frames_at_once):
            piece = frames[:, first : first + self._frames_at_once]
            self._send(piece, written)
            self._written += piece.shape[1]

    def write_sound(self, samples: torch.Tensor, sample_rate: int) -> None:
        self._check_open()
        check_sound(samples, sample_rate, self._spec)
        if self._sounded:
            raise BadSound("sound: given twice")
        size = held_bytes(samples, self._spec)
        self._put(size, lambda: Sound(send_sound(samples, self._spec), size))
        self._sounded = True

    def finish(self) -> Future[Artifact]:
        with self._lock:
            if self._error is not None:
                raise self._error
            if self._state is _State.OPEN:
                self._state = _State.ENDING
                self._finished_at = time.monotonic()
                self._queue.end()
        return self.result

    def close(self) -> Artifact:
        try:
            return self.finish().result()
        except CancelledError:
            raise SinkClosed(f"{self._spec.path.name}: closed after it was aborted") from None

    def abort(self) -> None:
        with self._lock:
            if self._state is _State.DONE:
                return
            first = self._state not in (_State.ABORTED, _State.FAILED)
            if self._state is not _State.FAILED:  # which keeps its error, and has its thread still to end
                self._state = _State.ABORTED
            self._part.discard()
        self._stop.set()
        self._queue.close()
        if first and self.result.cancel():
            self.result.set_running_or_notify_cancel()  # wakes whoever waits for several futures
        if threading.current_thread() is not self._thread:
            self._thread.join(_ABORT_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()
        else:
            self.abort()

    @property
    def _frames_at_once(self) -> int:
        """Half the bound: one piece can be made while the encoder has another."""
        frame = self._packing.frame_bytes(self._spec.width, self._spec.height)
        return max(1, (self._spec.max_pending_bytes // 2 - 1) // frame)

    def _check_open(self) -> None:
        with self._lock:
            if self._error is not None:
                raise self._error
            if self._state is not _State.OPEN:
                raise SinkClosed(f"{self._spec.path.name}: written to after it was {self._state.value}")

    def _check_frames(self, frames: torch.Tensor) -> None:
        spec, shape = self._spec, tuple(frames.shape)
        if not frames.is_floating_point():
            raise BadFrames(f"frames: dtype {frames.dtype}, a floating-point one expected")
        if len(shape) != 4 or (shape[0], *shape[2:]) != (3, spec.height, spec.width) or shape[1] < 1:
            raise BadFrames(f"frames: shape {shape}, (3, T ≥ 1, {spec.height}, {spec.width}) expected")
        if self._written + shape[1] > spec.num_frames:
            raise BadFrames(f"frames: {self._written + shape[1]} written, num_frames is {spec.num_frames}")

    def _send(self, frames: torch.Tensor, written: float) -> None:
        transfer = self._transfer_from(frames.device)
        size = self._packing.packed_bytes(frames.shape[1], self._spec.width, self._spec.height)
        held = transfer.held_bytes(size)
        self._put(held, lambda: Chunk(transfer.send(frames), held, written))

    def _put(self, size: int, make: Callable[[], Chunk | Sound]) -> None:
        """Queue what takes `size` bytes, and is made when there is room for them."""
        try:
            self._blocked += self._queue.reserve(size)
            self._queue.put(make())
        except QueueClosed:
            self._check_open()  # says why
            raise

    def _transfer_from(self, device: torch.device) -> Transfer:
        if (transfer := self._transfers.get(device)) is None:
            transfer = open_transfer(self._packing, device, self._spec.max_pending_bytes)
            self._transfers[device] = transfer
        return transfer

    # The thread's side.

    def _run(self, writer: Writer, part: PartFile) -> None:
        production = Production(self._spec, writer, part, self._queue, self._stop, self._check_running)
        artifact, failure = None, None
        try:
            production.run()
            artifact = self._commit(part, production)
        except (Stopped, QueueClosed):
            pass  # aborted: whoever did it has told everyone
        except BaseException as error:  # noqa: BLE001 whatever ends the thread must reach whoever waits for the file
            failure = self._fail(error)
        finally:
            if artifact is not None:  # there is a file: nobody need wait for what is let go
                self._settle(lambda: self.result.set_result(artifact))
            production.close()
            part.close()
            writer.abandon()
            self._transfers.clear()  # page-locked memory, while others may hold the sink for its result
            if artifact is None:
                part.discard()
            if failure is not None:
                self._settle(lambda: self.result.set_exception(failure))

    def _settle(self, give: Callable[[], None]) -> None:
        with contextlib.suppress(InvalidStateError):  # cancelled by whoever held the future
            give()

    def _check_running(self) -> None:
        if self._stop.is_set() or self.result.cancelled():
            raise Stopped

    def _commit(self, part: PartFile, production: Production) -> Artifact:
        spec, laps = self._spec, Laps()
        laps.begin()
        size = part.temporary.stat().st_size
        with self._lock:
            self._check_running()
            part.commit()
            self._state = _State.DONE
        part.sync_name()
        ended = laps.end("commit")
        return Artifact(
            path=spec.path,
            format=spec.format,
            size_bytes=size,
            width=spec.width,
            height=spec.height,
            num_frames=spec.num_frames,
            fps=spec.fps,
            records=tuple(production.records),
            blocked_seconds=self._blocked,
            tail_seconds=ended - self._finished_at,
            tail=production.tail(laps.seconds["commit"]),
            audio=spec.audio,
        )

    def _fail(self, error: BaseException) -> EncodingError | None:
        """Make `error` what every later call raises; None if the sink was aborted before it."""
        ours = translate(error, f"writing {self._spec.path.name}")
        if ours is not error:
            ours.__cause__ = error
        _let_go(ours)
        with self._lock:
            if self._state is _State.ABORTED:
                return None
            self._state, self._error = _State.FAILED, ours
        self._queue.close()
        return ours


def start(spec: OutputSpec, make: Callable[[BinaryIO], Writer]) -> Session:
    """Open the part file, `make` a writer into it, and a session upon both; all of it or nothing.

    Raises:
        EncodingError: what the folder or the writer refuses.
    """
    part = PartFile(spec.path)
    try:
        return Session(spec, make(part.file), part)
    except BaseException as error:
        part.close()
        part.discard()
        _let_go(error)
        if isinstance(error, EncodingError) or not isinstance(error, Exception):
            raise
        raise translate(error, f"opening {spec.path.name}") from error


def _let_go(error: BaseException | None) -> None:
    """Clear the locals that an error's tracebacks hold: they would keep the encoder and its threads."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
