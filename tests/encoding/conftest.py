"""Every test here must leave the process and its folder as they were."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from tests.encoding.held import HeldWriter

SETTLING_SECONDS = 120.0
"""A thread that was told to end may be inside one call of the encoder, on a busy machine."""


@dataclass(frozen=True)
class Held:
    """What the process holds."""

    threads: frozenset[str]
    native_threads: int
    descriptors: frozenset[str]

    @classmethod
    def now(cls) -> Held:
        return cls(
            frozenset(thread.name for thread in threading.enumerate()),
            sum(1 for _ in Path("/proc/self/task").iterdir()),
            frozenset(_open_files()),
        )

    def more_than(self, before: Held) -> str:
        """What is held beyond `before`, in words; empty if nothing is."""
        threads, files = self.threads - before.threads, self.descriptors - before.descriptors
        native = max(0, self.native_threads - before.native_threads)
        return f"{set(threads)} {native} native threads {set(files)}" if threads or native or files else ""


def _open_files() -> Iterator[str]:
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = str(descriptor.readlink())
        except OSError:
            continue  # the listing's own
        if target.startswith("/") and not target.startswith(("/proc", "/dev")):
            yield target


@pytest.fixture(autouse=True)
def leaves_nothing(tmp_path: Path) -> Iterator[None]:
    """No thread, native thread, descriptor or part file is left, whatever the test did."""
    torch.set_num_threads(1)
    before = Held.now()
    yield
    deadline = time.monotonic() + SETTLING_SECONDS
    while (left := Held.now().more_than(before)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert left == ""
    assert list(tmp_path.rglob("*.part")) == []


@pytest.fixture
def writers() -> Iterator[list[HeldWriter]]:
    """The writers that a test made; all are let go at its end."""
    made: list[HeldWriter] = []
    yield made
    for writer in made:
        writer.may_go.set()
