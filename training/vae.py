"""Trains a VAE.

python -m training.vae z16 RUN --steps 4000          trains, or goes on with what RUN holds
python -m training.vae z16 RUN --finish VAE          measures its latents and writes a diffusers folder
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom

from training import models, start, whole, world
from training.loop import Losses, Plan, averaged, steps_done, train

SPARSE = 1e-4
"""Weight of the divergence from a standard normal: little noise in the latents, and none far out."""

WHOLE = world.Canvas(160, 96, 17)
"""What is measured at the end: a clip of the default size."""

_HELD_OUT = 2**40
"""Seeds from here up are never trained on."""


def clips(seed: int, count: int, side: int, frames: int, device: str) -> torch.Tensor:
    """Square cuts around shapes of the world, half of them in any colours: (B, 3, T, side, side).

    Many small cuts teach colours sooner than few large ones: there are two or three in each.
    """
    chance = Random(seed)
    made = [_cut(chance, seed * count + index, side, frames, device) for index in range(count)]
    return torch.stack(made)


def _cut(chance: Random, seed: int, side: int, frames: int, device: str) -> torch.Tensor:
    scene = world.scene(seed, world.Canvas(96, 96, frames))
    x, y, radius = chance.choice(scene.things).at(chance.random())
    left, top = (_edge(chance, middle, radius, side) for middle in (x, y))
    moved = tuple(
        replace(
            thing,
            start=(thing.start[0] - left, thing.start[1] - top, thing.start[2]),
            end=(thing.end[0] - left, thing.end[1] - top, thing.end[2]),
        )
        for thing in scene.things
    )
    cut = replace(scene, canvas=world.Canvas(side, side, frames), things=moved)
    return world.draw(cut, device) if chance.random() < 0.5 else _shaded(chance, cut, device)


def _shaded(chance: Random, scene: world.Scene, device: str) -> torch.Tensor:
    """A scene with a smooth run of any colours in place of each of its own.

    Every pixel teaches another colour, so that a few clips teach all of them; and pictures that users bring
    are not flat either.
    """
    parts = (scene.background, *(thing.colour for thing in scene.things))
    pure = dict(zip(parts, ((255, 0, 0), (0, 255, 0), (0, 0, 255)), strict=False))
    cover = (world.draw(scene, device, pure)[: len(parts)] + 1) / 2
    size = (scene.canvas.height, scene.canvas.width)
    runs = torch.stack([_run(chance, size, device) for _ in parts])
    return torch.einsum("pthw,pchw->cthw", cover, runs)


def _run(chance: Random, size: tuple[int, int], device: str) -> torch.Tensor:
    """Colours (3, H, W) in [-1, 1] between those of four corners, which may be alike."""
    spread = chance.random()
    base = [chance.uniform(-1, 1) for _ in range(3)]
    corners = torch.tensor([[middle + spread * chance.uniform(-1, 1) for _ in range(4)] for middle in base])
    corners = corners.clamp(-1, 1).view(1, 3, 2, 2).to(device)
    return F.interpolate(corners, size, mode="bilinear", align_corners=True)[0]


def _edge(chance: Random, middle: float, radius: float, side: int) -> int:
    """Where a cut begins, so that its middle is on a shape or near it."""
    return round(middle + chance.uniform(-1.1, 1.1) * radius - side / 2)


def losses(vae: Any, video: torch.Tensor) -> Losses:
    """How far a clip comes back changed, and how far its latents are from a standard normal."""
    mean, log_variance = whole.encode(vae, video).float().chunk(2, dim=1)
    log_variance = log_variance.clamp(-20, 5)
    latents = mean + torch.exp(log_variance / 2) * torch.randn_like(mean)
    error = whole.decode(vae, latents).float() - video
    squared = error.square().mean()
    divergence = (mean.square() + log_variance.exp() - 1 - log_variance).mean() / 2
    return {
        "loss": error.abs().mean() + squared + SPARSE * divergence,
        "psnr": psnr(squared),
        "divergence": divergence,
    }


def psnr(squared: torch.Tensor) -> torch.Tensor:
    """Peak signal to noise in dB from the mean square of errors where white is 1 and black -1."""
    return -10 * torch.log10(squared / 4)


def held_out(vae: Any, count: int, canvas: world.Canvas) -> float:
    """PSNR in dB of whole clips of the world that were not trained on: the mean over clips."""
    found = []
    with torch.no_grad():
        for index in range(count):
            video = world.draw(world.scene(_HELD_OUT + index, canvas), vae.device)[None]
            mean = whole.encode(vae, video).chunk(2, dim=1)[0]
            found.append(psnr(F.mse_loss(whole.decode(vae, mean).clamp(-1, 1), video)))
    return float(torch.stack(found).mean())


def finish(
    run: Path, layout: str, folder: Path, canvas: world.Canvas = WHOLE, clips_measured: int = 48
) -> float:
    """Write the averaged weights of `run`, float16, with the statistics of its latents; returns the PSNR."""
    vae = models.vae(layout)
    averaged(run, {"vae": vae})
    vae.half().float()  # what is measured is what is written
    with torch.no_grad():
        found = []
        for index in range(clips_measured):
            video = world.draw(world.scene(index, canvas))[None]
            found.append(whole.encode(vae, video).chunk(2, dim=1)[0].transpose(0, 1).flatten(1))
    latents = torch.cat(found, dim=1)
    vae.register_to_config(
        latents_mean=[round(value, 4) for value in latents.mean(dim=1).tolist()],
        latents_std=[round(value, 4) for value in latents.std(dim=1).clamp(min=0.05).tolist()],
    )
    quality = held_out(vae, 16, canvas)
    vae.half().save_pretrained(folder)
    return quality


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(description="Train a VAE.")
    parser.add_argument("layout", choices=models.LAYOUTS)
    parser.add_argument(
        "folder", type=Path, help="holds the run's state; a run that is there is gone on with"
    )
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--until", type=int, metavar="STEP", help="stop at this step for now")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--side", type=int, default=48, help="pixels of the square cuts")
    parser.add_argument("--frames", type=int, default=9)
    parser.add_argument("--rate", type=float, default=1.5e-3)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--finish", type=Path, metavar="VAE", help="write the trained VAE there instead")
    return parser


def main(arguments: Sequence[str] | None = None) -> bool:
    """The command; whether what it was asked for is there now."""
    options = parser().parse_args(arguments)
    if options.finish is not None:
        if not options.finish.exists():
            quality = finish(options.folder, options.layout, options.finish)
            print(f"{options.finish}: held-out PSNR {quality:.2f} dB", flush=True)
        return True
    plan = Plan(options.steps, options.rate, until=options.until, minutes=options.minutes)
    if steps_done(options.folder) < plan.end:
        learn(options, plan)
    return steps_done(options.folder) >= plan.end


def learn(options: argparse.Namespace, plan: Plan) -> None:
    """Run the plan, or as much of it as there is time for."""
    torch.manual_seed(0)
    if options.device == "cpu":
        whole.compile_norms()
    vae = models.vae(options.layout)
    start.fill(vae)
    vae.to(options.device)

    def step_losses(step: int) -> Losses:
        torch.manual_seed(step)
        video = clips(step, options.batch, options.side, options.frames, options.device)
        with torch.autocast(torch.device(options.device).type, torch.bfloat16):
            return losses(vae, video)

    train(options.folder, {"vae": vae}, step_losses, plan)


if __name__ == "__main__":
    main()
