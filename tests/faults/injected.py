"""Faults inside a real worker process, for tests: `start(data, **FAULTS)` and a prompt that asks for one.

A prompt `fault:KIND[=VALUE][@[STAGE:]STEP] [once:FILE]` makes its job do KIND when STEP (default 1) of STAGE
is done (`prompt`, `image`, `denoise`, `decode`; default `denoise`; decode counts frames). With `once`, only
if there is no FILE yet, which it leaves. A prompt of several, with a ` + ` between them, does each in its
turn. Any other prompt does nothing. KIND is a key of `KINDS`, or

- `paused=FILE`: the step goes on until there is a FILE, and hears a cancel meanwhile; `held` hears none
- `tail=SECONDS`: the encoder's tail takes that much longer (the device is free meanwhile)
- `nan`: the denoised latents are NaN

While the model loads, the variable FAULT_ON_LOAD=KIND[=VALUE] does the same; if FAULT_ON_LOAD_WHILE names a
file too, only while that exists.

With FAULT_LIGHT in the environment workers load no models and serve `tests.faults.light` in their place: they
are ready in two seconds, not in six.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pipelines.registry
from pipelines.base import Chunk, Control, GenerationParams, ModelConfig, Pipeline, Sound, Stage

PROMPT = re.compile(
    r"fault:(?P<kind>\w+)(=(?P<value>[^\s@]+))?(@((?P<stage>[a-z]+):)?(?P<step>\d+))?( once:(?P<once>\S+))?"
)


@dataclass(frozen=True)
class Fault:
    """What is to happen, and when."""

    kind: str
    value: str
    stage: Stage
    step: int
    once: Path | None

    def is_due(self) -> bool:
        """Whether it is to happen now; with `once` only at the first call."""
        if self.once is None:
            return True
        with contextlib.suppress(FileExistsError):
            self.once.touch(exist_ok=False)
            return True
        return False

    def happen(self) -> None:
        if self.is_due():
            KINDS[self.kind](self.value)


def faults_of(prompt: str) -> list[Fault]:
    """The faults that a prompt asks for.

    Raises:
        ValueError: it asks for something that cannot be read.
    """
    return [_fault(part) for part in prompt.split(" + ")] if prompt.startswith("fault:") else []


def _fault(text: str) -> Fault:
    found = PROMPT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} asks for no fault that there is")
    once = found["once"]
    return Fault(
        found["kind"],
        found["value"] or "",
        found["stage"] or "denoise",  # type: ignore[arg-type]
        int(found["step"] or 1),
        Path(once) if once else None,
    )


def install() -> None:
    """Make this process, which is to become a worker, open to faults."""
    original = pipelines.registry.load

    def load(config: ModelConfig, device: str) -> Pipeline:
        _fault_on_load()
        return Faulty(_light(config) if "FAULT_LIGHT" in os.environ else original(config, device))

    pipelines.registry.load = load


class Faulty:
    """A pipeline that meets the faults which its prompts ask for."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self.info = pipeline.info

    def generate(self, params: GenerationParams, control: Control) -> Generator[Chunk | Sound]:
        tail = 0.0
        for fault in faults_of(params.prompt):
            if fault.kind not in ("nan", "tail"):
                control = FaultyControl(control, fault)
            elif fault.is_due():
                if fault.kind == "nan":
                    _spoil_next_latents()
                else:
                    tail = float(fault.value)
        made = self._pipeline.generate(params, control)
        yield from _before_last(made, lambda: _delay_next_tail(tail)) if tail else made


class FaultyControl:
    """A control whose progress meets a fault once."""

    def __init__(self, control: Control, fault: Fault) -> None:
        self._control = control
        self._fault: Fault | None = fault

    def progress(self, stage: Stage, step: int, steps: int, cost: float | None = None) -> None:
        self._control.progress(stage, step, steps, cost)
        fault = self._fault
        if fault is None or stage != fault.stage or step < fault.step:
            return
        self._fault = None
        if fault.kind != "paused":
            fault.happen()
        elif fault.is_due():
            while not Path(fault.value).exists():
                time.sleep(0.02)
                self._control.progress(stage, step, steps, cost)


def _light(config: ModelConfig) -> Pipeline:
    from tests.faults.light import Light  # it needs torch

    return Light(config)


def _fault_on_load() -> None:
    kind, _, value = os.environ.get("FAULT_ON_LOAD", "").partition("=")
    flag = os.environ.get("FAULT_ON_LOAD_WHILE")
    if kind and (flag is None or Path(flag).exists()):
        KINDS[kind](value)


def _spoil_next_latents() -> None:
    import pipelines.wan  # it needs torch, which a worker imports when it is ready to

    module: Any = pipelines.wan
    original = module.denoise

    def denoise(*arguments: Any) -> Any:
        module.denoise = original
        return original(*arguments) * float("nan")

    module.denoise = denoise


def _before_last(made: Generator[Chunk | Sound], happen: Callable[[], None]) -> Generator[Chunk | Sound]:
    """The same parts. It happens before the last is handed on: whoever has that may end the file."""
    with contextlib.closing(made):
        held = next(made)
        for part in made:
            yield held
            held = part
        happen()
        yield held


def _delay_next_tail(seconds: float) -> None:
    from encoding.part import PartFile

    part: Any = PartFile
    original = part.sync

    def sync(self: PartFile) -> None:
        part.sync = original
        time.sleep(seconds)
        original(self)

    part.sync = sync


def _raise(name: str, message: str) -> Callable[[str], None]:
    def happen(_value: str) -> None:
        import torch

        raise getattr(torch, name)(message)

    return happen


def _wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)


def _memory_error(_value: str) -> None:
    raise MemoryError


def _error(_value: str) -> None:
    raise RuntimeError("a fault that a test injected, in /secret/path")


def _system_exit(_value: str) -> None:
    raise SystemExit(5)


KINDS: Mapping[str, Callable[[str], object]] = MappingProxyType(
    {
        # The process dies, in ways that no Python code notices.
        "segfault": lambda _: ctypes.string_at(0),
        "abort": lambda _: os.abort(),
        "exit": lambda status: os._exit(int(status or 3)),
        "sigkill": lambda _: os.kill(os.getpid(), signal.SIGKILL),
        # It lives and does not answer: stopped, or in native code that holds the interpreter's lock.
        "sigstop": lambda _: os.kill(os.getpid(), signal.SIGSTOP),
        "hang": lambda seconds: ctypes.PyDLL(None).sleep(int(seconds or 600)),
        # It answers, and a step takes this many seconds, or until there is a file of this name.
        "sleep": lambda seconds: time.sleep(float(seconds)),
        "held": lambda path: _wait_for(Path(path)),
        # Errors, of the types and words of torch.
        "oom": _raise("OutOfMemoryError", "CUDA out of memory. Tried to allocate 20.00 GiB."),
        "sticky": _raise("AcceleratorError", "CUDA error: an illegal memory access was encountered"),
        "memory": _memory_error,
        "error": _error,
        "system_exit": _system_exit,
    }
)
"""Name of a fault → what it does, given its value."""
