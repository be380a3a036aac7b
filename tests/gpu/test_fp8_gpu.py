"""The decoder's kernels in fp8 on a Hopper GPU: what they compute, and what a decode loses and takes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from diffusers import AutoencoderKLWan

from pipelines.wan_vae import StreamingDecoder, conv, packing
from pipelines.wan_vae.memory import Plan, needed_bytes
from tests.gpu.kernels import distance, hopper, random

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("exact_arithmetic"), hopper]
E4M3 = torch.float8_e4m3fn


@pytest.mark.parametrize(
    ("into", "out"), [(96, 96), (192, 192), (384, 384), (256, 256), (1024, 512)], ids=str
)
@pytest.mark.parametrize("size", [(2, 32, 48), (1, 41, 50), (3, 7, 5)], ids=str)
def test_our_convolution_in_fp8_is_the_librarys_of_the_same_values(
    into: int, out: int, size: tuple[int, int, int]
) -> None:
    """Of inputs and weights that were rounded to e4m3, but for the sums' own rounding on the tensor cores."""
    x, earlier = ((4 * random(*shape, into)).to(E4M3) for shape in (size, (2, *size[1:])))
    weight = random(out, into, 3, 3, 3) * into**-0.5
    kernel = conv.choose_fp8(out, into)
    assert kernel is not None
    packed, factors = packing.packed_fp8(weight, kernel)
    y = conv.convolve(x, earlier, packed, kernel, out, factors=factors / 4)
    each = factors.view(-1, 1, 1, 1, 1)
    rounded = (weight.float() / each).to(E4M3).float() * each
    whole = torch.cat([earlier.float(), x.float()]).permute(3, 0, 1, 2).unsqueeze(0) / 4
    expected = F.conv3d(whole, rounded, padding=(0, 1, 1))[0].permute(1, 2, 3, 0)
    assert distance(y, expected) < 5e-3


def test_a_pass_rounds_to_fp8() -> None:
    """The same values as torch's conversion, but where the two lie on either side of a middle."""
    y, gamma = random(2, 9, 11, 96), random(96)
    out = torch.empty(2, 9, 11, 96, dtype=E4M3, device="cuda")
    from pipelines.wan_vae import kernels  # triton comes with CUDA builds of torch alone

    kernels.pointwise(y, None, None, gamma, out, keep=False, scale=8.0)
    expected = (8 * F.silu(F.normalize(y.float(), dim=-1) * 96**0.5 * gamma.float())).to(E4M3)
    assert (out.view(torch.uint8) == expected.view(torch.uint8)).float().mean() > 0.999


@pytest.fixture
def vae() -> Any:
    """The real z16, with random weights, in float32."""
    torch.manual_seed(0)
    return AutoencoderKLWan().cuda().eval()


@pytest.mark.parametrize("tile", [None, (128, 128)], ids=str)
def test_a_decode_in_fp8_is_as_near_as_was_simulated(vae: Any, tile: tuple[int, int] | None) -> None:
    """`benchmarks.fp8_error` found 8.5 times the error of bfloat16, a tenth of the frames' size."""
    latents = torch.randn(1, 16, 4, 30, 52, device="cuda")
    with torch.inference_mode():
        truth = vae.decode(latents).sample[0]
    model = vae.bfloat16()
    errors = []
    for fp8 in (False, True):
        decoder = StreamingDecoder(model, chunk=2, tile=tile, fp8=fp8)
        frames = torch.cat(list(decoder.decode(latents.bfloat16())), dim=1)
        errors.append(float((frames.float() - truth).abs().mean()))
    assert 2 * errors[0] < errors[1] < truth.abs().mean() / 6


@pytest.mark.parametrize(("chunk", "tile"), [(4, None), (2, None), (1, None), (1, (256, 256))], ids=str)
def test_the_estimate_of_memory_holds_in_fp8(vae: Any, chunk: int, tile: tuple[int, int] | None) -> None:
    """A decode stays below it, and the estimate is not far above."""
    model = vae.bfloat16()
    latents = torch.randn(1, 16, 9, 60, 104, device="cuda").bfloat16()
    needed = needed_bytes(model, latents, Plan(chunk, 4, tile, fp8=True))
    decoder = StreamingDecoder(model, chunk=chunk, tile=tile, fp8=True)
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    for _ in decoder.decode(latents):
        pass
    assert 0.5 * needed < torch.cuda.max_memory_allocated() - before <= needed
