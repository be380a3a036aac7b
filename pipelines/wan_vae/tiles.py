"""Pictures in tiles, where even one latent frame needs more memory than there is; the result stays the same.

After the mid block, whose attention sees all of a frame at an eighth of its sides, every layer looks at most
one pixel around each pixel. A tile is cut out there with as many pixels around it (its halo) as the layers
behind it reach, and what comes of the halo is dropped: nothing is blended. The frames that causal
convolutions keep are those of their tile, and wait on the host while another tile is at work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch

from pipelines.wan_vae.convs import Convs
from pipelines.wan_vae.fast import Caches, Step

Size = tuple[int, int]
"""Width and height of a tile without its halo, in pixels of the picture."""


@dataclass(frozen=True, slots=True)
class Span:
    """One tile's place along one side."""

    taken: slice
    """Of what goes in, with the halo."""
    kept: slice
    """Of what comes out of that, without what the halo made."""
    place: slice
    """Of the whole result."""


def spans(length: int, size: int, halo: int, into: int = 1, out: int = 1) -> list[Span]:
    """`length` units cut into equal pieces of at most `size`, with up to `halo` more on either side.

    A unit is `into` pixels of what goes in and `out` pixels of what comes out.
    """
    count = -(-length // max(1, size))
    size = -(-length // count)
    made = []
    for first in range(0, length, size):
        last = min(first + size, length)
        start, stop = max(0, first - halo), min(length, last + halo)
        kept = slice((first - start) * out, (last - start) * out)
        made.append(Span(slice(start * into, stop * into), kept, slice(first * out, last * out)))
    return made


class Tiles:
    """The tiles of a picture, each with caches of its own: on the device while it is at work, else parked."""

    def __init__(self, rows: list[Span], columns: list[Span], convs: Convs, device: torch.device) -> None:
        self.sides = rows[-1].place.stop, columns[-1].place.stop
        """Height and width of what comes out."""
        self._device = device
        self._tiles = [(row, column, Caches(convs)) for row, column in product(rows, columns)]

    def __len__(self) -> int:
        return len(self._tiles)

    def __iter__(self) -> Iterator[tuple[Span, Span, Caches]]:
        """Rows, columns and caches of each; its caches are on the device until the next is asked for."""
        for row, column, caches in self._tiles:
            caches.fetch(self._device)
            yield row, column, caches
            caches.park()


class TiledSteps:
    """One video's walk through the decoder: the whole picture to the cut, then tile after tile."""

    def __init__(self, vae: Any, caches: Caches, latents: torch.Tensor, size: Size) -> None:
        """`latents`: (T, h, w, z), for their sizes. `size`: of a tile."""
        self._decoder = vae.decoder
        self._caches = caches
        self._cut = cut_of(vae)
        rows, columns = grid(vae, latents.shape[1], latents.shape[2], size)
        self._tiles = Tiles(rows, columns, caches.convs, latents.device)

    def run(
        self, latents: torch.Tensor, *, first: bool, stretch: int, tile_done: Callable[[float], None]
    ) -> torch.Tensor:
        """One step: latents (t, h, w, z) to frames (t', H, W, channels).

        `tile_done` is called with the share of the tiles that are done, and may raise.
        """
        whole = Step(self._decoder, self._caches, first=first, stretch=stretch)
        middle = whole.head(latents, self._cut)
        frames: torch.Tensor | None = None
        for number, (row, column, caches) in enumerate(self._tiles):
            tile_done(number / len(self._tiles))
            step = Step(self._decoder, caches, first=first, stretch=stretch)
            done = 0
            for piece in step.tail(middle.part(row.taken, column.taken), self._cut):
                if frames is None:
                    count = whole.frames_of(middle, self._cut)
                    frames = piece.new_empty(count, *self._tiles.sides, piece.shape[-1])
                here = frames[done : done + piece.shape[0], row.place, column.place]
                here.copy_(piece[:, row.kept, column.kept])
                done += piece.shape[0]
        assert frames is not None
        return frames


def cut_of(vae: Any) -> int:
    """The up block after whose residual blocks tiles are cut: two resolutions, which take four fifths of
    the memory, are behind it. Cutting earlier saves little and needs a halo twice as wide.
    """
    return max(0, len(vae.decoder.up_blocks) - 3)


def grid(vae: Any, height: int, width: int, size: Size) -> tuple[list[Span], list[Span]]:
    """Rows and columns of tiles for latents of `height` × `width`."""
    cut, blocks = cut_of(vae), len(vae.decoder.up_blocks)
    unit = vae.config.scale_factor_spatial // 2**cut  # pixels under a pixel at the cut
    halo = halo_of(vae)
    rows, columns = (
        spans(side * 2**cut, wanted // unit, halo, out=2 ** (blocks - 1 - cut))
        for side, wanted in ((height, size[1]), (width, size[0]))
    )
    return rows, columns


def halo_of(vae: Any) -> int:
    """Pixels around a tile at the cut that its result depends on: one for each 3 × 3 convolution."""
    blocks = vae.decoder.up_blocks
    reach = 1  # conv_out
    for position in range(len(blocks) - 1, cut_of(vae), -1):
        reach += 2 * len(blocks[position].resnets)
        reach = -(-(reach + 1) // 2)  # the doubling and its convolution
    return reach
