"""The streaming decoder against `AutoencoderKLWan.decode`, which computes the same in one piece."""

from __future__ import annotations

import gc
from functools import cache
from typing import Any

import pytest
import torch
from accelerate.hooks import (
    ModelHook,
    add_hook_to_module,
    remove_hook_from_module,
)
from diffusers import AutoencoderKLWan

from pipelines.tiny_wan import nets
from pipelines.wan_vae import StreamingDecoder, decoder
from pipelines.wan_vae.memory import Plan
from tests.pipelines.tiny_models import TINY

Z48 = {"latents_mean": [0.0] * 48, "latents_std": [1.0] * 48, **nets.Z48}
NAMES = ["tiny z16", "tiny z48", "full-depth z16", "full-depth z48"]


@cache
def vae(name: str, dtype: torch.dtype = torch.float32) -> Any:
    """Shipped VAEs, and the published architectures (channel multipliers, blocks) with fewer channels."""
    if name.startswith("tiny"):
        task = "t2v" if name.endswith("z16") else "ti2v"
        return AutoencoderKLWan.from_pretrained(TINY / task / "vae", dtype=dtype)
    torch.manual_seed(0)
    made = AutoencoderKLWan(base_dim=8, decoder_base_dim=8, **(Z48 if name.endswith("z48") else {}))
    return made.to(dtype).eval()


def latents(model: Any, frames: int, height: int = 3, width: int = 4, seed: int = 0) -> torch.Tensor:
    shape = (1, model.config.z_dim, frames, height, width)
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(model.dtype)


