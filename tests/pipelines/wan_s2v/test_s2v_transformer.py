"""The speech-to-video transformer against what the official implementation made of the same weights."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from pipelines.wan_s2v.names import transformer_weights
from pipelines.wan_s2v.official import transformer_config
from pipelines.wan_s2v.transformer import WanS2VTransformer3DModel
from tests.pipelines.wan_s2v import drawn_weights as drawn
from tests.pipelines.wan_s2v.official_names import official_like

REFERENCE = load_file(Path(__file__).parent / "data" / "reference.safetensors")


@cache
def transformer() -> WanS2VTransformer3DModel:
    config = transformer_config(drawn.TRANSFORMER, text_dim=drawn.TRANSFORMER["text_dim"])
    model: Any = WanS2VTransformer3DModel(**config).eval().requires_grad_(False)
    layers = model.config.audio_inject_layers
    official = drawn.weights(official_like(model.state_dict(), layers))
    model.load_state_dict(transformer_weights(official, layers))
    return model


def predict(t: float, **changes: Any) -> torch.Tensor:
    given = drawn.forward_inputs()
    text = torch.zeros(1, drawn.TRANSFORMER["text_len"], given["text"].shape[1])
    text[0, : len(given["text"])] = given["text"]
    call = {
        "hidden_states": given["latents"][None],
        "timestep": torch.tensor([t]),
        "encoder_hidden_states": text,
        "audio": given["audio"],
        "reference_latents": given["reference"][None],
        "motion_latents": given["motion"][None],
        "pose_latents": given["poses"][None],
    }
    return transformer()(**(call | changes), return_dict=False)[0][0]


def test_with_motion_and_poses() -> None:
    torch.testing.assert_close(predict(737.0), REFERENCE["forward"], rtol=1e-4, atol=1e-5)


def test_without_motion_and_poses() -> None:
    made = predict(41.0, motion_latents=None, pose_latents=None)
    torch.testing.assert_close(made, REFERENCE["forward_dropped"], rtol=1e-4, atol=1e-5)
