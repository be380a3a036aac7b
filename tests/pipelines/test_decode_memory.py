"""How many latent frames make a step, by the memory that is free."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from diffusers import AutoencoderKLWan

from pipelines.wan_vae.memory import DEFAULT_BYTES, Plan, needed_bytes, plan
from tests.pipelines.tiny_models import TINY

GIB = 2**30


@pytest.fixture(scope="module")
def vae() -> Any:
    """The architecture of Wan 2.1's VAE, without memory for its weights."""
    with torch.device("meta"):
        return AutoencoderKLWan().to(torch.bfloat16)


def latents(width: int, height: int) -> torch.Tensor:
    return torch.empty(1, 16, 21, height // 8, width // 8, dtype=torch.bfloat16, device="meta")


def test_the_default_takes_at_most_its_bound(vae: Any) -> None:
    """With plenty free, 480 × 832 takes the largest step and stays below 6000 MiB."""
    given = latents(832, 480)
    chosen = plan(vae, given, None, free=100 * GIB)
    assert chosen == Plan(4, 4)
    assert needed_bytes(vae, given, chosen) <= DEFAULT_BYTES == 6000 * 2**20


def test_less_memory_means_smaller_steps(vae: Any) -> None:
    """First fewer latent frames a step, then fewer frames at once at the last resolution, never less."""
    given = latents(832, 480)
    needs = [
        needed_bytes(vae, given, size)
        for size in (Plan(4, 4), Plan(2, 4), Plan(1, 4), Plan(1, 2), Plan(1, 1))
    ]
    assert needs == sorted(needs, reverse=True)
    assert len(set(needs)) == 5
    chosen = [plan(vae, given, None, free=free) for free in needs]
    assert chosen == [Plan(4, 4), Plan(2, 4), Plan(1, 4), Plan(1, 2), Plan(1, 1)]
    assert plan(vae, given, None, free=1) == Plan(1, 1)


def test_a_step_that_was_asked_for_is_kept(vae: Any) -> None:
    """Only the stretch gives way to the memory."""
    given = latents(1280, 720)
    assert plan(vae, given, 4, free=100 * GIB) == Plan(4, 4)
    assert plan(vae, given, 4, free=1) == Plan(4, 1)


def test_the_estimate_grows_with_the_picture(vae: Any) -> None:
    """Each part of it is proportional to the number of pixels."""
    small, large = latents(416, 240), latents(832, 480)
    assert needed_bytes(vae, large, Plan(2, 4)) == pytest.approx(
        4 * needed_bytes(vae, small, Plan(2, 4)), rel=1e-6
    )


def test_the_host_decodes_one_latent_frame_at_a_time() -> None:
    """Larger steps gain nothing there."""
    model = AutoencoderKLWan.from_pretrained(TINY / "t2v" / "vae")
    assert plan(model, torch.zeros(1, 16, 3, 4, 6), None) == Plan(1, 4)
