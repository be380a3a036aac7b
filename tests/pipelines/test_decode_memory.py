"""How many latent frames make a step, and whether in tiles, by the memory that is free."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from diffusers import AutoencoderKLWan

from pipelines.wan_vae.memory import DEFAULT_BYTES, Free, Plan, needed_bytes, parked_bytes, plan
from tests.pipelines.tiny_models import TINY

GIB = 2**30
PLENTY = Free(100 * GIB, 100 * GIB)


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
    chosen = plan(vae, given, None, free=PLENTY)
    assert chosen == Plan(4, 4)
    assert needed_bytes(vae, given, chosen) <= DEFAULT_BYTES == 6000 * 2**20


def test_less_memory_means_smaller_steps(vae: Any) -> None:
    """First fewer latent frames a step, then fewer frames at once at the last resolution."""
    given = latents(832, 480)
    needs = [
        needed_bytes(vae, given, size)
        for size in (Plan(4, 4), Plan(2, 4), Plan(1, 4), Plan(1, 2), Plan(1, 1))
    ]
    assert needs == sorted(needs, reverse=True)
    assert len(set(needs)) == 5
    chosen = [plan(vae, given, None, free=Free(free, 0)) for free in needs]
    assert chosen == [Plan(4, 4), Plan(2, 4), Plan(1, 4), Plan(1, 2), Plan(1, 1)]


def test_a_step_that_was_asked_for_is_kept(vae: Any) -> None:
    """Only the stretch and the tiles give way to the memory."""
    given = latents(1280, 720)
    assert plan(vae, given, 4, free=PLENTY) == Plan(4, 4)
    assert plan(vae, given, 4, None, free=Free(1, 1)) == Plan(4, 1)


def test_tiles_come_where_a_frame_at_once_is_too_much(vae: Any) -> None:
    """The largest step that fits, in the largest tiles; never if they are off, always if they are given."""
    given = latents(1920, 1088)
    needs = {
        sizes: needed_bytes(vae, given, sizes)
        for sizes in (Plan(1, 1), Plan(2, 4, (512, 512)), Plan(1, 4, (512, 512)), Plan(1, 4, (256, 256)))
    }
    host = parked_bytes(vae, given, Plan(1, 4, (512, 512)))
    assert list(needs.values()) == sorted(needs.values(), reverse=True)
    for sizes, need in needs.items():
        assert plan(vae, given, None, free=Free(need, host)) == sizes
        assert plan(vae, given, None, None, free=Free(need, host)) == Plan(1, 1)
    assert plan(vae, given, 4, free=Free(12 * GIB, host)) == Plan(4, 4, (512, 512))
    assert plan(vae, given, None, (640, 384), free=PLENTY) == Plan(4, 4, (640, 384))
    assert plan(vae, given, None, free=Free(1, 1)) == Plan(1, 4, (256, 256))


def test_waiting_tiles_need_room_on_the_host(vae: Any) -> None:
    """Tiles that the host cannot hold are passed over for those that it can."""
    given = latents(1920, 1088)
    need, host = (of(vae, given, Plan(1, 4, (256, 256))) for of in (needed_bytes, parked_bytes))
    assert host < parked_bytes(vae, given, Plan(1, 4, (512, 512)))
    assert plan(vae, given, None, free=Free(2 * need, host)) == Plan(2, 4, (256, 256))


def test_the_estimate_grows_with_the_picture(vae: Any) -> None:
    """Each part of it is proportional to the number of pixels."""
    small, large = latents(416, 240), latents(832, 480)
    assert needed_bytes(vae, large, Plan(2, 4)) == pytest.approx(
        4 * needed_bytes(vae, small, Plan(2, 4)), rel=1e-6
    )


def test_the_host_decodes_one_latent_frame_at_a_time() -> None:
    """Larger steps gain nothing there."""
    model = AutoencoderKLWan.from_pretrained(TINY / "t2v" / "vae")
    given = torch.zeros(1, 16, 3, 4, 6)
    assert plan(model, given, None) == Plan(1, 4)
    assert plan(model, given, None, (64, 32)) == Plan(1, 4, (64, 32))
