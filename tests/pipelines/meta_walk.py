"""The decoder's walk over tensors without memory, to count what a GPU would have to hold."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from pipelines.wan_vae import StreamingDecoder, conv, convs, decoder, fast, fp8, ops, packing
from pipelines.wan_vae.convs import Convs
from pipelines.wan_vae.fast import Caches
from pipelines.wan_vae.memory import Plan
from pipelines.wan_vae.ops import Sum


def peak_bytes(vae: Any, latents: torch.Tensor, sizes: Plan, monkeypatch: pytest.MonkeyPatch) -> int:
    """The most that a decode on a Hopper GPU holds at once, but for what libraries use inside of them."""
    monkeypatch.setattr(decoder, "Convs", _Empty)
    monkeypatch.setattr(decoder, "plan", lambda *_, **__: sizes)
    monkeypatch.setattr(fp8, "missing", lambda *_: None)
    monkeypatch.setattr(fp8, "input_scales", lambda decoder: dict.fromkeys(fp8.low_convs(decoder), 1.0))
    monkeypatch.setattr(ops, "_pointwise", lambda *_, **__: None)
    monkeypatch.setattr(fast, "attention", lambda _, x: Sum(torch.empty_like(x), residual=x))
    parked: dict[Caches, dict[Any, Any]] = {}
    monkeypatch.setattr(Caches, "park", lambda caches: _park(caches, parked))
    monkeypatch.setattr(Caches, "fetch", lambda caches, _: _fetch(caches, parked))
    streaming = StreamingDecoder(vae, fp8=sizes.fp8, taper=True)
    live = _Live()
    with live:
        for _ in streaming.decode(latents):
            pass
    return live.most


def _park(caches: Caches, parked: dict[Caches, dict[Any, Any]]) -> None:
    parked[caches] = {conv: (kept.shape, kept.dtype) for conv, kept in caches._kept.items()}
    caches._kept.clear()


def _fetch(caches: Caches, parked: dict[Caches, dict[Any, Any]]) -> None:
    for layer, (shape, dtype) in parked.get(caches, {}).items():
        caches._kept[layer] = torch.empty(shape, dtype=dtype, device="meta")


class _Live(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's
    """Counts the bytes of tensors that are alive; those that were there before are not among them."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's
        self.most = 0
        self._alive: dict[int, tuple[Any, int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor):
            storage = made.untyped_storage()
            ref = StorageWeakRef(storage)  # type: ignore[no-untyped-call]  # torch's
            self._alive.setdefault(ref.cdata, (ref, storage.nbytes()))
        self._alive = {key: item for key, item in self._alive.items() if not item[0].expired()}
        self.most = max(self.most, sum(size for _, size in self._alive.values()))
        return made


class _Empty(Convs):
    """Weights as they are packed for our kernel, and results of the right size, as on a Hopper GPU."""

    def takes(self, layer: Any, x: torch.Tensor) -> bool:
        return convs._causal_kernel(layer) is not None

    def ours(self, layer: Any, x: torch.Tensor, earlier: torch.Tensor) -> Sum:
        self._weights(layer, _there(convs._causal_kernel(layer)))
        return _like(layer, x, 1)

    def fp8(self, layer: Any, x: torch.Tensor, earlier: torch.Tensor) -> Sum:
        if layer not in self._packed_fp8:
            kernel = _there(conv.choose_fp8(layer.out_channels, layer.in_channels))
            self._packed_fp8[layer] = packing.packed_fp8(layer.weight, kernel)
        return _like(layer, x, 1)

    def library(self, layer: Any, window: torch.Tensor) -> Sum:
        return _like(layer, window[layer.kernel_size[0] - 1 :], 1)

    def doubling(self, layer: Any, x: torch.Tensor, *, pairs: bool) -> Sum:
        if kernel := conv.choose(layer.out_channels, layer.in_channels, 1, 4):
            self._weights(layer, kernel, phases=True)
        frames = x.shape[0] * (2 if pairs else 1)
        return _like(layer, x.new_empty(0).expand(frames, *x.shape[1:3], 0), 2)


def _there(kernel: conv.Kernel | None) -> conv.Kernel:
    assert kernel is not None
    return kernel


def _like(layer: Any, x: torch.Tensor, scale: int) -> Sum:
    height, width = x.shape[1] * scale, x.shape[2] * scale
    shape = x.shape[0], height, width, layer.out_channels
    return Sum(torch.empty(shape, dtype=torch.bfloat16, device="meta"), layer.bias)
