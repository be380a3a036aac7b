from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from server.kinds import CANONICAL, SCALARS, spellings
from server.reference_schemas import (
    ORDERED,
    REFERENCES,
    AudioReference,
    ImageReference,
    OrderedReference,
    VideoReference,
)
from server.schemas import TOLERATED, VideoGenerationRequest
from tests.server.door import Door

# Field, what is sent, what it means. Sent as JSON and as a form.
MEANINGS: list[tuple[str, Any, Any]] = [
    ("prompt", "a red circle", "a red circle"),
    ("prompt", "two\r\nlines", "two\nlines"),
    ("prompt", "  kept as it is ", "  kept as it is "),
    ("prompt", "円が動く 🎬", "円が動く 🎬"),
    ("prompt", "x" * 32_000, "x" * 32_000),
    ("model", "sora-2", "sora-2"),
    ("size", "832x480", "832x480"),
    ("size", "832*480", "832x480"),
    ("size", "832X480", "832x480"),
    ("size", " 832x480 ", "832x480"),
    ("size", "auto", "auto"),
    ("size", "AUTO", "auto"),
    ("seconds", 4, Fraction(4)),
    ("seconds", "4", Fraction(4)),
    ("seconds", 0.1, Fraction(1, 10)),
    ("seconds", "1e-07", Fraction(1, 10**7)),
    ("seconds", 1e-07, Fraction(1, 10**7)),
    ("fps", 24, Fraction(24)),
    ("fps", "24", Fraction(24)),
    ("fps", "24000/1001", Fraction(24000, 1001)),
    ("fps", "48000/2002", Fraction(24000, 1001)),
    ("fps", 23.976, Fraction(2997, 125)),
    ("fps", "23.976", Fraction(2997, 125)),
    ("fps", 24000 / 1001, Fraction(24000, 1001)),
    ("fps", 30000 / 1001, Fraction(30000, 1001)),
    ("fps", "59.94005994", Fraction(60000, 1001)),
    ("fps", 1, Fraction(1)),
    ("fps", 120, Fraction(120)),
    ("frame_rate", 16, Fraction(16)),
    ("num_frames", 81, 81),
    ("num_frames", "81", 81),
    ("num_frames", 81.0, 81),
    ("num_frames", " 81 ", 81),
    ("num_frames", "8.1e1", 81),
    ("seed", 0, 0),
    ("seed", 0.0, 0),
    ("seed", "0", 0),
    ("seed", 2**63 - 1, 2**63 - 1),
    ("seed", "9007199254740993.0", 2**53 + 1),
    ("num_inference_steps", 1, 1),
    ("num_inference_steps", 200, 200),
    ("guidance_scale", 0, 0.0),
    ("guidance_scale", 5, 5.0),
    ("guidance_scale", "5.5", 5.5),
    ("guidance_scale", 20, 20.0),
    ("guidance_scale_2", 0, 0.0),
    ("guidance_scale_2", 0.0, 0.0),
    ("boundary_ratio", 0, 0.0),
    ("boundary_ratio", 1, 1.0),
    ("flow_shift", 30, 30.0),
    ("flow_shift", 1e-07, 1e-07),
    ("negative_prompt", "", ""),
    ("negative_prompt", "blurry", "blurry"),
    ("max_sequence_length", 512, 512),
    ("n", 4, 4),
    ("num_outputs_per_prompt", 2, 2),
    ("last_image", "data:,x", ImageReference(image_url="data:,x")),
    ("output_format", "MP4", "mp4"),
    ("output_format", "mov", "mov"),
    ("format", "raw", "raw"),
    ("response_format", "b64_json", "b64_json"),
    ("response_format", "file", "video_bytes"),
    ("response_format", "path", "video_path"),
    ("init_first_frame", True, True),
    ("init_first_frame", "false", False),
    ("stream", True, True),
    ("stream", False, False),
    ("stream", "True", True),
    ("latent_path", "noise.pt", "noise.pt"),
    ("video_codec_options", {"crf": 20, "preset": "fast"}, {"crf": "20", "preset": "fast"}),
    ("video_codec_options", {"crf": 20.5, "gop": None}, {"crf": "20.5"}),
    ("video_codec_options", '{"crf": 20}', {"crf": "20"}),
    ("video_codec_options", "{}", {}),
    ("video_codec_options", "null", {}),
    ("input_reference", {"image_url": "data:,x"}, ImageReference(image_url="data:,x")),
    ("input_reference", {"file_id": "file-1"}, ImageReference(file_id="file-1")),
    ("input_reference", '{"image_url": "data:,x"}', ImageReference(image_url="data:,x")),
    ("input_reference", "https://example.com/a.png", ImageReference(image_url="https://example.com/a.png")),
    ("image_reference", "data:,x", ImageReference(image_url="data:,x")),
    ("image", {"image_url": "data:,x"}, ImageReference(image_url="data:,x")),
    ("audio_reference", "data:,x", AudioReference(audio_url="data:,x")),
    ("audio_reference", {"audio_url": "data:,x"}, AudioReference(audio_url="data:,x")),
    ("audio_reference", '{"audio_url": "data:,x"}', AudioReference(audio_url="data:,x")),
    ("audio_reference", {"image_url": "data:,x"}, AudioReference(audio_url="data:,x")),
    ("audio", {"file_id": "file-1"}, AudioReference(file_id="file-1")),
    ("video_reference", "data:,x", VideoReference(video_url="data:,x")),
    ("video_reference", {"video_url": "data:,x"}, VideoReference(video_url="data:,x")),
    ("video_reference", {"image_url": "data:,x"}, VideoReference(video_url="data:,x")),
    (
        "references",
        [{"image_url": "data:,x"}, {"image_url": "data:,y"}],
        [OrderedReference(image_url="data:,x"), OrderedReference(image_url="data:,y")],
    ),
    (
        "references",
        '[{"image_url": "data:,x"}, {"audio_url": "https://example.com/a.wav"}, {"video_url": "data:,z"}]',
        [
            OrderedReference(image_url="data:,x"),
            OrderedReference(audio_url="https://example.com/a.wav"),
            OrderedReference(video_url="data:,z"),
        ],
    ),
]


