"""An MP4 encoder in a process of its own, fed by planes in shared memory: what `encoder_process` measures.

Not part of the product: no abort, no live stream, no errors that are told. It does for one video after
another what a session's thread does, with the session's own writer, and keeps the session's bound.
"""

from __future__ import annotations

import multiprocessing
import queue
import threading
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import torch

from encoding.base import OutputSpec
from encoding.frames import YUV420P, pack
from encoding.mp4 import VideoWriter
from encoding.part import PartFile


class EncoderProcess:
    """A warm child with `slots` pieces of shared memory for one packed chunk of `slot_bytes` each."""

    def __init__(self, slots: int, slot_bytes: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.memory = SharedMemory(create=True, size=slots * slot_bytes)
        self.slots, self.slot_bytes = slots, slot_bytes
        self.free = context.Semaphore(slots)
        self.connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, self.memory.name, slot_bytes, self.free), daemon=True
        )
        self._process.start()
        self.host = torch.frombuffer(self.memory.buf, dtype=torch.uint8)
        self.connection.recv()  # it has imported everything

    def page_lock(self) -> None:
        """So that a CUDA device copies into it beside its other work."""
        runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call]  # torch's
        status = runtime.cudaHostRegister(self.host.data_ptr(), self.host.numel(), 0)
        if int(status) != 0:
            raise RuntimeError(f"the shared memory cannot be page-locked: error {int(status)}")

    def close(self) -> None:
        """End the child and let go of the memory."""
        self.connection.send(None)
        self._process.join(10)
        if self.host.is_pinned():
            runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call]  # torch's
            runtime.cudaHostUnregister(self.host.data_ptr())
        self.host = torch.empty(0)
        self.memory.close()
        self.memory.unlink()


class ProcessSink:
    """One video by way of an `EncoderProcess`."""

    def __init__(self, spec: OutputSpec, encoder: EncoderProcess) -> None:
        self._spec = spec
        self._encoder = encoder
        self._slot = 0
        self._stream: Any = None
        self._copies: queue.SimpleQueue[tuple[Any, Any, tuple[int, int]] | None] = queue.SimpleQueue()
        self._waiter: threading.Thread | None = None
        encoder.connection.send(spec)

    def write(self, frames: torch.Tensor) -> None:
        """As `encoding.base.Sink.write`."""
        packed = pack(frames, YUV420P)
        self._encoder.free.acquire()
        at = self._slot * self._encoder.slot_bytes
        host = self._encoder.host[at : at + packed.numel()]
        told = (self._slot, frames.shape[1])
        self._slot = (self._slot + 1) % self._encoder.slots
        if packed.is_cuda:
            self._copy(packed, host, told)
        else:
            host.copy_(packed)
            self._encoder.connection.send(told)

    def _copy(self, packed: torch.Tensor, host: torch.Tensor, told: tuple[int, int]) -> None:
        if self._waiter is None:
            self._stream = torch.cuda.Stream(packed.device)  # type: ignore[no-untyped-call]  # torch's
            self._waiter = threading.Thread(target=self._wait, daemon=True)
            self._waiter.start()
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            host.copy_(packed, non_blocking=True)
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch's
        event.record(self._stream)
        self._copies.put((event, packed, told))

    def _wait(self) -> None:
        while (item := self._copies.get()) is not None:
            item[0].synchronize()
            self._encoder.connection.send(item[2])

    def close(self) -> int:
        """Wait for the file; its bytes."""
        if self._waiter is not None:
            self._copies.put(None)
            self._waiter.join()
        self._encoder.connection.send(None)
        size: int = self._encoder.connection.recv()
        return size


def _serve(connection: Connection, name: str, slot_bytes: int, free: Any) -> None:
    memory = SharedMemory(name)
    host = torch.frombuffer(memory.buf, dtype=torch.uint8)
    connection.send(None)
    while (spec := connection.recv()) is not None:
        connection.send(_encode(spec, connection, host, slot_bytes, free))
    del host
    memory.close()


def _encode(spec: OutputSpec, connection: Connection, host: torch.Tensor, slot_bytes: int, free: Any) -> int:
    part = PartFile(spec.path)
    writer = VideoWriter(spec, part.file)
    while (told := connection.recv()) is not None:
        slot, frames = told
        size = YUV420P.packed_bytes(frames, spec.width, spec.height)
        for frame in host[slot * slot_bytes :][: size - 1].view(frames, -1):
            writer.add(frame)
        part.write_behind()
        free.release()
    for _ in writer.drain():
        pass
    writer.close()
    part.flush()
    part.sync()
    writer.check(part.temporary)
    part.commit()
    part.sync_name()
    part.close()
    writer.abandon()
    return spec.path.stat().st_size
