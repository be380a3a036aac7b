"""How much of a video is decoded at once: by the memory that it takes and the memory that is free."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, replace
from typing import Literal

import torch
from diffusers import AutoencoderKLWan
from diffusers.models.autoencoders.autoencoder_kl_wan import (
    WanCausalConv3d,
    WanResidualBlock,
    WanResidualUpBlock,
)

from pipelines.host_memory import available_bytes
from pipelines.wan_vae.convs import packed_bytes
from pipelines.wan_vae.fast import CACHE_FRAMES, resample_of
from pipelines.wan_vae.fp8 import low_convs
from pipelines.wan_vae.tiles import Size, Span, cut_of, grid

DEFAULT_BYTES = 6000 * 2**20
"""What a decode may take over the weights, if as much is free."""
_CHUNKS = (4, 2, 1)
"""Latent frames a step, the fastest first."""
_STRETCHES = (4, 2, 1)
"""Frames at the last resolution at once; four is what one latent frame makes."""
TILES: tuple[Size, ...] = ((512, 512), (256, 256))
"""The larger, the less is computed twice."""
MARGIN = 1.15
"""For the libraries' workspaces and what the allocator cannot use."""

Tiling = Size | Literal["auto"] | None
"""Tiles of a size, those that memory asks for, or none."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`chunk` latent frames a step, `stretch` frames at once at the last resolution, in tiles or whole.

    `fp8`: with convolutions in e4m3, whose inputs take half the memory.
    """

    chunk: int
    stretch: int
    tile: Size | None = None
    fp8: bool = False


@dataclass(frozen=True, slots=True)
class Free:
    """Bytes that a decode may take: on its device, and on the host for the caches of waiting tiles."""

    device: int
    host: int

    def holds(self, vae: AutoencoderKLWan, latents: torch.Tensor, sizes: Plan) -> bool:
        """Whether a decode fits."""
        return (
            needed_bytes(vae, latents, sizes) <= self.device
            and parked_bytes(vae, latents, sizes) <= self.host
        )


def plan(
    vae: AutoencoderKLWan,
    latents: torch.Tensor,
    chunk: int | None,
    tile: Tiling = "auto",
    free: Free | None = None,
    *,
    fp8: bool = False,
) -> Plan:
    """The sizes for `latents` (1, z_dim, T, H, W), with what is `free` (None: as the device says).

    The rule: with `chunk` given, that; else the largest of 4, 2 and 1 latent frames that takes at most
    `DEFAULT_BYTES` and at most what is free. If even one takes more than is free, the last resolution, which
    takes the most, goes two frames or one at a time. If that takes more still, the picture goes in tiles, the
    largest step and then the largest tile that fit. With `tile` given, always; with None, never. Where
    nothing fits the device, the smallest that fits the host. On the host one latent frame makes a step, in
    tiles if they are given.
    """
    if free is None:
        if not latents.is_cuda:
            size = None if tile == "auto" else tile
            return Plan(chunk or 1, _STRETCHES[0] * (chunk or 1), size, fp8)
        free = free_now(latents.device)
    candidates = [replace(sizes, fp8=fp8) for sizes in _candidates(chunk, tile)]
    easy = Free(min(DEFAULT_BYTES, free.device), free.host)
    for sizes in candidates:
        allowed = easy if chunk is None and sizes.chunk > 1 and sizes.tile is None else free
        if allowed.holds(vae, latents, sizes):
            return sizes
    # A full device makes the job fail; a full host may make the kernel end the process.
    fit_the_host = [sizes for sizes in candidates if parked_bytes(vae, latents, sizes) <= free.host]
    return (fit_the_host or candidates)[-1]


def _candidates(chunk: int | None, tile: Tiling) -> Iterator[Plan]:
    """In the order in which they are tried."""
    chunks = _CHUNKS if chunk is None else (chunk,)
    if tile is None or tile == "auto":
        yield from (Plan(wanted, _STRETCHES[0]) for wanted in chunks)
        yield from (Plan(chunks[-1], stretch) for stretch in _STRETCHES[1:])
    if tile is not None:
        tiles = TILES if tile == "auto" else (tile,)
        yield from (Plan(wanted, _STRETCHES[0], size) for wanted in chunks for size in tiles)


def needed_bytes(vae: AutoencoderKLWan, latents: torch.Tensor, sizes: Plan) -> int:
    """An upper estimate of what a decode of `latents` takes over the weights.

    Two frames for each causal convolution throughout (behind the cut those of one tile), and at the worst
    moment of the walk the frames that a residual block or an upsampling has at hand: its input, a window
    over the earlier frames and a result; with what entered the block, where its shortcut needs that. In tiles
    also the whole picture at the cut, and the step's frames. The weights once more, of layers that our kernel
    has, in its order.
    """
    decoder, frames, size = vae.decoder, sizes.chunk, latents.element_size()
    low = _low(vae, sizes)
    areas, last = _areas(vae, latents, sizes), len(decoder.up_blocks) - 1
    worst = held = 0
    for position, (block, area) in enumerate(zip(decoder.up_blocks, areas, strict=True)):
        if position == last:
            frames = min(frames, sizes.stretch)
        wide = max(conv.out_channels for conv in causal(block))
        entered = size * frames * _entered_channels(block)
        worst = max(worst, held + area.residuals * (entered + wide * _at_hand(block, frames, low, size)))
        if position == last:
            break
        resample = resample_of(block)
        if sizes.tile is not None and position == cut_of(vae):
            held += size * area.residuals * frames * (resample.dim + block.resnets[0].in_dim)
            whole = latents.shape[3] * latents.shape[4] * 4**last
            held += size * 4 * sizes.chunk * whole * decoder.conv_out.out_channels
        frames *= 2 if resample.mode == "upsample3d" else 1
        if position == last - 1:
            held += area.upsampling * (entered + size * resample.dim * frames)
            entered = 0
            frames = min(frames, sizes.stretch)
        conv = resample.resample[1]
        grown = 4 * area.upsampling * frames * (resample.dim + 2 * conv.out_channels)
        worst = max(worst, held + area.upsampling * entered + size * grown)
    cached = sum(item.size for item in _cached(vae, areas, sizes, size))
    return int((cached + worst) * MARGIN) + packed_bytes(decoder, low)


