"""The decoder in fp8 without a GPU: what is rounded and how, with sums by torch, and what is refused."""

from __future__ import annotations

import copy
import math
import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from diffusers import AutoencoderKLWan

from benchmarks import fp8_error
from pipelines.wan_vae import StreamingDecoder, conv, cuda, fp8, ops, packing
from pipelines.wan_vae.ops import Sum

E4M3 = torch.float8_e4m3fn
CUDA = torch.device("cuda", 0)


@pytest.fixture(scope="module")
def vae() -> Any:
    """Few layers, most of them with the channels that our kernel takes in fp8."""
    torch.manual_seed(0)
    return AutoencoderKLWan(base_dim=96, dim_mult=[1, 1, 1, 1], num_res_blocks=1).eval()


@pytest.fixture
def latents() -> torch.Tensor:
    return torch.randn(1, 16, 2, 2, 4, generator=torch.Generator().manual_seed(0))


def unpacked(weights: torch.Tensor, kernel: conv.Kernel) -> torch.Tensor:
    """`packed_fp8` the other way, as `conv.cu` reads it: (out, in, 3, 3, 3) in e4m3."""
    tiles, frames, chunks, taps, groups, columns, _ = weights.shape
    assert (columns, groups * 8) == (kernel.columns, kernel.channels)
    split = weights.view(E4M3).view(tiles, frames, chunks, taps, groups, columns, 8, 2)
    order = split.view(torch.uint8).permute(0, 5, 2, 4, 6, 7, 1, 3).reshape(tiles * columns, -1, frames, 3, 3)
    return order.contiguous().view(E4M3)


def summed(
    x: torch.Tensor,
    earlier: torch.Tensor,
    weights: torch.Tensor,
    kernel: Any,
    channels: int,
    *,
    factors: torch.Tensor,
) -> torch.Tensor:
    """What the kernel computes of e4m3, in float32."""
    assert x.dtype == earlier.dtype == E4M3
    whole = torch.cat([earlier.float(), x.float()]).permute(3, 0, 1, 2).unsqueeze(0)
    y = F.conv3d(whole, unpacked(weights, kernel).float(), padding=(0, 1, 1))[0].permute(1, 2, 3, 0) * factors
    assert y.shape[-1] == channels
    return y.contiguous()


@pytest.mark.parametrize(("into", "out"), [(96, 96), (192, 192), (128, 384)], ids=str)
def test_weights_are_packed_as_torch_rounds_them(into: int, out: int) -> None:
    """Each output channel by its largest weight, which becomes e4m3's largest value."""
    weight = torch.randn(out, into, 3, 3, 3, generator=torch.Generator().manual_seed(0)) * 0.1
    kernel = conv.choose_fp8(out, into)
    assert kernel is not None
    weights, factors = packing.packed_fp8(weight.bfloat16(), kernel)
    low = unpacked(weights, kernel)
    most = weight.bfloat16().float().flatten(1).abs().amax(1)
    assert torch.equal(low.float().flatten(1).abs().amax(1), torch.full((out,), 448.0))
    torch.testing.assert_close(factors, most / 448)
    expected = (weight.bfloat16().float() / factors.view(-1, 1, 1, 1, 1)).to(E4M3)
    assert torch.equal(low.view(torch.uint8), expected.view(torch.uint8))


def test_a_channel_of_zeros_is_packed_as_zeros() -> None:
    """Not as the outcome of a division by nothing."""
    kernel = conv.choose_fp8(96, 96)
    assert kernel is not None
    weights, factors = packing.packed_fp8(torch.zeros(96, 96, 3, 3, 3), kernel)
    assert not weights.any()
    assert bool((torch.isfinite(factors) & (factors > 0)).all())


@pytest.mark.parametrize(
    ("into", "out", "columns"),
    [(96, 96, 96), (192, 192, 96), (384, 384, 128), (256, 256, 128), (1024, 512, 128)],
)
def test_the_channels_of_both_vaes_have_a_kernel(into: int, out: int, columns: int) -> None:
    """z16 has 96 to 384, z48 256 to 1024."""
    kernel = conv.choose_fp8(out, into)
    assert kernel is not None
    assert (kernel.columns, kernel.fp8) == (columns, True)
    assert out % columns == 0
    assert kernel.stages >= 2


@pytest.mark.parametrize(("into", "out"), [(192, 384), (96, 3), (16, 384), (32, 32)])
def test_other_channels_have_none(into: int, out: int) -> None:
    """Among them the one layer of z16 with 192 channels in and 384 out: that stays in bfloat16."""
    assert conv.choose_fp8(out, into) is None


def test_which_convolutions_are_done_in_fp8() -> None:
    """Of the real z16, all but one of the 28 in residual blocks; of one with few channels none."""
    with torch.device("meta"):
        real, tiny = AutoencoderKLWan(), AutoencoderKLWan(base_dim=8)
    low = fp8.low_convs(real.decoder)
    assert len(low) == 27
    assert all(conv.kernel_size == (3, 3, 3) for conv in low)
    assert real.decoder.conv_in not in low
    assert real.decoder.conv_out not in low
    assert fp8.low_convs(tiny.decoder) == {}


