"""What the decoder loses by `decode.precision: fp8` (convolutions in e4m3), beside bfloat16.

    python -m benchmarks.fp8_error [--vae z16] [--size 192x128] [--frames 9] [--seeds 2] [--device cpu]

The error is that of the frames against a float32 decode of the same random weights; a trained VAE may lose
more or less. On a Hopper GPU our kernels decode. Elsewhere they are simulated: the same layers get the same
inputs and weights of e4m3, their sums are torch's in float32 (a Hopper GPU adds with fewer bits).
"""

from __future__ import annotations

import argparse
import copy
import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from diffusers.models.autoencoders.autoencoder_kl_wan import WanCausalConv3d

from benchmarks.decode import make_vae
from pipelines.wan_vae import StreamingDecoder, decoder, fp8
from pipelines.wan_vae.convs import Convs
from pipelines.wan_vae.ops import Sum

_LARGEST = 448.0
"""Of e4m3."""


class Simulated(Convs):
    """Convolutions in e4m3 by torch."""

    def fp8(self, conv: WanCausalConv3d, x: torch.Tensor, earlier: torch.Tensor) -> Sum:
        """See `Convs.fp8`."""
        each = conv.weight.float().flatten(1).abs().amax(1).clamp(min=1e-12) / _LARGEST
        weight = (conv.weight.float() / each.view(-1, 1, 1, 1, 1)).to(torch.float8_e4m3fn).float()
        whole = torch.cat([earlier.float(), x.float()]).permute(3, 0, 1, 2).unsqueeze(0)
        y = F.conv3d(whole, weight, padding=(0, 1, 1))[0].permute(1, 2, 3, 0)
        y = y * (each / (self.scale_of(conv) or 1.0))
        return Sum(y.to(conv.weight.dtype).contiguous(), conv.bias)


@contextmanager
def simulated() -> Iterator[None]:
    """Decoders in fp8 run on any device meanwhile."""
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(decoder, "Convs", Simulated))
        stack.enter_context(mock.patch.object(fp8, "missing", return_value=None))
        yield


def main() -> None:
    """Print the table."""
    options = _options()
    torch.set_grad_enabled(False)
    torch.backends.cudnn.allow_tf32 = False  # float32 is the truth here
    real = fp8.missing(torch.device(options.device), torch.bfloat16) is None
    print(f"{options.vae}, {options.size}, {options.frames} frames: {'our kernels' if real else 'simulated'}")
    sums: dict[str, list[float]] = {}
    for seed in range(options.seeds):
        vae, latents = _case(options, seed)
        truth = vae.decode(latents).sample[0]
        with ExitStack() as stack:
            if not real:
                stack.enter_context(simulated())
            made = _made(copy.deepcopy(vae).bfloat16(), latents.bfloat16())
        for name, frames in made.items():
            error = (frames.float() - truth).abs()
            row = [float(error.mean()), float(error.square().mean()), float(truth.abs().mean())]
            sums[name] = [a + b for a, b in zip(sums.get(name, [0.0] * 3), row, strict=True)]
    for name, row in sums.items():
        mean, square, size = (value / options.seeds for value in row)
        psnr = 10 * math.log10(4 / square)
        print(f"{name:35} mean error {mean:.5f}, PSNR {psnr:.1f} dB, frames' mean size {size:.3f}")


def _made(vae: Any, latents: torch.Tensor) -> dict[str, torch.Tensor]:
    """The frames of each way to decode."""

    def ours(**options: Any) -> torch.Tensor:
        return torch.cat(list(StreamingDecoder(vae, **options).decode(latents)), dim=1)

    made = {
        "diffusers, bfloat16": vae.decode(latents).sample[0],
        "ours, bfloat16": ours(),
        "ours, fp8": ours(fp8=True),
    }
    with mock.patch.object(fp8, "input_scales", return_value=_few(fp8.input_scales(vae.decoder))):
        return made | {"ours, fp8, at most 192 channels": ours(fp8=True)}


def _few(scales: Mapping[WanCausalConv3d, float]) -> Mapping[WanCausalConv3d, float]:
    """Those of the last resolutions alone."""
    return {conv: scale for conv, scale in scales.items() if conv.in_channels <= 192}


def _case(options: argparse.Namespace, seed: int) -> tuple[Any, torch.Tensor]:
    vae = make_vae(options.vae).to(options.device)
    width, height = map(int, options.size.split("x"))
    scale = vae.config.scale_factor_spatial
    shape = (1, vae.config.z_dim, (options.frames - 1) // 4 + 1, height // scale, width // scale)
    latents = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return vae.eval(), latents.to(options.device)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vae", choices=["tiny", "mid", "z16", "z48"], default="z16")
    parser.add_argument("--size", default="192x128")
    parser.add_argument("--frames", type=int, default=9)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args()


if __name__ == "__main__":
    main()
