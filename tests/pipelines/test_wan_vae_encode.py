"""The VAE encoder against `AutoencoderKLWan.encode`, which computes the same layer by layer."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from diffusers import AutoencoderKLWan

from pipelines.wan_vae import encoder, encoder_tiles
from pipelines.wan_vae.memory import Free
from tests.pipelines.test_wan_vae import NAMES, vae


def clip(frames: int, size: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(1, 3, frames, size, size, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def whole(model: Any, video: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        mode: torch.Tensor = model.encode(video).latent_dist.mode()
    return mode


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("frames", [1, 5, 13])
def test_equals_diffusers_at_every_length(name: str, frames: int) -> None:
    """Equal in float32 to 1e-5 of the latents' size."""
    model = vae(name)
    video = clip(frames, 32)
    expected = whole(model, video)
    got = encoder.encode(model, video)
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max()))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("height", "width", "tile"), [(48, 80, (32, 16)), (32, 32, (512, 512))], ids=str)
def test_tiles_change_nothing(name: str, height: int, width: int, tile: tuple[int, int]) -> None:
    """Equal to diffusers' encode of whole pictures, where tiles divide them and where they do not."""
    model = vae(name)
    video = clip(9, 80)[..., :height, :width]
    expected = whole(model, video)
    got = encoder.encode(model, video, tile)
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max()))


@pytest.mark.parametrize("name", ["full-depth z16", "full-depth z48"])
def test_a_narrower_halo_would_show(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No pixel of it is to spare."""
    model, video = vae(name), clip(5, 48)
    halo = encoder_tiles.encode_halo(model)
    monkeypatch.setattr(encoder_tiles, "encode_halo", lambda _: halo - 1)
    expected = whole(model, video)
    assert (encoder.encode(model, video, (16, 16)) - expected).abs().max() > 1e-4 * expected.abs().max()


def test_an_encode_ends_between_two_tiles() -> None:
    """Whoever is told of each step and tile may refuse; the share that is done grows to the whole."""
    model, video = vae("tiny z16"), clip(5, 32)
    told: list[float] = []
    encoder.encode(model, video, (16, 16), told.append)
    assert told == pytest.approx([0, 0.05, 0.1, 0.15, 0.2, 0.2, 0.4, 0.6, 0.8, 1])

    def refuse(share: float) -> None:
        if share > 0.3:
            raise InterruptedError(share)

    with pytest.raises(InterruptedError, match=r"0\.4"):
        encoder.encode(model, video, (16, 16), refuse)
    told.clear()
    encoder.encode(model, video, None, told.append)
    assert told == pytest.approx([0, 0.2])


def test_memory_decides_on_tiles() -> None:
    """Whole pictures while they fit, then the largest tiles that do; the host never gets more than fits."""
    with torch.device("meta"):
        model = AutoencoderKLWan().bfloat16()
        frames = torch.empty(81, 1088, 1920, 3, dtype=torch.bfloat16)
    needs = [encoder_tiles.encode_bytes(model, frames, size) for size in (None, (512, 512), (256, 256))]
    device, host = zip(*needs, strict=True)
    assert device[0] > device[1] > device[2]
    assert host[0] == 0 < host[1] < host[2]
    found = [encoder_tiles.encode_tile(model, frames, "auto", Free(free, host[2])) for free in device]
    assert found == [None, (512, 512), (256, 256)]
    less = [encoder_tiles.encode_tile(model, frames, "auto", Free(1, bytes_ - 1)) for bytes_ in host[1:]]
    assert less == [None, (512, 512)]
    assert encoder_tiles.encode_tile(model, frames, None, Free(1, 1)) is None


@pytest.mark.parametrize("name", ["full-depth z16", "full-depth z48"])
@pytest.mark.parametrize("held", [1, 20, 38, 39, 40, 41, 81])
def test_a_held_picture_is_not_computed_again(held: int, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first picture, black, and a last one that is held: equal, and not every step was computed.

    Wherever in a step it begins: the first result that can be repeated is that of a step which sees nothing
    else. Or one picture throughout, before which there is nothing.
    """
    model = vae(name)
    video = torch.zeros(1, 3, 81, 16, 16)
    video[:, :, :1], video[:, :, 81 - held :] = clip(1, 16), clip(1, 16, seed=1)
    steps: list[int] = []
    computed = encoder._Walk._full_rate

    def count(walk: Any, frames: torch.Tensor) -> torch.Tensor:
        steps.append(frames.shape[0])
        return computed(walk, frames)

    monkeypatch.setattr(encoder._Walk, "_full_rate", count)
    got = encoder.encode(model, video)
    expected = whole(model, video)
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max()))
    assert len(steps) < 21


@pytest.mark.parametrize("name", ["full-depth z16", "full-depth z48"])
def test_bfloat16_is_as_near_to_the_truth_as_diffusers(name: str) -> None:
    """The mean error against a float32 encode is not above that of diffusers' own bfloat16 encode."""
    model, rounded = vae(name), vae(name, torch.bfloat16)
    video = clip(9, 64)
    truth = whole(model, video)
    ours = float((encoder.encode(rounded, video.bfloat16()).float() - truth).abs().mean())
    theirs = float((whole(rounded, video.bfloat16()).float() - truth).abs().mean())
    assert 0 < ours <= theirs
