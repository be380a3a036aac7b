from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from pipelines.errors import InvalidParams
from pipelines.latents import draw, load_fixed

SHAPE = (16, 2, 4, 6)


def test_a_seed_means_the_same_noise_on_every_device() -> None:
    """Noise is what torch's CPU generator gives for the seed, in float32."""
    (noise,) = draw(7, 1, SHAPE)
    expected = torch.randn((1, *SHAPE), generator=torch.Generator("cpu").manual_seed(7))
    assert torch.equal(noise, expected)
    assert noise.dtype == torch.float32


def test_zero_and_the_largest_seed_are_seeds() -> None:
    """Both ends of the range draw, and differently."""
    (low,), (high,) = draw(0, 1, SHAPE), draw(2**63 - 1, 1, SHAPE)
    assert not torch.equal(low, high)


def test_the_first_of_several_is_the_only_one() -> None:
    """Asking for more outputs does not change the first."""
    (alone,) = draw(3, 1, SHAPE)
    first, second = draw(3, 2, SHAPE)
    assert torch.equal(alone, first)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
@pytest.mark.parametrize("batched", [True, False])
def test_a_fixed_latent_is_read(tmp_path: Path, suffix: str, batched: bool) -> None:
    """With or without a batch dimension, bare or by name, from either kind of file."""
    latent = torch.randn((1, *SHAPE) if batched else SHAPE)
    path = tmp_path / f"latent{suffix}"
    if suffix == ".pt":
        torch.save(latent, path)
    else:
        save_file({"latents": latent}, path)
    (read,) = load_fixed(path, 1, SHAPE)
    assert torch.equal(read, latent.reshape(1, *SHAPE))


def test_a_wrong_shape_is_refused_with_both_shapes(tmp_path: Path) -> None:
    """The message says what the file holds and what the request needs."""
    torch.save(torch.zeros(1, 16, 3, 4, 6), tmp_path / "latent.pt")
    with pytest.raises(InvalidParams, match=r"\(1, 16, 3, 4, 6\).*\(1, 16, 2, 4, 6\)") as caught:
        load_fixed(tmp_path / "latent.pt", 1, SHAPE)
    assert caught.value.field == "latents"


@pytest.mark.parametrize(
    "value", [torch.full((1, *SHAPE), torch.nan), torch.zeros((1, *SHAPE), dtype=torch.int64), "text"]
)
def test_what_is_no_noise_is_refused(tmp_path: Path, value: object) -> None:
    """NaN, integers and things that are no tensor."""
    torch.save(value, tmp_path / "latent.pt")
    with pytest.raises(InvalidParams, match=r"latent\.pt"):
        load_fixed(tmp_path / "latent.pt", 1, SHAPE)


@pytest.mark.parametrize("name", ["missing.pt", "broken.pt", "broken.safetensors"])
def test_an_unreadable_file_is_refused_by_its_name(tmp_path: Path, name: str) -> None:
    """Missing and broken files are named, without their folder."""
    if name.startswith("broken"):
        (tmp_path / name).write_bytes(b"not a tensor")
    with pytest.raises(InvalidParams) as caught:
        load_fixed(tmp_path / name, 1, SHAPE)
    assert name in str(caught.value)
    assert str(tmp_path) not in str(caught.value)
