"""Speed, size and fidelity of encoder settings over three contents: what the defaults were chosen from.

Usage: python benchmarks/codec_defaults.py mp4 preset=veryfast,crf=18 preset=superfast,crf=18,threads=4 …
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

from encoding.base import OutputSpec
from encoding.frames import RGB24, YUV420P, pack
from encoding.mp4 import VideoWriter

HEIGHT, WIDTH, FRAMES = 480, 832, 65


def contents() -> dict[str, torch.Tensor]:
    """Clips (3, T, H, W) in [-1, 1]: moving gradients; these with a textured third; uniform noise."""
    noise = torch.Generator().manual_seed(0)
    time_axis = torch.arange(FRAMES)[:, None, None] / 12
    down = torch.linspace(-3, 3, HEIGHT)[None, :, None]
    across = torch.linspace(-5, 5, WIDTH)[None, None, :]
    smooth = 0.9 * torch.stack(
        [
            torch.sin(across + time_axis) * torch.cos(down),
            torch.cos(down * 1.3 - time_axis) + 0 * across,
            torch.sin((across + down) / 2 + 2 * time_axis),
        ]
    )
    # A grey texture of three-pixel grains that moves: colour noise would measure what 4:2:0 leaves out.
    texture = torch.randn((1, 1, HEIGHT, 2 * WIDTH), generator=noise)
    texture = torch.nn.functional.avg_pool2d(texture, 3, stride=1, padding=1)[0]
    rows, columns = slice(HEIGHT // 4, 3 * HEIGHT // 4), slice(WIDTH // 4, 7 * WIDTH // 12)
    mixed = smooth + 0.01 * torch.randn((1, FRAMES, HEIGHT, WIDTH), generator=noise)
    for frame in range(FRAMES):
        moved = texture[:, rows, 3 * frame : 3 * frame + columns.stop - columns.start]
        mixed[:, frame, rows, columns] += 0.6 * moved
    return {
        "smooth": smooth.clamp(-1, 1),
        "mixed": mixed.clamp(-1, 1),
        "noise": torch.rand((3, FRAMES, HEIGHT, WIDTH), generator=noise) * 2 - 1,
    }


def measure(name: str, options: dict[str, str], clip: torch.Tensor) -> tuple[float, int, float]:
    """Frames encoded per second from planes, bytes of the file, PSNR in dB of its RGB against the clip's."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"clip.{name}"
        spec = OutputSpec(path, name, WIDTH, HEIGHT, FRAMES, Fraction(16), options)
        planes = pack(clip, YUV420P)[:-1].view(FRAMES, -1)
        with path.open("w+b") as file:
            writer = VideoWriter(spec, file, {})
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
    for content, clip in contents().items():
        for setting in settings:
            options = dict(pair.split("=", 1) for pair in setting.split(",")) if setting else {}
            rate, size, fidelity = measure(name, options, clip)
            print(
                f"{content:7} {setting:45} {rate:7.1f} fps {size / 1e6:8.3f} MB {fidelity:6.2f} dB",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
