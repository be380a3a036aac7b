"""Speed, size and fidelity of encoder settings over three contents: what the defaults were chosen from.

Usage: python benchmarks/codec_defaults.py mp4 preset=veryfast,crf=18 preset=superfast,crf=18,threads=4 …
       (with codec=libx265 among the options: by that encoder)
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import av
import torch

from benchmarks.contents import contents
from encoding.base import OutputSpec
from encoding.frames import RGB24, YUV420P, pack
from encoding.mp4 import VideoWriter

HEIGHT, WIDTH, FRAMES = 480, 832, 65


def measure(
    name: str, options: dict[str, str], clip: torch.Tensor, codec: str | None = None
) -> tuple[float, int, float]:
    """Frames encoded per second from planes, bytes of the file, PSNR in dB of its RGB against the clip's."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"clip.{name}"
        spec = OutputSpec(path, name, WIDTH, HEIGHT, FRAMES, Fraction(16), options, codec=codec)
        planes = pack(clip, YUV420P)[:-1].view(FRAMES, -1)
        with path.open("w+b") as file:
            writer = VideoWriter(spec, file)
            began = time.perf_counter()
            for frame in planes:
                writer.add(frame)
            for _ in writer.drain():
                pass
            seconds = time.perf_counter() - began
            writer.close()
            writer.abandon()
        return FRAMES / seconds, path.stat().st_size, psnr(path, clip)


def psnr(path: Path, clip: torch.Tensor) -> float:
    original = pack(clip, RGB24)[:-1].view(FRAMES, HEIGHT, WIDTH, 3)
    error = 0.0
    with av.open(str(path)) as container:
        for index, frame in enumerate(container.decode(video=0)):
            decoded = torch.from_numpy(frame.to_ndarray(format="rgb24"))
            error += float((decoded.float() - original[index].float()).square().mean()) / FRAMES
    return 10 * math.log10(255**2 / error)


def main(name: str, settings: list[str]) -> None:
    torch.set_num_threads(1)
    for content, clip in contents(HEIGHT, WIDTH, FRAMES).items():
        for setting in settings:
            options = dict(pair.split("=", 1) for pair in setting.split(",")) if setting else {}
            rate, size, fidelity = measure(name, options, clip, options.pop("codec", None))
            print(
                f"{content:7} {setting:45} {rate:7.1f} fps {size / 1e6:8.3f} MB {fidelity:6.2f} dB",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
