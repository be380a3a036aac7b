"""What is left to do once the last frames are in host memory: a video's tail, part by part.

    python -m benchmarks.tail [--content mixed noise] [--preset ultrafast] [--size 832x480] [--frames 81]
                              [--chunk 4] [--last 4 1] [--pace 160] [--repeat 5] [--folder DIR] [--json FILE]

A producer that imitates a decoder: chunks come at `--pace` frames a second, but not before the encoder has
taken the last one, as on a machine where it keeps up; `--last` frames come in the last chunk. Each content
with each of these is a variant, and they take turns. With `--preset`, crf 18 as the peers have it; without,
the service's defaults. Medians in milliseconds, and of `whole` the fastest too: it ends when the sink's
result is set, and `closed` when the thread that waits for it has it. `processor`: what all threads took from
the last write on.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from pathlib import Path

import torch

from benchmarks.contents import contents
from benchmarks.decode_variants import CLIP_FRAMES, FPS, defaults, tail_notes
from benchmarks.figures import Row, device_name, take_turns
from encoding.base import Artifact, OutputSpec
from encoding.formats import open_sink
from encoding.session import Session


def main() -> None:
    """Run the benchmark."""
    options = _options()
    torch.set_num_threads(1)
    width, height = map(int, options.size.split("x"))
    codec = {"preset": options.preset, "crf": "18"} if options.preset else defaults()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "video.mp4"
        spec = OutputSpec(path, "mp4", width, height, options.frames, Fraction(FPS), codec)
        figures = take_turns(
            _variants(spec, options), options.repeat, options, device_name(on_gpu=False), both_orders=True
        )
    _print(figures)


def _variants(spec: OutputSpec, options: argparse.Namespace) -> dict[str, Callable[[], Row]]:
    clips = contents(spec.height, spec.width, CLIP_FRAMES)
    return {
        f"{content}, {last} at the end": partial(
            _made, spec, clips[content], list(_chunks(options.frames, options.chunk, last)), options.pace
        )
        for content in options.content
        for last in options.last
    }


def _print(figures: Mapping[str, Mapping[str, float]]) -> None:
    """A column for each variant."""
    width = 2 + max(map(len, figures))
    print(" " * 12 + "".join(f"{name:>{width}}" for name in figures))
    rows = [name for name in next(iter(figures.values())) if name not in ("seconds", "fastest")]
    for name in rows:
        print(
            f"{name.removesuffix('_ms'):12}" + "".join(f"{row[name]:{width}.2f}" for row in figures.values())
        )
    print(f"{'fastest':12}" + "".join(f"{1e3 * row['fastest']:{width}.2f}" for row in figures.values()))


def _chunks(frames: int, chunk: int, last: int) -> Iterator[int]:
    """Sizes: one frame first, as a decoder has it, then `chunk`, and `last` at the end."""
    left = frames - 1 - last
    yield 1
    while left > 0:
        yield min(chunk, left)
        left -= chunk
    yield last


def _made(spec: OutputSpec, clip: torch.Tensor, sizes: list[int], pace: float) -> Row:
    spec.path.unlink(missing_ok=True)
    ended: list[float] = []
    sink = open_sink(spec)
    assert isinstance(sink, Session)
    sink.result.add_done_callback(lambda _: ended.append(time.monotonic()))
    done, began = 0, time.monotonic()
    with sink:
        for size in sizes:
            frames = _frames(clip, done, size)
            time.sleep(max(0.0, began + done / pace - time.monotonic()))
            while sink.pending_bytes > 0:
                time.sleep(0.001)
            ran = time.process_time()
            sink.write(frames)
            done += size
    artifact = sink.close()
    closed, ran = time.monotonic(), time.process_time() - ran
    return _row(artifact, ended[0], closed, ran)


def _frames(clip: torch.Tensor, first: int, count: int) -> torch.Tensor:
    return clip[:, [index % CLIP_FRAMES for index in range(first, first + count)]]


def _row(artifact: Artifact, ended: float, closed: float, ran: float) -> Row:
    there = artifact.records[-1].taken  # at once: the encoder had nothing else to do
    return {
        "seconds": ended - there,
        **tail_notes(artifact),
        "whole_ms": 1e3 * (ended - there),
        "closed_ms": 1e3 * (closed - there),
        "processor_ms": 1e3 * ran,
        "megabytes": artifact.size_bytes / 1e6,
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--content", nargs="+", choices=["smooth", "mixed", "noise"], default=["mixed"])
    parser.add_argument("--preset", help="of libx264; default: the service's options")
    parser.add_argument("--size", default="832x480")
    parser.add_argument("--frames", type=int, default=81)
    parser.add_argument("--chunk", type=int, default=4)
    parser.add_argument("--last", type=int, nargs="+", default=[4])
    parser.add_argument("--pace", type=float, default=160.0, help="frames per second at most")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where the file is made; default: the system's own")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
