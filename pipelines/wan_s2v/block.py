"""Wan's transformer block with two times in one sequence: the clip's, and 0 for what is given."""

from __future__ import annotations

from typing import Any

import torch
from diffusers.models.transformers.transformer_wan import WanTransformerBlock


class TwoTimesBlock(WanTransformerBlock):  # type: ignore[misc]  # diffusers' modules are untyped
    """The tokens before `boundary` are modulated by the first time, those from there on by the second.

    Two vectors, where diffusers' block would take one for each token: at 720p that would be gigabytes.
    """

    def forward(
        self,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        temb: torch.Tensor,
        rotary_emb: tuple[torch.Tensor, torch.Tensor],
        boundary: int,
    ) -> torch.Tensor:
        """`hidden_states` (B, L, D); `temb` (B, 2, 6, D), shift, scale and gate of attention and of the rest.

        The other arguments as in diffusers' block.
        """
        table = self.scale_shift_table.unsqueeze(1) + temb.float()
        shift, scale, gate, ffn_shift, ffn_scale, ffn_gate = table.unbind(2)

        normed = _modulated(self.norm1(hidden_states.float()), scale, shift, boundary)
        attended = self.attn1(normed.type_as(hidden_states), None, None, rotary_emb)
        hidden_states = _gated(hidden_states, attended, gate, boundary)

        normed = self.norm2(hidden_states.float()).type_as(hidden_states)
        hidden_states = hidden_states + self.attn2(normed, encoder_hidden_states, None, None)

        normed = _modulated(self.norm3(hidden_states.float()), ffn_scale, ffn_shift, boundary)
        return _gated(hidden_states, self.ffn(normed.type_as(hidden_states)), ffn_gate, boundary)


def _modulated(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor, boundary: int) -> torch.Tensor:
    parts: Any = zip(
        _parts(x, boundary), torch.split(1 + scale, 1, dim=1), torch.split(shift, 1, dim=1), strict=True
    )
    return torch.cat([part * factor + offset for part, factor, offset in parts], dim=1)


def _gated(x: torch.Tensor, change: torch.Tensor, gate: torch.Tensor, boundary: int) -> torch.Tensor:
    parts: Any = zip(_parts(x, boundary), _parts(change, boundary), torch.split(gate, 1, dim=1), strict=True)
    return torch.cat([(old.float() + new.float() * factor).type_as(x) for old, new, factor in parts], dim=1)


def _parts(x: torch.Tensor, boundary: int) -> tuple[torch.Tensor, torch.Tensor]:
    return x[:, :boundary], x[:, boundary:]
