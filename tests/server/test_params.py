from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from tests.server.door import OFFICIAL, Door, ask, refused

PICTURE = "data:,judged-later"


async def test_a_prompt_alone_gets_the_models_defaults(door: Door) -> None:
    """The first model, every number of its own; the seed is drawn."""
    numbers = (await ask(door)).numbers
    params = numbers.params
    assert (params.model, params.prompt, params.negative_prompt) == ("text", "x", OFFICIAL)
    assert (params.width, params.height, params.num_frames) == (160, 96, 17)
    assert (params.num_inference_steps, params.guidance_scale, params.guidance_scale_2) == (8, 4.0, 3.0)
    assert (params.boundary_ratio, params.flow_shift, params.max_sequence_length) == (0.875, 12.0, 64)
    assert (params.num_outputs, params.image, params.last_image, params.latents) == (1, None, None, None)
    assert (numbers.format, numbers.fps, numbers.response_format, numbers.stream) == (
        "mp4",
        Fraction(16),
        "video_bytes",
        False,
    )


async def test_what_is_given_is_used(door: Door) -> None:
    """Every number of a request, and none of the defaults."""
    given = {
        "negative_prompt": "blurry",
        "size": "320x240",
        "num_frames": 33,
        "seed": 7,
        "num_inference_steps": 3,
        "guidance_scale": 1.5,
        "guidance_scale_2": 2.5,
        "boundary_ratio": 0.5,
        "flow_shift": 5.5,
        "max_sequence_length": 32,
        "n": 2,
    }
    params = (await ask(door, **given)).numbers.params
    assert (params.width, params.height) == (320, 240)
    assert params.num_outputs == 2
    for name in set(given) - {"size", "n"}:
        assert getattr(params, name) == given[name]


@pytest.mark.parametrize("zero", [0, 0.0, "0", "0.0"])
async def test_zero_is_a_value(door: Door, zero: Any) -> None:
    """Where zero is legal it is used, and the default is not put in its place."""
    fields = {"seed": zero, "guidance_scale": zero, "guidance_scale_2": zero, "boundary_ratio": zero}
    params = (await ask(door, **fields)).numbers.params
    assert (params.seed, params.guidance_scale) == (0, 0.0)
    assert (params.guidance_scale_2, params.boundary_ratio) == (0.0, 0.0)


async def test_an_empty_negative_prompt_is_none(door: Door) -> None:
    """Empty is not the default; null and absent are."""
    assert (await ask(door, negative_prompt="")).numbers.params.negative_prompt == ""
    outcome = await door.form([("prompt", "x"), ("negative_prompt", ""), ("seed", ""), ("size", "")])
    assert outcome.numbers.params.negative_prompt == ""
    assert (
        await door.json({"prompt": "x", "negative_prompt": None})
    ).numbers.params.negative_prompt == OFFICIAL


async def test_the_second_guidance_keeps_its_own_default(door: Door) -> None:
    """Giving the first scale does not change the second."""
    params = (await ask(door, guidance_scale=6)).numbers.params
    assert (params.guidance_scale, params.guidance_scale_2) == (6.0, 3.0)


async def test_drawn_seeds_differ(door: Door) -> None:
    """Two requests without a seed do not make the same video."""
    seeds = {(await door.json({"prompt": "x"})).numbers.params.seed for _ in range(20)}
    assert len(seeds) == 20
    assert all(0 <= seed < 2**63 for seed in seeds)


@pytest.mark.parametrize(("name", "served"), [("text", "text"), ("sora-2", "text"), ("both", "both")])
async def test_models_go_by_id_and_alias(door: Door, name: str, served: str) -> None:
    """An alias is resolved to the id."""
    assert (await ask(door, model=name)).numbers.params.model == served


@pytest.mark.parametrize("name", ["sora-1", "Text", " text", "SORA-2"])
async def test_an_unknown_model_is_not_found(door: Door, name: str) -> None:
    """404 that lists what there is; names are exact."""
    outcome = await ask(door, model=name)
    assert outcome.status == 404
    assert outcome.error["code"] == "model_not_found"
    assert outcome.error["param"] == "model"
    assert "text = sora-2, picture, both" in outcome.error["message"]


