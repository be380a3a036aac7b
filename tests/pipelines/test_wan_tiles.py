"""A decode in tiles against the same decode whole; what is told of tiles."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
import torch

from pipelines.base import DecodeConfig
from pipelines.errors import Cancelled
from pipelines.wan import Wan
from pipelines.wan_vae import StreamingDecoder, tiles
from pipelines.wan_vae.fast import Caches
from pipelines.wan_vae.memory import Plan, parked_bytes
from tests.pipelines.test_wan_vae import NAMES, latents, live_bytes, vae, whole
from tests.pipelines.tiny_models import Recorder, params_for, picture, tiny_config


def tiled(model: Any, given: torch.Tensor, tile: tuple[int, int], chunk: int = 2) -> torch.Tensor:
    return torch.cat(list(StreamingDecoder(model, chunk=chunk, tile=tile).decode(given)), dim=1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("size", "tile", "chunk"),
    [
        ((5, 1, 1), (16, 16), 1),
        ((3, 7, 5), (32, 32), 2),
        ((4, 5, 3), (16, 48), 4),
        ((2, 3, 3), (512, 512), 1),
    ],
    ids=str,
)
def test_tiles_change_nothing(
    name: str, size: tuple[int, int, int], tile: tuple[int, int], chunk: int
) -> None:
    """Equal to diffusers' decode of whole pictures to 1e-5, at odd sizes, in tiles that do not fit."""
    model = vae(name)
    given = latents(model, *size)
    torch.testing.assert_close(tiled(model, given, tile, chunk), whole(model, given), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("name", "less"), [("full-depth z16", 1), ("full-depth z48", 2)])
def test_a_narrower_halo_would_show(name: str, less: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above would see a seam (z48's last pixel of the halo has too little weight for that)."""
    model = vae(name)
    given = latents(model, 2, 6, 8)
    halo = tiles.halo_of(model)
    monkeypatch.setattr(tiles, "halo_of", lambda _: halo - less)
    assert float((tiled(model, given, (32, 32)) - whole(model, given)).abs().max()) > 1e-4


@pytest.mark.parametrize(
    ("length", "size", "halo"), [(1, 1, 3), (17, 4, 2), (16, 4, 0), (5, 100, 6), (30, 7, 50)], ids=str
)
def test_spans_cover_a_side_once(length: int, size: int, halo: int) -> None:
    """Each pixel of the result comes of one tile, by its own pixels, none larger than asked for."""
    side = torch.arange(length)
    found = torch.full((2 * length,), -1)
    for span in tiles.spans(length, size, halo, out=2):
        assert (span.place.stop - span.place.start) <= 2 * size
        assert bool((found[span.place] == -1).all())
        found[span.place] = side[span.taken].repeat_interleave(2)[span.kept]
    assert torch.equal(found, side.repeat_interleave(2))


def test_chunks_leave_step_by_step() -> None:
    """Not one tile after another over all frames: what has left does not depend on later latents."""
    model = vae("full-depth z16")
    one, other = latents(model, 6), latents(model, 6)
    other[:, :, 2:] += 1
    decoder = StreamingDecoder(model, chunk=2, tile=(16, 16))
    pairs = list(zip(decoder.decode(one), decoder.decode(other), strict=True))
    assert [frames.shape[1] for frames, _ in pairs] == [1, 4, 8, 8]
    assert [torch.equal(*pair) for pair in pairs] == [True, True, False, False]


def test_a_decode_ends_between_two_tiles() -> None:
    """Whoever is asked before each tile may refuse; the frames that are done grow, and nothing is left."""
    model = vae("tiny z16")
    given = latents(model, 3, 4, 4)
    told: list[float] = []

    def ask(frames: float) -> None:
        told.append(frames)
        if len(told) == 7:
            raise InterruptedError

    before = live_bytes()
    decoder = StreamingDecoder(model, tile=(16, 16)).decode(given, ask)
    assert next(decoder).shape == (3, 1, 32, 32)
    with pytest.raises(InterruptedError):
        next(decoder)
    assert told == [0, 0.25, 0.5, 0.75, 1, 2, 3]
    assert live_bytes() == before


def test_tiles_need_less_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what torch allocates, with the caches of waiting tiles elsewhere: less than half."""
    model = vae("full-depth z16")
    given = latents(model, 2, 16, 24)
    sizes = Plan(1, 4, (32, 32))
    away = Elsewhere(monkeypatch)
    whole, tiled = (
        peak_bytes(StreamingDecoder(model, chunk=1, tile=tile), given) for tile in (None, sizes.tile)
    )
    assert tiled < 0.5 * whole
    assert 0 < away.most <= parked_bytes(model, given, sizes)


class Elsewhere:
    """Memory that torch does not count, as a GPU's host is, for the caches of waiting tiles."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.most = 0
        self._held: dict[Caches, dict[Any, Any]] = {}
        monkeypatch.setattr(Caches, "park", lambda caches: self.park(caches))
        monkeypatch.setattr(Caches, "fetch", lambda caches, device: self.fetch(caches, device))

    def park(self, caches: Caches) -> None:
        self._held[caches] = {conv: kept.numpy().copy() for conv, kept in caches._kept.items()}
        caches._kept.clear()
        self.most = max(self.most, sum(item.nbytes for held in self._held.values() for item in held.values()))

    def fetch(self, caches: Caches, device: torch.device) -> None:
        for conv, held in self._held.get(caches, {}).items():
            caches._kept[conv] = torch.from_numpy(held).to(device, copy=True)


def peak_bytes(decoder: StreamingDecoder, given: torch.Tensor) -> int:
    """The most that a decode of `given` has allocated at once, over what was there before it."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        for _ in decoder.decode(given):
            pass
    changes = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    changes.sort(key=lambda event: event.start_ns())
    return max(accumulate(int(event.nbytes()) for event in changes))


def test_a_driver_is_asked_before_each_tile(t2v: Wan) -> None:
    """So that a cancel is heard there; what is told as done never goes back."""
    model = Wan(t2v._pipe, tiny_config("t2v", decode=DecodeConfig(tile=(32, 32))), torch.device("cpu"))
    control = Recorder()
    list(model.generate(params_for(model, num_frames=8, num_inference_steps=1), control))
    decode = [call for call in control.calls if call[0] == "decode"]
    assert decode == [("decode", done, 8) for done in (0, 0, 0, 1, 1, 1, 5, 5, 5, 8)]
    assert control.costs[2:] == [0, 0.5 / 8, 1 / 8, 3 / 8, 5 / 8, 7 / 8]


def test_a_driver_is_told_of_each_tile_of_a_picture(i2v: Wan, tmp_path: Path) -> None:
    """A cancel is heard between two of them."""
    model = Wan(i2v._pipe, tiny_config("i2v", decode=DecodeConfig(tile=(32, 32))), torch.device("cpu"))
    wanted = params_for(model, image=picture(tmp_path / "1.png", 64, 32), num_frames=5)
    heard: list[float | None] = []

    class Cancelling(Recorder):
        def progress(self, at: Any, step: int, steps: int, cost: float | None = None) -> None:
            if at == "image":
                heard.append(cost)
                if cost == pytest.approx(0.6):
                    raise Cancelled("by the test")

    with pytest.raises(Cancelled):
        list(model.generate(wanted, Cancelling()))
    assert heard == [None, 0, pytest.approx(0.1), pytest.approx(0.2), pytest.approx(0.2), pytest.approx(0.6)]