@pytest.mark.parametrize(("name", "sent", "meant"), MEANINGS)
async def test_json_and_form_mean_the_same(door: Door, name: str, sent: Any, meant: Any) -> None:
    """Each value, sent both ways, arrives as what it means, and neither way as anything more."""
    others = {} if name == "prompt" else {"prompt": "a circle"}
    for outcome in await door.both({**others, name: sent}):
        assert outcome.parsed is not None, outcome.body
        request = outcome.parsed.request
        assert getattr(request, CANONICAL[name]) == meant
        assert request.model_fields_set == {"prompt", CANONICAL[name]}


def test_every_field_has_a_meaning_that_is_tested() -> None:
    """The table above covers each field and each of its spellings."""
    fields = set(VideoGenerationRequest.model_fields) - TOLERATED - {"extra_params", "width", "height"}
    assert {name for name, _, _ in MEANINGS} == {name for field in fields for name in spellings(field)}
    assert set(SCALARS) == fields - {*REFERENCES, ORDERED, "video_codec_options"} | {"width", "height"}


async def test_width_and_height_mean_a_size(door: Door) -> None:
    """Two integers, by either dialect."""
    for outcome in await door.both({"prompt": "x", "width": 832, "height": "480"}):
        assert outcome.values == {"prompt": "x", "width": 832, "height": 480}


@pytest.mark.parametrize(
    "name", sorted(set(CANONICAL) - {"prompt", "negative_prompt", "video_codec_options"})
)
async def test_null_and_empty_are_not_given(door: Door, name: str) -> None:
    """null and "" leave a field out, in JSON as in a form."""
    for sent in (None, ""):
        for outcome in await door.both({"prompt": "x", name: sent}):
            assert outcome.values == {"prompt": "x"}


async def test_null_is_not_given_where_empty_is_a_value(door: Door) -> None:
    """A null negative prompt is the model's; null codec options are the codec's own."""
    outcome = await door.json({"prompt": "x", "negative_prompt": None, "video_codec_options": None})
    assert outcome.values == {"prompt": "x", "video_codec_options": {}}
    outcome = await door.form([("prompt", "x"), ("video_codec_options", "")])
    assert outcome.values == {"prompt": "x"}


