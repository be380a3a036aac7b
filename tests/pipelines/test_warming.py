"""What a model is used for before its first request."""

from __future__ import annotations

import pytest
import torch

from pipelines.errors import LoadFailed
from pipelines.warming import room_for
from server.engine.failures import judge


def test_a_full_device_names_the_model_and_the_size() -> None:
    """Which are what can be changed; it may be another process's memory, so the start is tried again."""
    said = r"model big: width and height are 1344 and 768; .*Tried"
    with pytest.raises(LoadFailed, match=said) as caught, room_for("big", 1344, 768):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")
    assert judge(caught.value).code == "out_of_memory"
