"""What the tests of our kernels share."""

from __future__ import annotations

import pytest
import torch

hopper = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0), reason="needs a Hopper GPU"
)


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, device="cuda").bfloat16()


def distance(got: torch.Tensor, expected: torch.Tensor) -> float:
    return float((got.float() - expected).norm() / expected.norm())
