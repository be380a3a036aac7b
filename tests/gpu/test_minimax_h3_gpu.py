"""The tiny MiniMax-H3 on a GPU: as on the processor, with components that stay or come for their turn.

And its films, by the processor of torchvision, which other tests may lack: PyPI's wheel loads beside PyPI's
torch, which is for GPUs.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from diffusers.modular_pipelines.minimax_h3 import MiniMaxH3ImageReference, MiniMaxH3VideoReference
from PIL import Image

from pipelines.base import Reference
from pipelines.media import read_sound
from pipelines.minimax_h3.model import load_minimax_h3
from tests.pipelines.h3_models import RATE, assert_same, config, make, params, theirs
from tests.pipelines.test_media import write as write_film
from tests.pipelines.tiny_models import picture

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("offload", ["none", "model"])
def test_a_gpu_makes_the_same_video(offload: str) -> None:
    """The same seed, in float32: the frames and the sound of the processor."""
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        on_gpu = make(load_minimax_h3(config(offload=offload), "cuda:0"), num_frames=17)
    on_cpu = make(load_minimax_h3(config(), "cpu"), num_frames=17)
    for one, other in zip(on_gpu, on_cpu, strict=True):
        assert torch.allclose(one.cpu(), other, atol=1e-2)


def test_a_film_with_its_sound_equals_diffusers(tmp_path: Path) -> None:
    """A film of 30 frames a second and 48 kHz, brought to 24 and 32 once, before diffusers sees it."""
    model = load_minimax_h3(config(), "cpu")
    frames = np.stack([np.full((64, 96, 3), 3 * number, np.uint8) for number in range(40)])
    path = write_film(tmp_path / "film.mkv", frames, Fraction(30), tone_rate=48_000)
    still = picture(tmp_path / "still.png", 64, 64)
    ours = make(model, references=(Reference("video", path), Reference("image", still)))
    film = MiniMaxH3VideoReference(frames, 30.0, read_sound(path, RATE, 124 / 24), RATE)
    image = MiniMaxH3ImageReference(Image.open(still).convert("RGB"))
    assert_same(ours, theirs(model, params(model), references=[film, image]))
