"""A component on its way to a GPU and back."""

from __future__ import annotations

import pytest
import torch

from pipelines.offload import keep_on_host

pytestmark = pytest.mark.gpu


def test_the_device_gives_its_copy_back_and_the_host_keeps_its_own() -> None:
    """Buffers, which a forward may change, come back with the values that they have there."""
    module = torch.nn.BatchNorm1d(1 << 20).requires_grad_(False)
    home, before = module.weight.data_ptr(), torch.cuda.memory_allocated()
    keep_on_host([module], mapped=True)
    for turn in (1.0, 2.0):
        module.to("cuda:0")
        assert module.weight.is_cuda
        assert torch.cuda.memory_allocated() > before
        assert module.running_mean is not None
        module.running_mean.fill_(turn)
        module.to("cpu")
        assert module.weight.data_ptr() == home
        assert torch.cuda.memory_allocated() == before
        assert bool((module.running_mean == turn).all())
