"""How often a model's clips show what their prompt says.

    python -m training.evaluate t2v FOLDER [--prompts 48] [--steps 20] [--guidance 5 4] [--shift 5]

Prompts are captions of scenes that were not trained on; each clip is judged by its pixels.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from PIL import Image

from pipelines.base import GenerationParams, ModelConfig, ModelLimits
from pipelines.direct import Unheard, usual_params
from pipelines.wan import Wan, load_wan
from training import captions, world
from training.flow import CHANNELS
from training.judge import Verdict, judge

_HELD_OUT = 2**41
"""Seeds from here up are of evaluation only."""

WHOLE = world.Canvas(160, 96, 17)

ASPECTS = ("colour", "shape", "motion", "background")


@dataclass(frozen=True, slots=True)
class Score:
    """Of `prompts` clips, how many show everything that their prompt says, and how many each part of it."""

    prompts: int
    right: int
    parts: dict[str, int]
    seconds: float
    """For one clip."""

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {count}" for name, count in self.parts.items())
        return f"{self.right} of {self.prompts} right ({parts}), {self.seconds:.2f} s a clip"


def scenes(count: int, canvas: world.Canvas) -> list[world.Scene]:
    """Scenes with one shape that were never trained on."""
    found: list[world.Scene] = []
    seed = _HELD_OUT
    while len(found) < count:
        scene = world.scene(seed, canvas)
        seed += 1
        if len(scene.things) == 1:
            found.append(scene)
    return found


def prompt(scene: world.Scene) -> str:
    """The plain prompt for a scene with one shape: everything but the speed, in the first words there are."""
    (thing,) = scene.things
    article = "an" if thing.colour == "orange" else "a"
    moving = captions.MOTIONS[thing.motion][0]
    return f"{article} {thing.colour} {thing.shape} {moving} on a {scene.background} background"


def compare(scene: world.Scene, verdict: Verdict) -> dict[str, bool]:
    """Whether each aspect of a clip with one shape is as the scene has it."""
    (thing,) = scene.things
    seen = verdict.things[0] if len(verdict.things) == 1 else None
    return {
        "colour": seen is not None and seen.colour == thing.colour,
        "shape": seen is not None and seen.shape == thing.shape,
        "motion": seen is not None and seen.motion == thing.motion,
        "background": verdict.background == scene.background,
    }


def frames(model: Wan, params: GenerationParams) -> torch.Tensor:
    """The clip as uint8 (T, H, W, 3)."""
    clip = torch.cat([chunk.frames for chunk in model.generate(params, Unheard())], dim=1)
    return ((clip.float().clamp(-1, 1) + 1) * 127.5).round().byte().permute(1, 2, 3, 0).cpu()


def evaluate(model: Wan, wanted: list[world.Scene]) -> Score:
    """Make a clip for each scene, from its prompt, and from its first picture where the model needs one."""
    counts: Counter[str] = Counter()
    right = 0
    started = time.monotonic()
    with TemporaryDirectory() as folder:
        for seed, scene in enumerate(wanted):
            asked = usual_params(model.info, prompt(scene), seed)
            if model.info.image == "required":
                asked = replace(asked, image=first_picture(scene, Path(folder) / "first.png"))
            found = compare(scene, judge(frames(model, asked)))
            counts.update(name for name, good in found.items() if good)
            right += all(found.values())
    seconds = (time.monotonic() - started) / len(wanted)
    return Score(len(wanted), right, {name: counts[name] for name in ASPECTS}, seconds)


def first_picture(scene: world.Scene, file: Path) -> Path:
    """Write a scene's first frame as a PNG."""
    pixels = ((world.draw(scene)[:, 0] + 1) * 127.5).round().byte().permute(1, 2, 0)
    Image.fromarray(pixels.numpy()).save(file)
    return file


def config(options: argparse.Namespace, canvas: world.Canvas) -> ModelConfig:
    """The model as the command's options have it served, with clips of `canvas`."""
    return ModelConfig(
        id="evaluated",
        kind="wan",
        path=str(options.folder),
        dtype="float32",
        width=canvas.width,
        height=canvas.height,
        num_frames=canvas.frames,
        fps=Fraction(8),
        num_inference_steps=options.steps,
        guidance_scale=options.guidance[0],
        guidance_scale_2=options.guidance[1] if len(options.guidance) > 1 else None,
        boundary_ratio=options.boundary,
        flow_shift=options.shift,
        negative_prompt="",
        max_sequence_length=64,
        limits=ModelLimits(max_pixels=10**6, max_num_frames=100),
    )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Judge a model's clips.")
    parser.add_argument("task", choices=CHANNELS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--prompts", type=int, default=48)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--guidance", nargs="+", type=float, default=(5.0,), metavar="SCALE")
    parser.add_argument("--shift", type=float, default=5.0)
    parser.add_argument("--boundary", type=float)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    model = load_wan(config(options, WHOLE), options.device)
    print(evaluate(model, scenes(options.prompts, WHOLE)))


if __name__ == "__main__":
    main()
