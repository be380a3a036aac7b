"""How many latent frames make a step, and whether in tiles, by the memory that is free."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from diffusers import AutoencoderKLWan

from benchmarks.architectures import Z48
from pipelines.wan_vae.memory import DEFAULT_BYTES, Free, Plan, free_now, needed_bytes, parked_bytes, plan
from tests.pipelines.meta_walk import peak_bytes
from tests.pipelines.tiny_models import TINY

GIB = 2**30
PLENTY = Free(100 * GIB, 100 * GIB)


@pytest.fixture(scope="module")
def vae() -> Any:
    """The architecture of Wan 2.1's VAE, without memory for its weights."""
    with torch.device("meta"):
        return AutoencoderKLWan().to(torch.bfloat16)


@pytest.fixture(scope="module")
def z48() -> Any:
    """That of Wan 2.2's 5B, whose blocks have shortcuts."""
    with torch.device("meta"):
        return AutoencoderKLWan(**Z48).to(torch.bfloat16)


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
    assert plan(vae, given, None, free=Free(1, host)) == Plan(1, 4, (256, 256))


def test_waiting_tiles_need_room_on_the_host(vae: Any) -> None:
    """Tiles that the host cannot hold are passed over for those that it can, and never tried in vain."""
    given = latents(1920, 1088)
    need, host = (of(vae, given, Plan(1, 4, (256, 256))) for of in (needed_bytes, parked_bytes))
    assert host < parked_bytes(vae, given, Plan(1, 4, (512, 512)))
    assert plan(vae, given, None, free=Free(2 * need, host)) == Plan(2, 4, (256, 256))
    assert plan(vae, given, None, free=Free(1, host)) == Plan(1, 4, (256, 256))
    assert plan(vae, given, None, free=Free(2 * need, host - 1)) == Plan(1, 1)
    assert plan(vae, given, None, (256, 256), free=Free(1, 1)) == Plan(1, 4, (256, 256))


def test_what_allocators_have_idle_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside what the device and the host, with its container's limit, still have."""
    pinned = {"allocated_bytes.current": 7, "active_bytes.current": 4}
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (1000, 5000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 300)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 100)
    monkeypatch.setattr(torch.cuda, "host_memory_stats", lambda: pinned)
    monkeypatch.setattr("pipelines.wan_vae.memory.available_bytes", lambda: 50)
    assert free_now(torch.device("cuda")) == Free(1200, 53)


@pytest.mark.parametrize("fp8", [False, True])
@pytest.mark.parametrize(
    ("chunk", "stretch", "tile"),
    [(4, 4, None), (2, 4, None), (1, 1, None), (2, 4, (512, 512)), (1, 4, (256, 256))],
    ids=str,
)
@pytest.mark.parametrize("name", ["vae", "z48"])
def test_the_estimate_is_above_what_the_walk_holds(
    name: str,
    chunk: int,
    stretch: int,
    tile: Any,
    fp8: bool,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What libraries take inside of their own operators is left to the margin."""
    model, sizes = request.getfixturevalue(name), Plan(chunk, stretch, tile, fp8)
    scale = model.config.scale_factor_spatial
    given = torch.empty(
        1, model.config.z_dim, 1 + 2 * chunk, 704 // scale, 1280 // scale, dtype=torch.bfloat16, device="meta"
    )
    held, needed = peak_bytes(model, given, sizes, monkeypatch), needed_bytes(model, given, sizes)
    assert 0.4 * needed < held < needed


@pytest.mark.parametrize(("fp8", "measured_mib"), [(False, 4230), (True, 3150)])
def test_the_estimate_is_above_what_was_measured(vae: Any, fp8: bool, measured_mib: int) -> None:
    """On an H200, 81 frames of 832 × 480: docs/decisions/2026-11-29-fp8.md."""
    needed = needed_bytes(vae, latents(832, 480), Plan(4, 4, fp8=fp8))
    assert measured_mib * 2**20 < needed < 1.3 * measured_mib * 2**20


def test_fp8_takes_larger_steps_in_the_same_memory(vae: Any) -> None:
    """Inputs of its convolutions, and frames kept of them, take a byte a value; on the host, too."""
    given = latents(1280, 720)
    free = Free(needed_bytes(vae, given, Plan(1, 4, fp8=True)), 0)
    assert plan(vae, given, None, free=free, fp8=True) == Plan(1, 4, fp8=True)
    assert plan(vae, given, None, free=free) == Plan(1, 1)
    low, usual = (parked_bytes(vae, given, Plan(1, 4, (512, 512), fp8)) for fp8 in (True, False))
    assert usual / 2 <= low < 0.7 * usual


def test_the_estimate_grows_with_the_picture(vae: Any) -> None:
    """Each part of it is proportional to the number of pixels, but for the weights."""
    tiny, small, large = (
        needed_bytes(vae, latents(*sides), Plan(2, 4)) for sides in ((208, 128), (416, 256), (832, 512))
    )
    assert large - small == pytest.approx(4 * (small - tiny), rel=1e-6)


def test_the_host_decodes_one_latent_frame_at_a_time() -> None:
    """Larger steps gain nothing there."""
    model = AutoencoderKLWan.from_pretrained(TINY / "t2v" / "vae")
    given = torch.zeros(1, 16, 3, 4, 6)
    assert plan(model, given, None) == Plan(1, 4)
    assert plan(model, given, None, (64, 32)) == Plan(1, 4, (64, 32))
