"""All of the training, in order: `python -m training.course FOLDER [--device cuda] [--minutes 9]`.

What is done is not done again, and what was stopped goes on: start it until it says that it is finished.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from contextlib import chdir
from pathlib import Path

from training import export, latents, transformer, vae

COURSE = """
vae z16 z16-run --steps 6000 --until 1000 --side 16 --frames 5 --batch {patches}
vae z16 z16-run --steps 6000 --until 4000 --side 48 --frames 5 --batch {cuts}
vae z16 z16-run --steps 6000 --side 64 --frames 9 --batch {cuts}
vae z16 z16-run --finish z16
latents z16 z16-clips --clips {many} --canvas 96x64x9
latents z16 z16-clips --clips {many} --canvas 160x96x17 --pictures
latents z16 z16-clips --clips {few} --canvas 96x160x17 --pictures
latents z16 z16-clips --clips {few} --canvas 160x96x33 --pictures

transformer t2v z16-clips t2v --until 5000 --canvas 96x64x9 --steps 12000 --batch {batch}
transformer t2v z16-clips t2v --canvas {sizes} --steps 12000 --batch {batch}
transformer t2v z16-clips t2v-high --from t2v --levels 0.875 1 --canvas {sizes} {short} --batch {batch}
transformer t2v z16-clips t2v-low --from t2v --levels 0 0.875 --canvas {sizes} {short} --batch {batch}
export t2v z16 out/t2v --high t2v-high --low t2v-low

transformer i2v z16-clips i2v --from t2v --canvas {sizes} --steps 4000 --batch {batch}
transformer i2v z16-clips i2v-high --from i2v --levels 0.9 1 --canvas {sizes} {short} --batch {batch}
transformer i2v z16-clips i2v-low --from i2v --levels 0 0.9 --canvas {sizes} {short} --batch {batch}
export i2v z16 out/i2v --high i2v-high --low i2v-low

vae z48 z48-run --steps 6000 --until 1000 --side 32 --frames 5 --batch {patches}
vae z48 z48-run --steps 6000 --until 3500 --side 64 --frames 5 --batch {cuts}
vae z48 z48-run --steps 6000 --side 96 --frames 9 --batch {cuts}
vae z48 z48-run --finish z48
latents z48 z48-clips --clips {many} --canvas 160x96x17
latents z48 z48-clips --clips {few} --canvas 96x160x17
latents z48 z48-clips --clips {few} --canvas 160x96x33
transformer ti2v z48-clips ti2v --from t2v --canvas {sizes} --steps 10000 --batch {batch}
export ti2v z48 out/ti2v --high ti2v
"""
"""A command and its arguments a line; folders are below that of the course."""

COMMANDS: dict[str, Callable[[Sequence[str]], bool]] = {
    "vae": vae.main,
    "latents": latents.main,
    "transformer": transformer.main,
    "export": export.main,
}
"""Each does what is left to do and says whether that was all."""

_TIMED = ("vae", "latents", "transformer")


def stages(batch: int) -> list[list[str]]:
    """The lines of the course in words."""
    values = {
        "batch": batch,
        "patches": batch * 3 // 2,
        "cuts": max(1, batch // 4),
        "many": batch * 200,
        "few": batch * 40,
        "sizes": "160x96x17 160x96x17 160x96x17 96x160x17 160x96x33",  # the default size more often
        "short": "--steps 1500 --rate 3e-4",
    }
    return [line.format(**values).split() for line in COURSE.splitlines() if line]


def follow(batch: int, device: str, minutes: float | None) -> bool:
    """Go through the course in the present folder; False when the time was up before its end."""
    started = time.monotonic()
    for command, *arguments in stages(batch):
        words = list(arguments)
        if command in _TIMED:
            words += ["--device", device]
            if minutes is not None:
                words += ["--minutes", str(max(0.0, minutes - (time.monotonic() - started) / 60))]
        print(command, *words, flush=True)
        if not COMMANDS[command](words):
            return False
    return True


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Train everything.")
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--batch", type=int, default=32, help="clips in a step of a transformer; a GPU takes 128"
    )
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with chdir(options.folder):
        finished = follow(options.batch, options.device, options.minutes)
    print("finished" if finished else "time is up: start it again")


if __name__ == "__main__":
    main()
