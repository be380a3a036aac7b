from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture
def exact_arithmetic() -> Iterator[None]:
    """float32 means float32, so that it can be the truth, and devices can be compared."""
    kept = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = kept
