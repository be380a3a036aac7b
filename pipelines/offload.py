"""Components that wait on the host for their turn on the device."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch


def keep_on_host(components: Iterable[object], *, mapped: bool) -> None:
    """Let the modules among `components` keep their weights on the host while the device has a copy.

    diffusers offloads by `module.to(device)` and, for another's turn, `module.to("cpu")`. That copies back
    what nobody has changed, into memory that the host must find again: of 60 GB, for about a minute. Here the
    copy on the device is let go instead. What is done to the weights on the host between two turns stays.

    `mapped`: they may be pages of the checkpoint's files, as libraries load them, and are copied out of
    those: else the first request would wait for the disk, where memory is short each turn, and a file that
    is overwritten would change the model.
    """
    for component in components:
        if isinstance(component, torch.nn.Module):
            if mapped:
                _copy_out(component)
            component.to = _Keeping(component)  # type: ignore[method-assign]


def _copy_out(module: torch.nn.Module) -> None:
    for weight in module.parameters():
        if weight.device.type == "cpu":
            weight.data = weight.data.clone()


class _Keeping:
    """In place of a module's `to`."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module
        self._move = module.to
        self._kept: dict[str, torch.Tensor] = {}

    def __call__(self, *args: Any, **named: Any) -> torch.nn.Module:
        device = named.get("device", args[0] if args else None)
        if isinstance(device, str | int | torch.device):
            to_host = str(device).partition(":")[0] == "cpu"
            self._return() if to_host else self._leave()
        return self._move(*args, **named)

    def _leave(self) -> None:
        weights = {name: weight.data for name, weight in self._module.named_parameters()}
        self._kept |= {name: weight for name, weight in weights.items() if weight.device.type == "cpu"}

    def _return(self) -> None:
        for name, weight in self._module.named_parameters():
            kept = self._kept.pop(name, None)
            if kept is not None and kept.dtype == weight.dtype:  # else it was changed on the device, and goes
                weight.data = kept