# Field, what is sent, and a piece of the message beside the field's name.
REFUSALS: list[tuple[str, Any, str]] = [
    ("prompt", "  \n ", "blank"),
    ("prompt", "x" * 32_001, "32,000"),
    ("prompt", "a\0b", "NUL"),
    ("prompt", 5, "text"),
    ("prompt", ["x"], "a list is not allowed"),
    ("negative_prompt", "a\0b", "NUL"),
    ("size", "720p", '"720p" is not allowed'),
    ("size", "832x", "WxH"),
    ("size", "8e2x480", "WxH"),
    ("size", "٨٣٢x٤٨٠", "WxH"),
    ("size", "0x480", "WxH"),
    ("size", "-832x480", "WxH"),
    ("size", "832 x 480", "WxH"),
    ("size", 832, "WxH"),
    ("width", 833, "a multiple of 2"),
    ("width", 0, "at least 2"),
    ("height", "tall", "an integer"),
    ("seconds", 0, "greater than 0"),
    ("seconds", -1, "greater than 0"),
    ("seconds", "four", "a number of seconds"),
    ("seconds", "1e1000000000", "exponent"),
    ("fps", 0, "at least 1"),
    ("fps", 0.5, "at least 1"),
    ("fps", 121, "at most 120"),
    ("fps", "24/0", "divides by zero"),
    ("fps", "24/", "fraction"),
    ("fps", "23.9760239", "1,000,000"),
    ("fps", "1e999999999", "exponent"),
    ("frame_rate", "fast", "fraction"),
    ("num_frames", 0, "at least 1"),
    ("num_frames", 16.5, "an integer"),
    ("num_frames", True, "an integer"),
    ("num_frames", {"a": 1}, "an object is not allowed"),
    ("seed", -1, "at least 0"),
    ("seed", 2**63, "9223372036854775807"),
    ("seed", "seven", '"seven" is not allowed'),
    ("seed", "0x10", "an integer"),
    ("seed", "1_000", "an integer"),
    ("seed", "+5", "an integer"),
    ("seed", "07", "an integer"),
    ("seed", "٧", "an integer"),
    ("seed", "9" * 5000, "5,000 characters"),
    ("seed", " ", "an integer"),
    ("num_inference_steps", 0, "at most 200"),
    ("num_inference_steps", 201, "at most 200"),
    ("num_inference_steps", "two", "an integer"),
    ("guidance_scale", 20.1, "at most 20"),
    ("guidance_scale", "nan", "a number"),
    ("guidance_scale", "Infinity", "a number"),
    ("guidance_scale", "1e999", "at most 20"),
    ("guidance_scale_2", -0.1, "at least 0"),
    ("boundary_ratio", 1.1, "at most 1"),
    ("flow_shift", 0, "at least 1e-07"),
    ("flow_shift", 9e-8, "at least 1e-07"),
    ("flow_shift", 31, "at most 30"),
    ("max_sequence_length", 513, "at most 512"),
    ("n", 5, "at most 4"),
    ("num_outputs_per_prompt", 0, "at least 1"),
    ("response_format", "mp4", "video_bytes"),
    ("stream", "yes", "true or false"),
    ("stream", 1, "true or false"),
    ("video_codec_options", "{broken", "not valid JSON"),
    ("video_codec_options", "[1]", "an object"),
    ("video_codec_options", "text", "not valid JSON"),
    ("extra_params", '{"seed": }', "not valid JSON"),
    ("extra_params", "5", "an object"),
    ("input_reference", "{image_url: x}", "not valid JSON"),
    ("input_reference", "{}", "image_url or file_id"),
    ("input_reference", '{"image_url": "data:,x", "file_id": "y"}', "image_url or file_id"),
    ("input_reference", True, "data"),
    ("characters", '[{"id": "char_1"}]', "not supported"),
]


@pytest.mark.parametrize(("name", "sent", "piece"), REFUSALS)
async def test_a_value_without_meaning_is_refused(door: Door, name: str, sent: Any, piece: str) -> None:
    """Never the default in its place: 400 that names the field, its value and what is allowed, both ways."""
    others = {} if name == "prompt" else {"prompt": "a circle"}
    json_outcome, form_outcome = await door.both({**others, name: sent})
    assert json_outcome.status == 400
    assert json_outcome.error["param"] == name
    assert json_outcome.error["type"] == "invalid_request_error"
    assert json_outcome.error["message"].startswith(f"{name}: ")
    assert piece in json_outcome.error["message"]
    if isinstance(sent, str):
        assert form_outcome.error == json_outcome.error
