"""Where the tokens of a clip stand for the rotary embedding: noise, reference picture, packed motion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from diffusers.models.transformers.transformer_wan import WanRotaryPosEmbed

REFERENCE_FRAME = 30
"""The place in time of the reference picture, beyond every frame of a clip."""


@dataclass(frozen=True, slots=True)
class Span:
    """A block of tokens, in the order frame, row, column. Frames before the clip are negative."""

    frames: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]


def clip_span(frames: int, rows: int, columns: int) -> Span:
    """The tokens that are denoised."""
    return Span(tuple(range(frames)), tuple(range(rows)), tuple(range(columns)))


def reference_span(rows: int, columns: int) -> Span:
    """The tokens of the reference picture."""
    return Span((REFERENCE_FRAME,), tuple(range(rows)), tuple(range(columns)))


def packed_span(first: int, frames: int, stride: int, rows: int, columns: int) -> Span:
    """Motion tokens that each stand for `stride` frames and as many rows and columns of `rows` × `columns`.

    `frames` latent frames from `first` (negative) on. The tokens' places are spread from the first to the
    last of what they stand for, rounded down.
    """
    return Span(
        tuple(-place for place in _spread(-first, -first - frames + 1, frames // stride)),
        tuple(_spread(0, rows - 1, rows // stride)),
        tuple(_spread(0, columns - 1, columns // stride)),
    )


def _spread(first: int, last: int, count: int) -> list[int]:
    """`count` whole numbers from `first` to `last`, evenly, each rounded down; `first` alone if it is one."""
    if count == 1:
        return [first]
    return [(first * (count - 1 - k) + last * k) // (count - 1) for k in range(count)]


class SpanRotaryEmbed(WanRotaryPosEmbed):  # type: ignore[misc]  # diffusers' modules are untyped
    """Wan's rotary embedding for tokens that do not form one grid."""

    def forward(self, spans: Sequence[Span]) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosine and sine, each (1, tokens, 1, head size), float32, as `WanAttention` takes them."""
        parts = [self._span(span) for span in spans]
        cosine, sine = zip(*parts, strict=True)
        return torch.cat(cosine, dim=1), torch.cat(sine, dim=1)

    def _span(self, span: Span) -> tuple[torch.Tensor, torch.Tensor]:
        device = self.freqs_cos.device
        frames = torch.tensor(span.frames, device=device)
        places = (
            frames.abs(),
            torch.tensor(span.rows, device=device),
            torch.tensor(span.columns, device=device),
        )
        sign = torch.where(frames < 0, -1.0, 1.0).view(-1, 1)  # a turn backwards
        cosine = self._grid(self.freqs_cos, places, torch.ones_like(sign))
        return cosine, self._grid(self.freqs_sin, places, sign)

    def _grid(
        self, table: torch.Tensor, places: tuple[torch.Tensor, torch.Tensor, torch.Tensor], sign: torch.Tensor
    ) -> torch.Tensor:
        sizes = [len(place) for place in places]
        axes = torch.split(table, [self.t_dim, self.h_dim, self.w_dim], dim=1)
        picked = [axis[place] for axis, place in zip(axes, places, strict=True)]
        picked[0] = picked[0] * sign
        shapes = ((sizes[0], 1, 1, -1), (1, sizes[1], 1, -1), (1, 1, sizes[2], -1))
        spread = [axis.view(shape).expand(*sizes, -1) for axis, shape in zip(picked, shapes, strict=True)]
        return torch.cat(spread, dim=-1).reshape(1, -1, 1, self.attention_head_dim)
