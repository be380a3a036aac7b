"""The speech-to-video transformer against what the official implementation made of the same weights."""

from __future__ import annotations

from typing import Any

import torch

from tests.pipelines.wan_s2v import drawn_weights as drawn
from tests.pipelines.wan_s2v.official_names import REFERENCE
from tests.pipelines.wan_s2v.s2v_models import padded, transformer


def predict(t: float, motion_frames: int = 73, **changes: Any) -> torch.Tensor:
    given = drawn.forward_inputs()
    call = {
        "hidden_states": given["latents"][None],
        "timestep": torch.tensor([t]),
        "encoder_hidden_states": padded(given["text"]),
        "audio": given["audio"],
        "reference_latents": given["reference"][None],
        "motion_latents": given["motion"][None],
        "pose_latents": given["poses"][None],
    }
    made: torch.Tensor = transformer(motion_frames)(**(call | changes), return_dict=False)[0][0]
    return made


def test_with_motion_and_poses() -> None:
    """All 19 latent frames of motion, in three packs."""
    torch.testing.assert_close(predict(737.0), REFERENCE["forward"], rtol=1e-5, atol=1e-5)


def test_without_motion_and_poses() -> None:
    """The first clip: the reference picture alone; no poses are latents of zeros there."""
    made = predict(41.0, motion_latents=None, pose_latents=None)
    torch.testing.assert_close(made, REFERENCE["forward_dropped"], rtol=1e-5, atol=1e-5)


def test_with_less_motion_than_the_packs_hold() -> None:
    """Five latent frames, and a sound that is preceded by 17 frames."""
    made = predict(999.0, 17, motion_latents=drawn.forward_inputs()["motion"][None, :, :5])
    torch.testing.assert_close(made, REFERENCE["forward_short"], rtol=1e-5, atol=1e-5)
