"""Passes of a small net as CUDA graphs: on a GPU, most of its time is what launching its kernels takes."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

_Shapes = tuple[tuple[torch.Size, torch.dtype, bool], ...]


class Replayed:
    """Calls `net(*inputs)`, forward and backward, from graphs: one for each combination of shapes and dtypes.

    All inputs are tensors on one CUDA device, the output is one tensor; it is overwritten by the next call.
    Autocast may be on, with `cache_enabled=False`. `net` must not wait for the device.
    """

    def __init__(self, net: nn.Module) -> None:
        self._net = net
        self._graphs: dict[_Shapes, Any] = {}

    def __call__(self, *inputs: torch.Tensor) -> torch.Tensor:
        shapes = tuple((value.shape, value.dtype, value.requires_grad) for value in inputs)
        if shapes not in self._graphs:
            self._graphs[shapes] = self._capture(inputs)
        output: torch.Tensor = self._graphs[shapes](*inputs)
        return output

    def _capture(self, inputs: tuple[torch.Tensor, ...]) -> Any:
        places = tuple(value.detach().clone().requires_grad_(value.requires_grad) for value in inputs)
        # A module of its own each time: torch changes what it is given.
        return torch.cuda.make_graphed_callables(_Once(self._net), places, allow_unused_input=True)


class _Once(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.net(*inputs)
        return output
