"""Sinks whose encoder takes no frame until a test lets it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import torch

from encoding.base import OutputSpec
from encoding.mp4 import VideoWriter
from encoding.session import Session, start

HELD_S = 120.0
"""How long what a test forgot to let go is held; whatever waits for it all the same is seen to."""


class HeldWriter(VideoWriter):
    """An encoder that takes no frame until it is let."""

    def __init__(self, spec: OutputSpec, file: object) -> None:
        super().__init__(spec, file)  # type: ignore[arg-type]  # the session hands over its own file
        self.may_go = threading.Event()
        self.holds = threading.Event()
        """Set when the thread is inside of it."""
        self.before_each: Callable[[], None] = lambda: None

    def add(self, frame: torch.Tensor) -> None:
        self.holds.set()
        self.may_go.wait(HELD_S)
        self.before_each()
        super().add(frame)


def open_held(spec: OutputSpec, writers: list[HeldWriter]) -> Session:
    """A sink whose encoder waits for `writers[-1].may_go`."""

    def make(file: object) -> HeldWriter:
        writers.append(HeldWriter(spec, file))
        return writers[-1]

    return start(spec, make)