@pytest.mark.parametrize(
    ("fields", "size"),
    [
        ({"size": "auto"}, (160, 96)),
        ({"size": "100x60"}, (100, 60)),
        ({"width": 100, "height": 60}, (100, 60)),
        ({"width": 100, "height": 60, "size": "100*60"}, (100, 60)),
        ({"width": 160, "height": 96, "size": "auto"}, (160, 96)),
        ({"size": "480x480"}, (480, 480)),
        ({"size": "2x2"}, (2, 2)),
        ({"size": "16x14400"}, (16, 14400)),
    ],
)
async def test_sizes_are_what_was_asked(door: Door, fields: dict[str, Any], size: tuple[int, int]) -> None:
    """Not rounded to the model's grid: the picture is cropped to it later."""
    params = (await ask(door, **fields)).numbers.params
    assert (params.width, params.height) == size


@pytest.mark.parametrize(
    ("fields", "param", "piece"),
    [
        ({"size": "101x60"}, "size", "even"),
        ({"size": "100x61"}, "size", "even"),
        ({"size": "100000x100000"}, "size", "230,400"),
        ({"size": "999999999x999999998"}, "size", "even"),
        # 482 x 478 is less than 480 x 480, but the model would have to make 496 x 480.
        ({"size": "482x478"}, "size", "238,080"),
        ({"width": 482, "height": 480}, "width", "238,080"),
        ({"width": 100}, "width", "height"),
        ({"height": 100}, "height", "width"),
        ({"size": "100x60", "width": 100}, "width", "height"),
        ({"size": "100x60", "width": 60, "height": 100}, "size", "contradicts"),
        ({"size": "auto", "width": 60, "height": 100}, "size", "contradicts"),
    ],
)
async def test_sizes_that_cannot_be_made(door: Door, fields: dict[str, Any], param: str, piece: str) -> None:
    """Odd sides, half a size, two sizes, and more pixels than allowed on the model's grid."""
    error = await refused(door, **fields)
    assert error["param"] == param
    assert piece in error["message"]


@pytest.mark.parametrize(
    ("fields", "frames"),
    [
        *(({"num_frames": count}, count) for count in (1, 16, 17, 80, 81, 82, 161)),
        ({"seconds": 1}, 16),
        ({"seconds": "4"}, 64),
        ({"seconds": "5", "fps": 24}, 120),
        ({"seconds": 1, "fps": "24000/1001"}, 24),
        ({"seconds": "1.001", "fps": "24000/1001"}, 24),
        ({"seconds": "0.53125", "fps": 16}, 9),  # 8.5 frames: half up
        ({"seconds": "0.5312499999999999999", "fps": 16}, 8),
        ({"seconds": 1e-07}, 1),
        ({"seconds": "0.1", "fps": 30}, 3),
        ({"seconds": "0.35", "fps": 30}, 11),  # 10.5 exactly, though 0.35 × 30 is below it in floats
        ({"seconds": 60, "num_frames": 5}, 5),
        ({"seconds": 1, "fps": 120, "num_frames": 161}, 161),
        ({"fps": 120}, 17),
        ({"seconds": "10.03125"}, 161),  # 160.5
    ],
)
async def test_frames_are_counted_exactly(door: Door, fields: dict[str, Any], frames: int) -> None:
    """round(seconds × fps) without floats, at least one; `num_frames` beats both."""
    assert (await ask(door, **fields)).numbers.params.num_frames == frames


@pytest.mark.parametrize(
    ("fields", "param", "piece"),
    [
        ({"num_frames": 162}, "num_frames", "at most 161"),
        ({"num_frames": "1" + "0" * 29}, "num_frames", "at most 161"),
        ({"seconds": "12"}, "seconds", "10.062 s (161 frames at 16 frames per second)"),
        ({"seconds": 8, "fps": "24000/1001"}, "seconds", "6.715 s (161 frames at 24000/1001"),
        ({"seconds": "1e30"}, "seconds", "10.062 s"),
    ],
)
async def test_too_many_frames(door: Door, fields: dict[str, Any], param: str, piece: str) -> None:
    """The answer says the most that is possible."""
    error = await refused(door, **fields)
    assert error["param"] == param
    assert piece in error["message"]


