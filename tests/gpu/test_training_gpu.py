"""Training on a GPU: what is replayed is what is computed, and the commands run there."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from training import latents, models, transformer, vae, world
from training.graphs import Replayed

pytestmark = pytest.mark.gpu

CANVAS = "32x32x5"
Passed = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def passed(net: object, answer: object, frames: int, length: int) -> Passed:
    """Output and gradients, of the weights and of what was told, for inputs that their sizes decide."""
    generator = torch.Generator("cuda").manual_seed(frames * length)
    told = torch.randn(2, length, models.TEXT_DIM, device="cuda", generator=generator, requires_grad=True)
    hidden_states = torch.randn(2, 16, frames, 4, 6, device="cuda", generator=generator)
    timestep = torch.rand(2, device="cuda", generator=generator) * 1000
    net.zero_grad()  # type: ignore[attr-defined]
    with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
        output = answer(hidden_states, timestep, told)  # type: ignore[operator]
    output.float().square().mean().backward()
    gradients = [value.grad.flatten() for value in net.parameters()]  # type: ignore[attr-defined]
    assert told.grad is not None
    return output.detach().clone(), torch.cat(gradients).clone(), told.grad.clone()


def test_replayed_passes_have_the_outputs_and_gradients_of_eager_ones() -> None:
    """For several sizes in turn, and after the weights have changed."""
    torch.manual_seed(0)
    net = models.transformer(16, 16).cuda()
    eager = transformer.Answer(net)
    replayed = Replayed(eager)
    for _ in range(3):
        for frames, length in ((2, 32), (3, 32), (2, 64)):
            for ours, theirs in zip(
                passed(net, replayed, frames, length), passed(net, eager, frames, length), strict=True
            ):
                assert float(theirs.abs().max()) > 0
                torch.testing.assert_close(ours, theirs, rtol=0.02, atol=0.02 * float(theirs.abs().max()))
        with torch.no_grad():
            for value in net.parameters():
                value.add_(torch.randn_like(value) * 0.02)


def test_the_commands_run_here(tmp_path: Path) -> None:
    """Both nets learn on the device; what they leave is of no device."""
    run, folder, clips = tmp_path / "run", tmp_path / "z16", tmp_path / "clips"
    small = ["--steps", "20", "--side", "16", "--frames", "5", "--batch", "4", "--device", "cuda"]
    assert vae.main(["z16", str(run), *small])
    assert vae.finish(run, "z16", folder, world.Canvas(32, 32, 5), 2) > 0
    given = ["--canvas", CANVAS, "--device", "cuda"]
    assert latents.main([str(folder), str(clips), "--clips", "8", "--pictures", *given])
    words = [str(clips), str(tmp_path / "i2v"), "--steps", "10", "--batch", "4", *given]
    assert transformer.main(["i2v", *words])
    assert transformer.main(["i2v", str(clips), str(tmp_path / "low"), "--from", *words[1:]])
