"""The far side of `server.forking`: a process that forks for each order and has the fork do it.

It has imported already what the work needs, and never touches what a client sent. A fork that dies, whatever
it dies of, takes nothing with it.
"""

from __future__ import annotations

import errno
import io
import json
import os
import resource
import selectors
import signal
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn, Protocol

REFUSED = 65
"""Exit status of work that failed because of what the client sent; the output says why, in words for it."""
WRITE_FAILED = 74
"""Exit status when the result could not be written; the output is the system's error number."""
STATUS_MARK = b"\0status\0"
STATUS = struct.Struct("!i")
"""What comes back ends with the mark and the exit status, negative for a signal."""
MAX_ORDER = 64 * 1024

_DESCRIPTORS = 64


@dataclass(frozen=True, slots=True)
class Order:
    """Work on `size` bytes of a file from `start` on, and its bounds. All sizes in bytes.

    `seconds` is how much of the processor's time it may take, and one more on the clock.
    """

    start: int
    size: int
    memory: int
    seconds: int
    max_output: int
    arguments: Mapping[str, float]

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Order:
        return cls(**json.loads(data))


class Refused(Exception):
    """What the client sent cannot be used; the message goes to it."""


def check_shape(width: int, height: int, arguments: Mapping[str, float]) -> None:
    """Whether neither side of a picture is more than `max_aspect` times the other, where an order has that.

    Raises:
        Refused: one is.
    """
    most = arguments.get("max_aspect")
    if most is not None and max(width, height) > most * min(width, height):
        raise Refused(f"has {width}x{height} pixels; it must be within 1:{most:g} and {most:g}:1")


class WriteFailed(Exception):
    """The result cannot be written; `number` is the system's error number."""

    def __init__(self, number: int) -> None:
        super().__init__(os.strerror(number))
        self.number = number


class Task(Protocol):
    """The work: reads `source`, writes `target`, raises anything if `source` is at fault.

    What it says of the result is the output.
    """

    def __call__(self, source: Source, target: Target, arguments: Mapping[str, float]) -> str | None: ...


class Source(io.RawIOBase):
    """What the client sent, to be read and sought in."""

    def __init__(self, descriptor: int, start: int, size: int) -> None:
        self._descriptor, self._start, self._size = descriptor, start, size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        if origin + offset < 0:
            raise ValueError(f"{origin + offset} lies before the start")
        self._position = origin + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # what a buffered reader passes
        wanted = min(len(buffer), max(0, self._size - self._position))
        data = os.pread(self._descriptor, wanted, self._start + self._position)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


class Target(io.RawIOBase):
    """The result. What goes wrong here is never the client's fault, so it is told apart."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.failure: Refused | WriteFailed | None = None
        """What went wrong first; libraries may raise something else for it, or nothing."""

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return os.lseek(self._descriptor, offset, whence)

    def write(self, data: bytes) -> int:  # type: ignore[override]  # what encoders pass
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError as error:
            self.failure = self.failure or _failure(error)
            raise self.failure from None
        return len(data)


def _failure(error: OSError) -> Refused | WriteFailed:
    if error.errno == errno.EFBIG:
        return Refused("is too large when decoded")
    return WriteFailed(error.errno or errno.EIO)


def serve(task: Task) -> None:
    """Do orders from the socket that is standard input, side by side, until it is closed.

    Each comes with three descriptors: a socket, the source and the target. The other end of the socket gets
    what the work says, then its `STATUS`; when that end is shut, the work is killed.
    """
    Server(task).run()


class Server:
    """Forks, and tells how the forks end."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._leashes: dict[int, socket.socket] = {}
        """By process id."""
        self._orders = socket.socket(fileno=0)
        self._selector = selectors.DefaultSelector()
        self._ended, self._wake = os.pipe()

    def run(self) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS, _DESCRIPTORS))
        os.set_blocking(self._ended, False)
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(self._wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the end of `_orders` is the sign to stop
        self._selector.register(self._orders, selectors.EVENT_READ, self._take)
        self._selector.register(self._ended, selectors.EVENT_READ, self._reap)
        try:
            while True:
                for key, _ in self._selector.select():
                    key.data()
        except EOFError:
            for process in self._leashes:
                os.kill(process, signal.SIGKILL)

    def _take(self) -> None:
        data, descriptors, _, _ = socket.recv_fds(self._orders, MAX_ORDER, 3)
        if not data:
            raise EOFError
        leash, source, target = descriptors
        process = os.fork()
        if process == 0:
            _work(self._task, Order.from_json(data), leash, source, target)
        os.close(source)
        os.close(target)
        held = socket.socket(fileno=leash)
        held.setblocking(False)
        self._leashes[process] = held
        self._selector.register(held, selectors.EVENT_READ, lambda: self._kill(process, held))

    def _kill(self, process: int, leash: socket.socket) -> None:
        if self._leashes.get(process) is leash:
            self._selector.unregister(leash)
            os.kill(process, signal.SIGKILL)

    def _reap(self) -> None:
        os.read(self._ended, 4096)
        with suppress(ChildProcessError):
            while True:
                process, status = os.waitpid(-1, os.WNOHANG)
                if process == 0:
                    return
                self._tell(self._leashes.pop(process), os.waitstatus_to_exitcode(status))

    def _tell(self, leash: socket.socket, status: int) -> None:
        with suppress(KeyError):
            self._selector.unregister(leash)
        with suppress(OSError):  # nobody listens any more
            leash.send(STATUS_MARK + STATUS.pack(status))
        leash.close()


def _work(task: Task, order: Order, leash: int, source: int, target: int) -> NoReturn:
    """Life of a fork."""
    status, words = 1, ""
    try:
        signal.set_wakeup_fd(-1)
        os.dup2(source, 0)
        os.dup2(target, 1)
        os.closerange(3, leash)
        os.closerange(leash + 1, _DESCRIPTORS)
        _bound(order)
        status, words = _done(task, order)
        os.write(leash, words.encode(errors="replace")[:1000])
    finally:
        os._exit(status)


def _done(task: Task, order: Order) -> tuple[int, str]:
    """Exit status and output."""
    target = Target(1)
    try:
        said = task(Source(0, order.start, order.size), target, order.arguments)
    except Exception as error:  # noqa: BLE001 - decoders raise anything on damaged files
        return _told(target.failure or error)
    return (0, said or "") if target.failure is None else _told(target.failure)


def _told(error: Exception) -> tuple[int, str]:
    match error:
        case Refused():
            return REFUSED, str(error)
        case WriteFailed():
            return WRITE_FAILED, str(error.number)
        case MemoryError():
            return REFUSED, "takes too much memory to decode"
        case _:
            return REFUSED, f"is damaged: {str(error) or type(error).__name__}"


def _bound(order: Order) -> None:
    signal.alarm(order.seconds + 1)  # should nobody be there any more to end it
    with suppress(OSError):  # the first one to go when the machine's memory is full
        Path("/proc/self/oom_score_adj").write_text("1000")
    for what, most in (
        (resource.RLIMIT_AS, order.memory),
        (resource.RLIMIT_CPU, order.seconds),
        (resource.RLIMIT_FSIZE, order.max_output),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, _DESCRIPTORS),
    ):
        resource.setrlimit(what, (most, most))
