"""Does the encoder's thread hold back whoever decodes? The same videos with the encoder in a child process.

    python -m benchmarks.encoder_process [--device cuda] [--vae z16] [--size 832x480] [--frames 81]
                                         [--repeat 5] [--pace 60] [--json FILE]

Each round takes, in turn, no encoder at all, the product's session (a thread) and a warm child that is fed
by shared memory. Two kinds of work: `decode` is our decoder; a thread that wants to wake every millisecond
tells how late Python lets it (`late`). `launches` makes small operations as fast as it can, as a decoder's
host side does, while mixed content is written at `--pace` frames per second: each operation gives the
interpreter's lock up and must have it back, so its duration is the gap that a device would see (`gap`);
`locked_ms` is how long the thread stood still in all of them though it had a processor. Waits for a
processor, by the kernel's account, count neither as late nor as locked: others may use the machine. Medians
of the rounds.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch

from benchmarks.contents import contents
from benchmarks.decode import make_vae
from benchmarks.decode_variants import FPS, defaults
from benchmarks.encoder_child import EncoderProcess, ProcessSink
from benchmarks.figures import device_name, take_turns
from encoding.base import OutputSpec
from encoding.formats import open_sink
from encoding.frames import YUV420P, pack
from pipelines.wan_vae import StreamingDecoder

_CHUNK = 4
_SLOTS = 16
_TICK = 0.001


class Ender(Protocol):
    """What a video is written to."""

    def write(self, frames: torch.Tensor) -> None: ...

    def close(self) -> object: ...


class Nothing:
    """Frames are packed, as every sink's caller does, and dropped."""

    def write(self, frames: torch.Tensor) -> None:
        pack(frames, YUV420P)

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Case:
    """What all rounds share."""

    spec: OutputSpec
    decode: Callable[[], Iterator[torch.Tensor]]
    clip: torch.Tensor
    """(3, T, H, W): mixed content."""
    small: torch.Tensor
    """What the small operations work on."""
    pace: float


@dataclass
class Lateness:
    """A thread that sleeps until each next tick, and how late it then is."""

    late: list[float] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Lateness:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            due, queued = time.perf_counter() + _TICK, _own_seconds()[1]
            time.sleep(_TICK)
            self.late.append(time.perf_counter() - due - (_own_seconds()[1] - queued))


def decode(case: Case, sink: Ender) -> dict[str, float]:
    """From latents to a closed file."""
    with Lateness() as probe:
        for frames in case.decode():
            sink.write(frames)
        _settle(case)
        decoded = time.perf_counter()
    sink.close()
    tail = time.perf_counter() - decoded
    return {**_spread("late", probe.late), "tail_ms": tail * 1e3}


def launches(case: Case, sink: Ender) -> dict[str, float]:
    """Small operations without pause, and a chunk whenever it is due."""
    gaps: list[float] = []
    locked = 0.0
    began = time.perf_counter()
    for first in range(0, case.spec.num_frames, _CHUNK):
        due = began + first / case.pace
        entered, ran = time.perf_counter(), sum(_own_seconds())
        while (start := time.perf_counter()) < due:
            case.small.add_(1)
            gaps.append(time.perf_counter() - start)
        locked += time.perf_counter() - entered - (sum(_own_seconds()) - ran)
        sink.write(case.clip[:, first : min(first + _CHUNK, case.spec.num_frames)])
    made = time.perf_counter() - began
    sink.close()
    return {**_spread("gap", gaps), "locked_ms": 1e3 * locked, "per_second": len(gaps) / made}


def _own_seconds() -> tuple[float, float]:
    """This thread's time on a processor, and its waits for one."""
    ran, queued, _ = Path("/proc/thread-self/schedstat").read_text().split()
    return int(ran) / 1e9, int(queued) / 1e9


def _spread(name: str, seconds: list[float]) -> dict[str, float]:
    ranked = sorted(seconds)
    places = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
    found = {f"{name}_{place}_us": 1e6 * ranked[int(share * len(ranked))] for place, share in places.items()}
    return {**found, f"{name}_worst_us": 1e6 * ranked[-1]}


def _settle(case: Case) -> None:
    if case.small.is_cuda:
        torch.cuda.synchronize()


def main() -> None:
    """Run the benchmark."""
    options = _options()
    device = device_name(on_gpu=options.device == "cuda")
    print(f"{device}, torch {torch.__version__}: {options.vae}, {options.size}, {options.frames} frames")
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        case = _case(options, Path(folder))
        encoder = EncoderProcess(_SLOTS, YUV420P.packed_bytes(4 * _CHUNK, case.spec.width, case.spec.height))
        if case.small.is_cuda:
            encoder.page_lock()
        try:
            figures = take_turns(_runs(case, encoder), options.repeat, options, device)
        finally:
            encoder.close()
    for name, row in figures.items():
        print(f"{name:20}", ", ".join(f"{key} {value:.4g}" for key, value in row.items()))


def _runs(case: Case, encoder: EncoderProcess) -> dict[str, Callable[[], dict[str, float]]]:
    """What is measured, by work and encoder."""
    sinks: dict[str, Callable[[], Ender]] = {
        "none": Nothing,
        "thread": lambda: open_sink(case.spec),
        "process": lambda: ProcessSink(case.spec, encoder),
    }
    return {
        f"{work.__name__}, {name}": partial(_timed, work, case, make)
        for work in (decode, launches)
        for name, make in sinks.items()
    }


def _timed(
    work: Callable[[Case, Ender], dict[str, float]], case: Case, make: Callable[[], Ender]
) -> dict[str, float]:
    case.spec.path.unlink(missing_ok=True)
    _settle(case)
    processor, began = _processor_seconds(), time.perf_counter()
    row = work(case, make())
    _settle(case)
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "own_cpu": _processor_seconds() - processor, **row}


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _case(options: argparse.Namespace, folder: Path) -> Case:
    width, height = map(int, options.size.split("x"))
    device = torch.device(options.device)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    vae: Any = make_vae(options.vae).to(device, dtype).eval().requires_grad_(False)
    scale = vae.config.scale_factor_spatial
    shape = (1, vae.config.z_dim, (options.frames - 1) // 4 + 1, height // scale, width // scale)
    latents = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(device, dtype)
    decoder = StreamingDecoder(vae)
    clip = contents(height, width, options.frames)["mixed"].to(device, dtype)
    spec = OutputSpec(folder / "video.mp4", "mp4", width, height, options.frames, Fraction(FPS), defaults())
    return Case(spec, lambda: decoder.decode(latents), clip, torch.zeros(8, device=device), options.pace)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--vae", choices=["tiny", "mid", "z16", "z48"], default="tiny")
    parser.add_argument("--size", default="320x192")
    parser.add_argument("--frames", type=int, default=81)
    parser.add_argument("--pace", type=float, default=60.0, help="frames per second that `launches` writes")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