def whole(model: Any, given: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        video: torch.Tensor = model.decode(given).sample[0]
    return video


def streamed(model: Any, given: torch.Tensor, **options: Any) -> torch.Tensor:
    return torch.cat(list(StreamingDecoder(model, **options).decode(given)), dim=1)


def live_bytes() -> int:
    """Memory of all tensors that Python can reach."""
    gc.collect()
    found = [value for value in gc.get_objects() if type(value) is torch.Tensor]
    return sum(
        {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in found}.values()
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("frames", "chunk"), [(1, 1), (1, 7), (2, 1), (2, 3), (3, 2), (5, 1), (5, 2), (5, 3), (8, 7), (5, 100)]
)
def test_equals_diffusers_at_every_length_and_chunk(name: str, frames: int, chunk: int) -> None:
    """Equal in float32 to 1e-5, whatever the steps."""
    model = vae(name)
    given = latents(model, frames)
    torch.testing.assert_close(streamed(model, given, chunk=chunk), whole(model, given), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [(1, 1), (5, 3)], ids=str)
def test_equals_diffusers_at_every_size(name: str, size: tuple[int, int]) -> None:
    """Equal for odd and single-pixel latents."""
    model = vae(name)
    given = latents(model, 3, *size)
    torch.testing.assert_close(streamed(model, given, chunk=2), whole(model, given), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["tiny z16", "full-depth z48"])
@pytest.mark.parametrize("stretch", [1, 2])
def test_equals_diffusers_in_every_stretch(name: str, stretch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where memory asks for it, the last resolution takes fewer frames at once; they leave at once, too."""
    model = vae(name)
    given = latents(model, 4)
    monkeypatch.setattr(decoder, "plan", lambda *_, **__: Plan(2, stretch))
    chunks = list(StreamingDecoder(model).decode(given))
    assert [frames.shape[1] for frames in chunks] == [1] + [stretch] * (12 // stretch)
    torch.testing.assert_close(torch.cat(chunks, dim=1), whole(model, given), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("frames", "counts"), [(1, [1]), (2, [1, 2, 1, 1]), (4, [1, 4, 4, 2, 1, 1])])
def test_the_last_frames_leave_one_by_one(
    frames: int, counts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever takes them has little left to do once the decode is over; they are the same."""
    model = vae("tiny z16")
    given = latents(model, frames)
    monkeypatch.setattr(decoder, "plan", lambda *_, **__: Plan(2, 4))
    chunks = list(StreamingDecoder(model, taper=True).decode(given))
    assert [part.shape[1] for part in chunks] == counts
    torch.testing.assert_close(torch.cat(chunks, dim=1), whole(model, given), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["full-depth z16", "full-depth z48"])
def test_bfloat16_is_as_near_to_the_truth_as_diffusers(name: str) -> None:
    """The mean error against a float32 decode is not above that of diffusers' own bfloat16 decode."""
    model, rounded = vae(name), vae(name, torch.bfloat16)
    given = latents(model, 5, 6, 8)
    truth = whole(model, given)
    ours, theirs = (
        float((frames.float() - truth).abs().mean())
        for frames in (streamed(rounded, given.bfloat16(), chunk=2), whole(rounded, given.bfloat16()))
    )
    assert 0 < ours <= theirs


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("frames", [1, 2, 5])
def test_exact_means_the_same_bits(name: str, dtype: torch.dtype, frames: int) -> None:
    """`exact` repeats diffusers bit for bit, even when larger steps are configured."""
    model = vae(name, dtype)
    given = latents(model, frames)
    assert torch.equal(streamed(model, given, chunk=4, exact=True), whole(model, given))


@pytest.mark.parametrize(
    ("chunk", "counts"), [(1, [1, 4, 4, 4, 4, 4]), (2, [1, 4, 8, 8]), (3, [1, 4, 8, 8]), (100, [1, 4, 8, 8])]
)
@pytest.mark.parametrize(("name", "scale"), [("tiny z16", 8), ("tiny z48", 16)])
def test_chunks_have_the_promised_shapes(name: str, scale: int, chunk: int, counts: list[int]) -> None:
    """One frame first, then four for each latent frame of a step, of which the second has one; in [-1, 1]."""
    model = vae(name)
    chunks = list(StreamingDecoder(model, chunk=chunk).decode(latents(model, 6) * 5))
    assert [tuple(frames.shape) for frames in chunks] == [(3, t, 3 * scale, 4 * scale) for t in counts]
    assert all(float(frames.abs().max()) <= 1 for frames in chunks)


def test_a_chunk_leaves_before_later_latents_are_looked_at() -> None:
    """Causal: what has been yielded does not depend on what follows."""
    model = vae("full-depth z16")
    one, other = latents(model, 4), latents(model, 4)
    other[:, :, 2:] += 1
    pairs = list(zip(*(StreamingDecoder(model).decode(given) for given in (one, other)), strict=True))
    assert [torch.equal(*pair) for pair in pairs] == [True, True, False, False]


@pytest.mark.parametrize("name", ["full-depth z16", "full-depth z48"])
def test_decodes_side_by_side_do_not_meet(name: str) -> None:
    """Two iterators of one decoder in turn, and a whole decode between: each as if alone."""
    model = vae(name)
    decoder = StreamingDecoder(model)
    one, other = latents(model, 3), latents(model, 3, 2, 5, seed=1)
    turns = [
        (a, b, whole(model, one)) for a, b in zip(decoder.decode(one), decoder.decode(other), strict=True)
    ]
    for position, given in enumerate((one, other)):
        alone = streamed(model, given)
        assert torch.equal(torch.cat([turn[position] for turn in turns], dim=1), alone)


def test_an_abandoned_decode_leaves_nothing_behind() -> None:
    """After a decode that stopped halfway the next is as after none."""
    model = vae("full-depth z48")
    decoder, given = StreamingDecoder(model), latents(model, 4)
    before = torch.cat(list(decoder.decode(given)), dim=1)
    abandoned = decoder.decode(latents(model, 4, seed=1))
    next(abandoned)
    next(abandoned)
    del abandoned
    assert torch.equal(torch.cat(list(decoder.decode(given)), dim=1), before)


def test_an_abandoned_iterator_frees_its_memory() -> None:
    """Caches live exactly as long as the iterator."""
    model = vae("tiny z16")
    decoder, given = StreamingDecoder(model), latents(model, 4, 12, 20)
    before = live_bytes()
    iterator = decoder.decode(given)
    next(iterator)
    assert live_bytes() > before + 10**6
    del iterator
    assert live_bytes() == before


@pytest.mark.parametrize("name", ["tiny z16", "tiny z48"])
def test_memory_does_not_grow_with_length(name: str) -> None:
    """Between two steps only the latents and caches of one size are alive, early and late in a long video."""
    model = vae(name)
    iterator = StreamingDecoder(model).decode(latents(model, 12))
    held = [live_bytes() for position, _ in enumerate(iterator) if position in (2, 11)]
    assert held[0] == held[1]


def test_frames_carry_no_gradient_history() -> None:
    """A decode outside of `no_grad` builds no graph."""
    model = vae("tiny z16")
    assert not any(frames.requires_grad for frames in StreamingDecoder(model).decode(latents(model, 2)))


def test_an_offloaded_vae_is_brought_to_its_device_first() -> None:
    """accelerate's hook, which `decode` would run, runs before the first module is used."""

    class Recorder(ModelHook):  # type: ignore[misc]  # accelerate counts as Any
        calls = 0

        def pre_forward(self, module: torch.nn.Module, *args: Any, **options: Any) -> Any:
            self.calls += 1
            return args, options

    model, hook = vae("tiny z16"), Recorder()
    add_hook_to_module(model, hook)
    try:
        list(StreamingDecoder(model).decode(latents(model, 2)))
    finally:
        remove_hook_from_module(model)
    assert hook.calls == 1


@pytest.mark.parametrize(
    "shape", [(2, 16, 3, 4, 6), (1, 48, 3, 4, 6), (1, 16, 0, 4, 6), (16, 3, 4, 6)], ids=str
)
def test_latents_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    """At the call, not at the first frame, with both shapes in the message."""
    with pytest.raises(ValueError, match=r"latents are .*; allowed: \(1, 16\)"):
        StreamingDecoder(vae("tiny z16")).decode(torch.zeros(shape))


@pytest.mark.parametrize("chunk", [0, -1])
def test_a_chunk_of_nothing_is_refused(chunk: int) -> None:
    """The message names the value and the bound."""
    with pytest.raises(ValueError, match=f"chunk is {chunk}; allowed: 1 and above"):
        StreamingDecoder(vae("tiny z16"), chunk=chunk)
