"""All frames in one pass are diffusers' frames in steps."""

from __future__ import annotations

import pytest
import torch

from training import models, start, vae, whole, world


@pytest.mark.parametrize("layout", models.LAYOUTS)
@pytest.mark.parametrize("frames", [1, 9])
def test_the_numbers_are_those_of_diffusers(layout: str, frames: int) -> None:
    torch.manual_seed(1)
    model = models.vae(layout)
    video = torch.rand(2, 3, frames, 32, 48) * 2 - 1
    with torch.no_grad():
        theirs = model.encode(video).latent_dist.parameters
        torch.testing.assert_close(whole.encode(model, video), theirs, rtol=1e-4, atol=1e-5)
        latents = theirs.chunk(2, dim=1)[0]
        ours = whole.decode(model, latents).clamp(-1, 1)
        torch.testing.assert_close(ours, model.decode(latents).sample, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layout", models.LAYOUTS)
def test_a_start_gives_gradients_to_every_weight(layout: str) -> None:
    torch.manual_seed(1)
    model = models.vae(layout)
    start.fill(model)
    found = vae.losses(model, vae.clips(0, 2, 32, 5, "cpu"))
    found["loss"].backward()  # type: ignore[no-untyped-call]
    without = [name for name, value in model.named_parameters() if value.grad is None or not value.grad.any()]
    assert without == []


def test_clips_are_the_same_for_a_seed_and_differ_within_a_batch() -> None:
    one, again = (vae.clips(3, 2, 32, 5, "cpu") for _ in range(2))
    assert torch.equal(one, again)
    assert not torch.equal(one[0], one[1])
    assert one.shape == (2, 3, 5, 32, 32)


def test_psnr_is_in_decibel_of_white_over_error() -> None:
    """An error of a tenth of the range everywhere is 20 dB."""
    assert float(vae.psnr(torch.tensor(0.2**2))) == pytest.approx(20)
    assert world.Canvas(10, 20, 1).short == 10
