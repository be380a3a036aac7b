"""The tiny MiniMax-H3 on a GPU: as on the processor, with components that stay or come for their turn."""

from __future__ import annotations

import pytest
import torch

from pipelines.minimax_h3.model import load_minimax_h3
from tests.pipelines.test_minimax_h3 import config, make

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("offload", ["none", "model"])
def test_a_gpu_makes_the_same_video(offload: str) -> None:
    """The same seed, in float32: the frames and the sound of the processor."""
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        on_gpu = make(load_minimax_h3(config(offload=offload), "cuda:0"), num_frames=17)
    on_cpu = make(load_minimax_h3(config(), "cpu"), num_frames=17)
    for one, other in zip(on_gpu, on_cpu, strict=True):
        assert torch.allclose(one.cpu(), other, atol=1e-2)
