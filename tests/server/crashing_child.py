"""Work that ends badly, in each of the ways that decoders do. Run by `server.forking`."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import time
from collections.abc import Callable, Mapping

from server.forked import Refused, Source, Target, serve


def _refuse(_: Target) -> None:
    raise Refused("is not liked")


def _raise(_: Target) -> None:
    raise RuntimeError


def _spin(_: Target) -> None:
    while True:
        pass


def _fill(target: Target) -> None:
    while True:
        target.write(bytes(100_000))


def _orphan(_: Target) -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(0.2)


def _tell_limits(target: Target) -> None:
    names = ("AS", "CPU", "FSIZE", "CORE", "NOFILE")
    target.write(
        repr([resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[1] for name in names]).encode()
    )


WAYS: Mapping[bytes, Callable[[Target], object]] = {
    b"copy": lambda target: target.write(b"copied"),
    b"refuse": _refuse,
    b"raise": _raise,
    b"segfault": lambda _: ctypes.string_at(0),
    b"abort": lambda _: os.abort(),
    b"exit": lambda _: os._exit(7),
    b"memory": lambda _: bytearray(2**40),
    b"spin": _spin,
    b"sleep": lambda _: time.sleep(600),
    b"fill": _fill,
    b"orphan": _orphan,
    b"descriptors": lambda target: target.write(",".join(os.listdir("/proc/self/fd")).encode()),  # noqa: PTH208
    b"limits": _tell_limits,
    b"environment": lambda target: target.write(repr(list(os.environ)).encode()),
}


def end_badly(source: Source, target: Target, arguments: Mapping[str, float]) -> None:
    """The source says how."""
    WAYS[source.read()](target)


if __name__ == "__main__":
    serve(end_badly)