@pytest.mark.parametrize("weight", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(vae: Any, weight: float) -> None:
    """Nothing scales what comes of them; it is said when the model is loaded."""
    decoder = copy.deepcopy(vae.decoder)
    decoder.up_blocks[-1].resnets[0].norm2.gamma.data[3] = weight
    with pytest.raises(ValueError, match="a norm of its weights is NaN or infinite"):
        fp8.input_scales(decoder)


@pytest.mark.parametrize("weight", [1.0, 0.3, -7.0])
def test_no_value_behind_a_norm_leaves_the_range(vae: Any, weight: float) -> None:
    """A picture of one channel alone, which a norm makes largest, nearly fills it at most."""
    decoder = copy.deepcopy(vae.decoder)
    block = decoder.up_blocks[-1].resnets[0]
    block.norm2.gamma.data.fill_(weight)
    scale = fp8.input_scales(decoder)[block.conv2]
    most = abs(weight) * 96**0.5
    assert 224 < scale * most <= 448
    assert scale == 2.0 ** round(math.log2(scale))
    alone = torch.zeros(1, 1, 2, 96)
    alone[..., 5] = torch.tensor([1e4, -1e4])
    out = torch.empty(1, 1, 2, 96, dtype=E4M3)
    ops.activate(Sum(alone), block.norm2, out, scale=scale)
    assert out.float().amax() == (scale * F.silu(torch.tensor(most))).to(E4M3).float()
    assert bool(torch.isfinite(out.float()).all())


@pytest.mark.parametrize("tile", [None, (16, 16)], ids=str)
def test_a_decode_is_what_the_benchmark_simulates(
    vae: Any, latents: torch.Tensor, tile: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit by bit: the weights as they are packed, what they were divided by, and the inputs' scales."""
    monkeypatch.setattr(fp8, "missing", lambda *_: None)
    decoder = StreamingDecoder(vae, chunk=1, tile=tile, fp8=True)
    with fp8_error.simulated():
        expected = list(decoder.decode(latents))
    monkeypatch.setattr(conv, "convolve", summed)
    for frames, simulated in zip(decoder.decode(latents), expected, strict=True):
        assert torch.equal(frames, simulated)


def test_a_decode_errs_as_diffusers_with_rounded_inputs_and_weights(vae: Any, latents: torch.Tensor) -> None:
    """As far from the truth; not bit by bit: float32's noise turns some roundings, and each turns others."""
    rounded = with_rounding(vae)
    with torch.no_grad():
        truth, expected = (model.decode(latents).sample[0] for model in (vae, rounded))
    with fp8_error.simulated():
        decoder = StreamingDecoder(vae, chunk=1, fp8=True)
        frames = torch.cat(list(decoder.decode(latents)), dim=1)
    wanted = float((expected - truth).abs().mean())
    assert float((frames - truth).abs().mean()) == pytest.approx(wanted, rel=0.2)


def with_rounding(vae: Any) -> Any:
    """diffusers' decoder with weights rounded to e4m3, and what goes into their convolutions as it comes."""
    rounded = copy.deepcopy(vae)
    for layer, scale in fp8.input_scales(rounded.decoder).items():
        each = layer.weight.flatten(1).abs().amax(1).view(-1, 1, 1, 1, 1) / 448
        layer.weight.data = (layer.weight / each).to(E4M3).float() * each

        def low(_: Any, given: Any, scale: float = scale) -> Any:
            return tuple(x if x is None else (x * scale).to(E4M3).float() / scale for x in given)

        layer.register_forward_pre_hook(low)
    return rounded


@pytest.mark.parametrize(
    ("device", "capability", "dtype", "words"),
    [
        (torch.device("cpu"), (9, 0), torch.bfloat16, "Hopper GPU .*9.0.*the device is cpu"),
        (CUDA, (8, 0), torch.bfloat16, "Hopper GPU .*9.0.*cuda:0 has 8.0"),
        (CUDA, (10, 0), torch.bfloat16, "Hopper GPU .*9.0.*cuda:0 has 10.0"),
        (CUDA, (9, 0), torch.float32, "dtype bfloat16, and it is float32"),
    ],
    ids=str,
)
def test_what_is_missing_is_named(
    device: torch.device, capability: Any, dtype: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device, what it can do, and the type of the weights, with what they must be."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    monkeypatch.setattr(cuda, "compiler", lambda: None)
    assert re.fullmatch(f"it needs .*{words}", fp8.missing(device, dtype) or "")


def test_a_machine_without_the_compiler_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our kernel is compiled where it runs; with the compiler nothing is missing."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))

    def absent() -> None:
        raise RuntimeError("NVIDIA's run-time compiler (libnvrtc) was not found")

    monkeypatch.setattr(cuda, "compiler", absent)
    told = fp8.missing(CUDA, torch.bfloat16)
    assert told is not None
    assert told.endswith("(libnvrtc) was not found")
    monkeypatch.setattr(cuda, "compiler", lambda: None)
    assert fp8.missing(CUDA, torch.bfloat16) is None


def test_a_decoder_that_cannot_says_so(vae: Any, latents: torch.Tensor) -> None:
    """Instead of decoding in another type in silence."""
    with pytest.raises(ValueError, match="allowed with exact: False"):
        StreamingDecoder(vae, exact=True, fp8=True)
    with pytest.raises(ValueError, match="fp8 is True; it needs a Hopper GPU"):
        next(StreamingDecoder(vae, fp8=True).decode(latents))
