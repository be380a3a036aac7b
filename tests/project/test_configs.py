"""The shipped configurations hold the official numbers of the models they name."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import pytest

from pipelines.base import Grid
from server.model_settings import ModelSettings
from server.settings import load

CONFIGS = Path(__file__).parents[2] / "configs"


class Official(NamedTuple):
    """Size, length and sampling as in the Wan 2.2 repository."""

    path: str
    width: int
    height: int
    num_frames: int
    fps: int
    steps: int
    guidance_scale: float
    guidance_scale_2: float | None
    flow_shift: float
    kind: str = "wan"


OFFICIAL = {
    "wan2.2-t2v-a14b": Official("Wan-AI/Wan2.2-T2V-A14B-Diffusers", 1280, 720, 81, 16, 40, 4.0, 3.0, 12.0),
    "wan2.2-i2v-a14b": Official("Wan-AI/Wan2.2-I2V-A14B-Diffusers", 1280, 720, 81, 16, 40, 3.5, 3.5, 5.0),
    "wan2.2-ti2v-5b": Official("Wan-AI/Wan2.2-TI2V-5B-Diffusers", 1280, 704, 121, 24, 50, 5.0, None, 5.0),
    "wan2.2-s2v-14b": Official("Wan-AI/Wan2.2-S2V-14B", 1024, 704, 77, 16, 40, 4.5, None, 3.0, "wan-s2v"),
}
GRIDS = {
    "wan2.2-t2v-a14b": Grid(4, 16),
    "wan2.2-i2v-a14b": Grid(4, 16),
    "wan2.2-ti2v-5b": Grid(4, 32),
    "wan2.2-s2v-14b": Grid(80, 64, offset=77),
}


def only_model(name: str) -> ModelSettings:
    (model,) = load(CONFIGS / f"{name}.yaml").models
    return model


@pytest.mark.parametrize("name", OFFICIAL)
def test_defaults_are_the_official_ones(name: str) -> None:
    """A request that names only a prompt is served as the model's makers would."""
    model, official = only_model(name), OFFICIAL[name]
    assert model.id == name
    assert (model.path, model.kind, model.dtype) == (official.path, official.kind, "bfloat16")
    assert (model.width, model.height) == (official.width, official.height)
    assert (model.num_frames, model.fps) == (official.num_frames, Fraction(official.fps))
    assert model.num_inference_steps == official.steps
    assert (model.guidance_scale, model.guidance_scale_2) == (
        official.guidance_scale,
        official.guidance_scale_2,
    )
    assert model.flow_shift == official.flow_shift


@pytest.mark.parametrize("name", OFFICIAL)
def test_what_the_checkpoint_knows_is_left_to_it(name: str) -> None:
    """The experts' boundary and the negative prompt exist once, with the checkpoint and the pipeline."""
    model = only_model(name)
    assert model.boundary_ratio is None
    assert model.negative_prompt is None


@pytest.mark.parametrize("name", OFFICIAL)
@pytest.mark.parametrize("size", [(1280, 720), (720, 1280), (832, 480)])
def test_limits_admit_the_usual_sizes(name: str, size: tuple[int, int]) -> None:
    """OpenAI's landscape and portrait sizes and the small official one can be asked for on every model."""
    model, grid = only_model(name), GRIDS[name]
    assert grid.side(size[0]) * grid.side(size[1]) <= model.limits.max_pixels


@pytest.mark.parametrize("name", OFFICIAL)
@pytest.mark.parametrize("seconds", [4, 8, 12])
def test_limits_admit_the_usual_lengths(name: str, seconds: int) -> None:
    """The lengths that OpenAI's clients can choose from fit at each model's own rate."""
    model = only_model(name)
    assert round(seconds * model.fps) <= model.limits.max_num_frames


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_configuration_loads(path: Path) -> None:
    """No file has a misspelt name or a value out of bounds, and its own defaults fit its limits."""
    for model in load(path).models:
        assert model.width * model.height <= model.limits.max_pixels
        assert model.num_frames <= model.limits.max_num_frames
        work = model.width * model.height * model.num_frames * model.num_inference_steps
        assert 4 * work <= (model.limits.max_pixel_frame_steps or 4 * work)


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("wan*.yaml")), ids=lambda path: path.stem)
def test_every_real_configuration_has_its_numbers_here(path: Path) -> None:
    """A configuration that is added without its official numbers is noticed."""
    assert path.stem in OFFICIAL
