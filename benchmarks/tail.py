"""What is left to do once the last frames are in host memory: a video's tail, part by part.

    python -m benchmarks.tail [--content mixed] [--preset ultrafast] [--size 832x480] [--frames 81]
                              [--chunk 4] [--last 4] [--pace 160] [--repeat 5] [--json FILE]

A producer that imitates a decoder: chunks come at `--pace` frames a second, but not before the encoder has
taken the last one, as on a machine where it keeps up; `--last` frames come in the last chunk. With
`--preset`, crf 18 as the peers have it; without, the service's defaults. Medians and the fastest of the
repeats, in milliseconds. `whole` ends when the sink's result is there.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import torch

from benchmarks.contents import contents
from benchmarks.decode_variants import CLIP_FRAMES, FPS, defaults, tail_notes
from benchmarks.figures import device_name, write_figures
from encoding.base import Artifact, OutputSpec
from encoding.formats import open_sink
from encoding.session import Session


def main() -> None:
    """Run the benchmark."""
    options = _options()
    torch.set_num_threads(1)
    width, height = map(int, options.size.split("x"))
    codec = {"preset": options.preset, "crf": "18"} if options.preset else defaults()
    clip = contents(height, width, CLIP_FRAMES)[options.content]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "video.mp4"
        spec = OutputSpec(path, "mp4", width, height, options.frames, Fraction(FPS), codec)
        sizes = list(_chunks(options.frames, options.chunk, options.last))
        rows = [_made(spec, clip, sizes, options.pace) for _ in range(options.repeat + 1)][1:]
    figures = {
        name: {"median": statistics.median(times), "fastest": min(times), "all": times}
        for name in rows[0]
        for times in [[row[name] for row in rows]]
    }
    for name, row in figures.items():
        print(f"{name:16} {row['median']:8.2f}  fastest {row['fastest']:8.2f}")
    write_figures(options, device_name(on_gpu=False), figures)


def _chunks(frames: int, chunk: int, last: int) -> Iterator[int]:
    """Sizes: one frame first, as a decoder has it, then `chunk`, and `last` at the end."""
    left = frames - 1 - last
    yield 1
    while left > 0:
        yield min(chunk, left)
        left -= chunk
    yield last


def _made(spec: OutputSpec, clip: torch.Tensor, sizes: list[int], pace: float) -> dict[str, float]:
    spec.path.unlink(missing_ok=True)
    ended: list[float] = []
    sink = open_sink(spec)
    assert isinstance(sink, Session)
    sink.result.add_done_callback(lambda _: ended.append(time.monotonic()))
    done, began = 0, time.monotonic()
    with sink:
        for size in sizes:
            time.sleep(max(0.0, began + done / pace - time.monotonic()))
            while sink.pending_bytes > 0:
                time.sleep(0.001)
            sink.write(_frames(clip, done, size))
            done += size
    return _row(sink.close(), ended[0])


def _frames(clip: torch.Tensor, first: int, count: int) -> torch.Tensor:
    return clip[:, [index % CLIP_FRAMES for index in range(first, first + count)]]


def _row(artifact: Artifact, ended: float) -> dict[str, float]:
    whole = 1e3 * (ended - artifact.records[-1].copied)
    return {**tail_notes(artifact), "whole_ms": whole, "megabytes": artifact.size_bytes / 1e6}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--content", choices=["smooth", "mixed", "noise"], default="mixed")
    parser.add_argument("--preset", help="of libx264; default: the service's options")
    parser.add_argument("--size", default="832x480")
    parser.add_argument("--frames", type=int, default=81)
    parser.add_argument("--chunk", type=int, default=4)
    parser.add_argument("--last", type=int, default=4)
    parser.add_argument("--pace", type=float, default=160.0, help="frames per second at most")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
