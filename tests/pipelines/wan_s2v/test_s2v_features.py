"""What is heard of a sound, against the official implementation."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
import torch
from transformers import Wav2Vec2Config, Wav2Vec2FeatureExtractor, Wav2Vec2Model

from pipelines.wan_s2v.features import align, listen
from tests.pipelines.wan_s2v import drawn_weights as drawn
from tests.pipelines.wan_s2v.official_names import REFERENCE


def ear() -> tuple[Any, Any]:
    model = Wav2Vec2Model(Wav2Vec2Config(**drawn.WAV2VEC)).eval().requires_grad_(False)
    state = model.state_dict()
    official = drawn.weights({f"wav2vec2.{name}": tensor for name, tensor in state.items()})
    model.load_state_dict({name.removeprefix("wav2vec2."): tensor for name, tensor in official.items()})
    return Wav2Vec2FeatureExtractor(return_attention_mask=True, do_normalize=True), model


def test_features_are_the_official_ones() -> None:
    """Every hidden state, at 30 columns a second."""
    features = listen(*ear(), drawn.sound())
    torch.testing.assert_close(features, REFERENCE["features"].transpose(1, 2), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("fps", drawn.FPS)
def test_columns_are_the_official_ones(fps: str) -> None:
    """Which column a frame takes, at any rate, over the sound's end and to the last clip's.

    But where two are as near: the official code leaves those to the rounding of floats.
    """
    features = REFERENCE["features"].transpose(1, 2)[:2, :2]
    official = REFERENCE[f"bucket {fps}"]
    made = align(features, Fraction(fps), 0, len(official))[0].permute(2, 0, 1)
    clear = [n for n in range(len(official)) if (n * 60 / Fraction(fps)) % 2 != 1]
    assert torch.equal(made[clear], official[clear])
    assert len(clear) > 0.7 * len(official)


def test_before_the_start_is_as_the_start() -> None:
    """The frames of the first clip that are not shown hear the first column."""
    features = torch.arange(1.0, 31).expand(1, 1, 30)
    assert align(features, Fraction(30), -3, 5).flatten().tolist() == [1, 1, 1, 1, 2]


def test_a_very_short_sound_is_heard() -> None:
    """Ten samples: less than wav2vec2's first convolution takes."""
    assert bool(torch.isfinite(listen(*ear(), torch.ones(10))).all())
