"""The VAE's own kernels on a CUDA device: what they compute, and how near the whole is to the truth."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from diffusers import AutoencoderKLWan

from pipelines.wan_vae import StreamingDecoder, conv, cuda, encoder, encoder_tiles, ops, packing
from pipelines.wan_vae.conv import Kernel
from pipelines.wan_vae.memory import Plan, free_now, needed_bytes, parked_bytes, plan
from tests.gpu.kernels import distance, hopper, random
from tests.pipelines.tiny_models import TINY

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("exact_arithmetic")]


@hopper
@pytest.mark.parametrize(
    ("into", "out"), [(96, 96), (192, 192), (384, 384), (192, 384), (96, 3), (256, 12)], ids=str
)
@pytest.mark.parametrize("size", [(2, 32, 48), (1, 41, 50), (3, 7, 5)], ids=str)
def test_our_convolution_is_the_librarys(into: int, out: int, size: tuple[int, int, int]) -> None:
    """But for the rounding of the result, at sizes that tiles divide and at others."""
    x, earlier = random(*size, into), random(2, *size[1:], into)
    weight = random(out, into, 3, 3, 3) * into**-0.5
    kernel = conv.choose(out, into, 3, 9)
    assert kernel is not None
    y = conv.convolve(x, earlier, packing.packed(weight, kernel), kernel, out)
    whole = torch.cat([earlier, x]).float().permute(3, 0, 1, 2).unsqueeze(0)
    expected = F.conv3d(whole, weight.float(), padding=(0, 1, 1))[0].permute(1, 2, 3, 0)
    assert distance(y, expected) < 3e-3


@hopper
@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize(("into", "out"), [(192, 96), (384, 192), (512, 512)], ids=str)
def test_doubling_within_the_convolution(into: int, out: int, pairs: bool) -> None:
    """As doubling first; the kernel's weights are rounded sums."""
    x, weight = random(2, 13, 21, into * (2 if pairs else 1)), random(out, into, 3, 3) * into**-0.5
    kernel = conv.choose(out, into, 1, 4)
    assert kernel is not None
    weights = packing.packed(weight, kernel, phases=True)
    y = conv.convolve(x, None, weights, kernel, out, phases=True, pairs=pairs)
    large = ops.doubled(x.cpu().float(), pairs=pairs).cuda().permute(0, 3, 1, 2)
    expected = F.conv2d(large, weight.float(), padding=1).permute(0, 2, 3, 1)
    assert distance(y, expected) < 5e-3


@pytest.mark.parametrize("channels", [3, 96, 256, 1024])
@pytest.mark.parametrize("keep", [False, True])
def test_a_pass_is_what_torch_computes(channels: int, keep: bool) -> None:
    """Sum, norm and SiLU, each value rounded once."""
    y, residual = random(2, 9, 11, channels), random(2, 9, 11, channels)
    bias, gamma, out = random(channels), random(channels), torch.empty_like(y)
    total = y.float() + bias.float() + residual.float()
    expected = F.silu(F.normalize(total, dim=-1) * channels**0.5 * gamma.float())
    before = y.clone()
    from pipelines.wan_vae import kernels  # triton comes with CUDA builds of torch alone

    kernels.pointwise(y, bias, residual, gamma, out, keep=keep)
    assert distance(out, expected) < 3e-3
    assert torch.equal(y, total.bfloat16() if keep else before)


@pytest.mark.parametrize("pairs", [False, True])
def test_doubled_pixels_are_copies(pairs: bool) -> None:
    """Every bit."""
    x = random(3, 7, 5, 192)
    assert torch.equal(ops.doubled(x, pairs=pairs).cpu(), ops.doubled(x.cpu(), pairs=pairs))


def test_bfloat16_is_as_near_to_the_truth_as_diffusers() -> None:
    """Decoding and encoding with the real channels: the mean error is not above diffusers'."""
    torch.manual_seed(0)
    model = AutoencoderKLWan().cuda().eval()
    latents, video = (
        torch.randn(1, 16, 4, 30, 52, device="cuda"),
        torch.rand(1, 3, 9, 240, 416, device="cuda"),
    )
    with torch.inference_mode():
        truth = model.decode(latents).sample[0], model.encode(video).latent_dist.mode()
        model = model.bfloat16()
        given = latents.bfloat16(), video.bfloat16()
        theirs = model.decode(given[0]).sample[0], model.encode(given[1]).latent_dist.mode()
        exact = torch.cat(list(StreamingDecoder(model, exact=True).decode(given[0])), dim=1)
        ours = (
            torch.cat(list(StreamingDecoder(model, chunk=2).decode(given[0])), dim=1),
            encoder.encode(model, given[1]),
        )
    assert torch.equal(exact, theirs[0])
    for mine, other, true in zip(ours, theirs, truth, strict=True):
        assert (mine.float() - true).abs().mean() <= (other.float() - true).abs().mean()