def _low(vae: AutoencoderKLWan, sizes: Plan) -> Set[torch.nn.Module]:
    """The convolutions whose inputs are e4m3, a byte a value."""
    return low_convs(vae.decoder).keys() if sizes.fp8 else frozenset()


def _entered_channels(block: torch.nn.Module) -> int:
    """Of what enters an up block and is repeated into its result; 0: nothing is."""
    if isinstance(block, WanResidualUpBlock) and block.avg_shortcut is not None:
        channels: int = block.avg_shortcut.in_channels
        return channels
    return 0


def _at_hand(block: torch.nn.Module, frames: int, low: Set[torch.nn.Module], size: int) -> int:
    """Bytes for each pixel and channel that a residual block has at hand, in values of `size` bytes.

    Input, result and shortcut, and the window between them. In e4m3 that has no copy of the earlier frames;
    the window of the last convolution of all, which has no shortcut, may have one.
    """
    blocks = [module for module in block.modules() if isinstance(module, WanResidualBlock)]
    if any(conv not in low for module in blocks for conv in (module.conv1, module.conv2)):
        return size * (4 * frames + 2)
    return max((3 * size + 1) * frames, size * (3 * frames + 2))


def parked_bytes(vae: AutoencoderKLWan, latents: torch.Tensor, sizes: Plan) -> int:
    """An upper estimate of the host memory that waiting tiles take: torch gives it out in powers of two."""
    if sizes.tile is None:
        return 0
    rows, columns = grid(vae, latents.shape[3], latents.shape[4], sizes.tile)
    cached = _cached(vae, _areas(vae, latents, sizes), sizes, latents.element_size())
    parked = (1 << (item.size - 1).bit_length() for item in cached if item.parks)
    return len(rows) * len(columns) * sum(parked)


@dataclass(frozen=True, slots=True)
class _Area:
    """Pixels that an up block sees at once, at its own resolution."""

    residuals: int
    upsampling: int


@dataclass(frozen=True, slots=True)
class _Cached:
    """Bytes that one causal convolution keeps; `parks`: of a tile, on the host while others are at work."""

    size: int
    parks: bool


def _areas(vae: AutoencoderKLWan, latents: torch.Tensor, sizes: Plan) -> list[_Area]:
    whole = latents.shape[3] * latents.shape[4]
    blocks, cut = len(vae.decoder.up_blocks), cut_of(vae)
    if sizes.tile is None:
        return [_Area(whole * 4**position, whole * 4**position) for position in range(blocks)]
    tile = largest(*grid(vae, latents.shape[3], latents.shape[4], sizes.tile))
    areas = [_Area(whole * 4**position, whole * 4**position) for position in range(cut)]
    areas.append(_Area(whole * 4**cut, tile))
    areas += [_Area(tile * 4**position, tile * 4**position) for position in range(1, blocks - cut)]
    return areas


def largest(rows: list[Span], columns: list[Span]) -> int:
    """Pixels of the largest tile with its halo, of what goes in."""
    return math.prod(max(span.taken.stop - span.taken.start for span in side) for side in (rows, columns))


def _cached(vae: AutoencoderKLWan, areas: list[_Area], sizes: Plan, size: int) -> Iterator[_Cached]:
    """`size`: bytes of a value that is not e4m3."""
    decoder, low = vae.decoder, _low(vae, sizes)
    cut = cut_of(vae) if sizes.tile is not None else len(areas)

    def kept(modules: Iterable[torch.nn.Module], pixels: int, *, parks: bool) -> Iterator[_Cached]:
        for conv in (conv for module in modules for conv in causal(module)):
            if conv.kernel_size[0] > 1:
                values = CACHE_FRAMES * pixels * conv.in_channels
                yield _Cached(values if conv in low else values * size, parks)

    yield from kept([decoder.conv_in, decoder.mid_block], areas[0].residuals, parks=False)
    for position, (block, area) in enumerate(zip(decoder.up_blocks, areas, strict=True)):
        yield from kept([block.resnets], area.residuals, parks=position > cut)
        if position < len(areas) - 1:
            yield from kept([resample_of(block)], area.upsampling, parks=position >= cut)
    yield from kept([decoder.conv_out], areas[-1].residuals, parks=sizes.tile is not None)


def causal(module: torch.nn.Module) -> Iterator[WanCausalConv3d]:
    """The causal convolutions of a module, in its order."""
    return (conv for conv in module.modules() if isinstance(conv, WanCausalConv3d))


def free_now(device: torch.device) -> Free:
    """Memory that the device and the host, or torch's own allocators of both, have to give.

    The host's: what the limits of a container leave, too, since what is page-locked cannot be taken back.
    """
    free, _ = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    pinned = torch.cuda.host_memory_stats()
    idle = pinned.get("allocated_bytes.current", 0) - pinned.get("active_bytes.current", 0)
    return Free(free + unused, available_bytes() + idle)