async def test_the_longest_that_is_named_is_possible(door: Door) -> None:
    """A client that takes the answer at its word is let in."""
    assert (await ask(door, seconds="10.062")).numbers.params.num_frames == 161
    assert (await ask(door, seconds="6.715", fps="24000/1001")).numbers.params.num_frames == 161


async def test_rates_are_exact(door: Door) -> None:
    """The model's own where none is given."""
    assert (await ask(door, fps=23.976)).numbers.fps == Fraction(2997, 125)
    assert (await ask(door, fps=24000 / 1001)).numbers.fps == Fraction(24000, 1001)
    assert (await ask(door, model="both")).numbers.fps == 24


@pytest.mark.parametrize("field", ["guidance_scale_2", "boundary_ratio"])
@pytest.mark.parametrize("value", [0, 0.5])
async def test_one_expert_has_no_second_scale(door: Door, field: str, value: float) -> None:
    """Not even zero; without it the parameters say None."""
    error = await refused(door, model="both", **{field: value})
    assert error["param"] == field
    assert "one expert" in error["message"]
    params = (await ask(door, model="both")).numbers.params
    assert (params.guidance_scale_2, params.boundary_ratio) == (None, None)


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"model": "text", "input_reference": PICTURE}, "input_reference", "invalid_value"),
        ({"model": "text", "image": PICTURE}, "image", "invalid_value"),
        ({"model": "text", "last_image": PICTURE}, "last_image", "invalid_value"),
        ({"model": "picture"}, "input_reference", "missing_required_parameter"),
        ({"model": "picture", "last_image": PICTURE}, "input_reference", "missing_required_parameter"),
        ({"model": "both", "input_reference": PICTURE, "last_image": PICTURE}, "last_image", "invalid_value"),
        ({"model": "text", "audio": PICTURE}, "audio", "invalid_value"),
        ({"model": "both", "video_reference": PICTURE}, "video_reference", "invalid_value"),
    ],
)
async def test_pictures_only_where_they_have_a_use(
    door: Door, fields: dict[str, Any], param: str, code: str
) -> None:
    """Forbidden on a text-only model, required on an image model, known at the door."""
    error = await refused(door, **fields)
    assert (error["param"], error["code"]) == (param, code)


async def test_pictures_where_they_are_taken(door: Door) -> None:
    """The paths are left open: the pictures are not stored yet."""
    for fields in (
        {"model": "picture", "input_reference": PICTURE, "last_image": PICTURE},
        {"model": "both", "input_reference": PICTURE},
        {"model": "both"},
    ):
        assert (await ask(door, **fields)).numbers.params.image is None


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"num_inference_steps": 200, "num_frames": 161, "size": "480x480"}, "num_inference_steps"),
        ({"num_inference_steps": 28, "num_frames": 161, "size": "480x480"}, "size"),
        ({"num_inference_steps": 108, "num_frames": 161, "size": "240x240"}, "num_inference_steps"),
        ({"n": 4, "num_inference_steps": 16, "seconds": 10, "width": 320, "height": 320}, "seconds"),
    ],
)
async def test_more_than_the_model_may_work(door: Door, fields: dict[str, Any], param: str) -> None:
    """Each field is within its own bounds; the one that asks for most is named, with the sum."""
    error = await refused(door, **fields)
    assert error["param"] == param
    assert "1,000,000,000" in error["message"]


@pytest.mark.parametrize(
    "fields",
    [
        {"num_inference_steps": 26, "num_frames": 161, "size": "480x480"},  # 230,400 × 161 × 26 = 964,454,400
        {
            "num_inference_steps": 107,
            "num_frames": 161,
            "size": "240x240",
        },  # 57,600 × 161 × 107 = 992,275,200
    ],
)
async def test_as_much_as_the_model_may_work(door: Door, fields: dict[str, Any]) -> None:
    """Just below the bound."""
    params = (await ask(door, **fields)).numbers.params
    assert params.num_inference_steps == fields["num_inference_steps"]