def test_the_estimate_of_memory_holds() -> None:
    """A decode stays below it, and the estimate is not far above."""
    model = AutoencoderKLWan().cuda().bfloat16().eval()
    latents = torch.randn(1, 16, 9, 60, 104, device="cuda").bfloat16()
    sizes = plan(model, latents, None)
    decoder = StreamingDecoder(model)
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    for _ in decoder.decode(latents):
        pass
    taken = torch.cuda.max_memory_allocated() - before
    assert taken <= needed_bytes(model, latents, sizes) <= 6000 * 2**20
    assert taken > 0.5 * needed_bytes(model, latents, sizes)


def test_tiles_need_less_memory_for_the_same_frames() -> None:
    """The estimate holds; values differ by bfloat16's rounding at most."""
    torch.manual_seed(0)
    model = AutoencoderKLWan().cuda().bfloat16().eval()
    latents = torch.randn(1, 16, 4, 60, 104, device="cuda").bfloat16()
    peaks, made = [], []
    for tile in (None, (256, 256)):
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        decoder = StreamingDecoder(model, chunk=1, tile=tile)
        made.append(torch.cat([frames.cpu() for frames in decoder.decode(latents)], dim=1).float())
        peaks.append(torch.cuda.max_memory_allocated() - before)
    assert peaks[1] <= needed_bytes(model, latents, Plan(1, 4, (256, 256)))
    assert peaks[1] < 0.5 * peaks[0]
    assert (made[0] - made[1]).abs().mean() < 1e-3


def test_encoding_in_tiles_needs_less_memory_for_the_same_latents() -> None:
    """Of whole pictures and of tiles the estimates hold."""
    torch.manual_seed(0)
    model = AutoencoderKLWan().cuda().bfloat16().eval()
    video = torch.rand(1, 3, 9, 480, 832, device="cuda").bfloat16()
    peaks, made = [], []
    for tile in (None, (256, 256)):
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        made.append(encoder.encode(model, video, tile).float())
        peaks.append(torch.cuda.max_memory_allocated() - before)
        frames = video[0].permute(1, 2, 3, 0)
        assert peaks[-1] <= encoder_tiles.encode_bytes(model, frames, tile)[0]
    assert peaks[1] < 0.7 * peaks[0]
    assert (made[0] - made[1]).abs().mean() <= 1e-2 * made[0].abs().mean()


def test_too_little_memory_means_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule, by what the device says is free: a decode in what whole frames would not fit into."""
    model = AutoencoderKLWan().cuda().bfloat16().eval()
    latents = torch.randn(1, 16, 4, 60, 104, device="cuda").bfloat16()
    room = needed_bytes(model, latents, Plan(1, 1)) - 1
    unused = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (room - unused, 2 * room))
    sizes, host = plan(model, latents, None), free_now(latents.device).host
    assert sizes.tile is not None
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    for _ in StreamingDecoder(model).decode(latents):
        pass
    assert torch.cuda.max_memory_allocated() - before <= room
    assert host - free_now(latents.device).host < 0.5 * parked_bytes(model, latents, sizes)  # free again


@hopper
def test_compiled_kernels_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second start reads what the first compiled."""
    monkeypatch.setattr(cuda, "_kept_in", [tmp_path])
    source = Kernel(8, 48, 3, 9, 3).source()
    code = cuda.cubin(source)
    monkeypatch.setattr(cuda, "compiled", None)
    assert cuda.cubin(source) == code
    assert len(list(tmp_path.iterdir())) == 1


def test_the_tiny_checkpoint_decodes() -> None:
    """Channels that our convolution does not take go by the library."""
    model = AutoencoderKLWan.from_pretrained(TINY / "t2v" / "vae")
    latents = torch.randn(1, 16, 3, 5, 7)
    with torch.inference_mode():
        expected = model.decode(latents).sample[0]
        got = torch.cat(list(StreamingDecoder(model.cuda()).decode(latents.cuda())), dim=1).cpu()
    assert (got - expected).abs().max() < 1e-3


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_a_second_device_makes_the_same_bits() -> None:
    """Kernels run where their pictures are, whichever device is the current one."""
    torch.manual_seed(0)
    model = AutoencoderKLWan().bfloat16().eval()
    latents, video = torch.randn(1, 16, 3, 30, 52).bfloat16(), torch.rand(1, 3, 5, 240, 416).bfloat16()
    made = []
    for device in ("cuda:1", "cuda:0"):
        model = model.to(device)
        frames = torch.cat(list(StreamingDecoder(model, chunk=2).decode(latents.to(device))), dim=1)
        made.append((frames.cpu(), encoder.encode(model, video.to(device)).cpu()))
    assert torch.cuda.current_device() == 0
    assert torch.equal(made[0][0], made[1][0])
    assert torch.equal(made[0][1], made[1][1])
