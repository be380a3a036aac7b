"""Random weights in a checkpoint's architecture: where they are, and in which type."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pipelines.dummy import dummy_pipeline
from pipelines.wan_parts import load_parts
from pipelines.wan_s2v.components import WanS2VPipeline
from tests.pipelines.tiny_models import TINY, tiny_config

GPU = torch.device("meta")
"""Not the host, which is what a GPU is here."""


@pytest.mark.parametrize(("task", "pipeline"), [("t2v", None), ("s2v", WanS2VPipeline)])
def test_every_weight_is_on_the_device(task: str, pipeline: Any) -> None:
    """Also the one that wav2vec2 makes on the host, and which it then takes for its own place."""
    pipe = dummy_pipeline(str(TINY / task), torch.bfloat16, GPU, pipeline)
    parts = {name: part for name, part in pipe.components.items() if isinstance(part, torch.nn.Module)}
    elsewhere = [
        f"{name}.{key}"
        for name, part in parts.items()
        for key, value in (*part.named_parameters(), *part.named_buffers())
        if value.device != GPU
    ]
    assert elsewhere == []
    assert {str(getattr(part, "device", GPU)) for part in parts.values()} == {"meta"}


def test_what_must_be_precise_is() -> None:
    """The sound's encoder in float32, as real weights are loaded; its neighbours in the type asked for."""
    pipe = dummy_pipeline(str(TINY / "s2v"), torch.bfloat16, GPU, WanS2VPipeline, ["audio_encoder"])
    assert {weight.dtype for weight in pipe.audio_encoder.parameters()} == {torch.float32}
    assert {weight.dtype for weight in pipe.vae.parameters()} == {torch.bfloat16}


def test_offloaded_they_wait_on_the_host() -> None:
    """As real weights do, for the device to call them; no other place was ever asked for them."""
    told: list[torch.device] = []

    class Offloading:
        """In place of diffusers' pipeline, which refuses to offload without a GPU."""

        def __init__(self, **parts: Any) -> None:
            self.components = parts

        def enable_model_cpu_offload(self, device: torch.device) -> None:
            told.append(device)

    config = tiny_config("t2v", load_format="dummy", offload="model")
    pipe = load_parts(config, GPU, lambda *_: pytest.fail("the weights were read"), Offloading)
    assert told == [GPU]
    assert {str(weight.device) for weight in pipe.components["transformer"].parameters()} == {"cpu"}
