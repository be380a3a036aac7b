"""What fields do to each other: spellings, duplicates, nesting, files, fields that nobody knows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from server.reference_schemas import ImageReference
from tests.server.door import Door, Part, make_settings

PNG = b"\x89PNG\r\n\x1a\n\x00\xff judged later"
X: Part = ("prompt", "x")


@pytest.fixture
async def lenient() -> AsyncIterator[Door]:
    """A server that lets unknown fields pass."""
    opened = Door(make_settings(server={"unknown_fields": "ignore"}))
    yield opened
    await opened.close()


async def test_a_missing_prompt_is_named(door: Door) -> None:
    """No prompt, an empty one and a null one are all "required"."""
    for fields in ({}, {"prompt": ""}, {"prompt": None}, {"seed": 1}):
        for outcome in await door.both(fields):
            assert outcome.status == 400
            assert outcome.error["param"] == "prompt"
            assert outcome.error["code"] == "missing_required_parameter"


async def test_an_unknown_field_is_refused_with_a_hint(door: Door) -> None:
    """A misspelt field is not dropped: the answer names it and the nearest one that exists."""
    for outcome in await door.both({"prompt": "x", "guidance_scal": 9}):
        assert outcome.status == 400
        assert outcome.error["param"] == "guidance_scal"
        assert outcome.error["code"] == "unknown_parameter"
        assert "did you mean guidance_scale?" in outcome.error["message"]


async def test_an_unlike_field_gets_the_list(door: Door) -> None:
    """Without a near name the answer lists what there is."""
    for outcome in await door.both({"prompt": "x", "zzz": 9}):
        assert "num_inference_steps" in outcome.error["message"]


async def test_unknown_fields_can_be_ignored_but_are_listed(lenient: Door) -> None:
    """With `unknown_fields: ignore` the header says what had no effect, whatever its name is made of."""
    for outcome in await lenient.both({"prompt": "x", "zzz": 9, "ä b": [1], "seed": 0}):
        assert outcome.values == {"prompt": "x", "seed": 0}
        assert outcome.headers["x-ignored-fields"] == "zzz, %C3%A4%20b"
    outcome = await lenient.json('{"prompt": "x", "half\\ud83d\\r\\nX-Evil: 1": 1}')
    assert outcome.headers["x-ignored-fields"] == "half%3F%0D%0AX-Evil%3A%201"


@pytest.mark.parametrize("name", ["user", "quality", "metadata", "preencode_mp4", "characters"])
async def test_some_fields_are_tolerated_without_effect(door: Door, name: str) -> None:
    """Clients send them; nothing is said about it."""
    values: tuple[Any, ...] = ("someone", True, {"a": {"b": "c"}}) if name != "characters" else ([], "[]", "")
    for sent in values:
        for outcome in await door.both({"prompt": "x", name: sent}):
            assert outcome.values == {"prompt": "x"}
            assert outcome.headers["x-ignored-fields"] == ""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("fps", "frame_rate"),
        ("n", "num_outputs_per_prompt"),
        ("output_format", "format"),
        ("input_reference", "image"),
        ("image_reference", "image"),
        ("audio_reference", "audio"),
    ],
)
async def test_two_spellings_of_a_field_are_a_duplicate(door: Door, first: str, second: str) -> None:
    """The second one is refused by the name that the client used, even if both say the same."""
    for outcome in await door.both({"prompt": "x", first: "2", second: "2"}):
        assert outcome.status == 400
        assert outcome.error["param"] == second
        assert outcome.error["code"] == "duplicate_parameter"
        assert first in outcome.error["message"]


async def test_a_spelling_that_is_not_given_is_no_duplicate(door: Door) -> None:
    """null beside a value says nothing."""
    for outcome in await door.both({"prompt": "x", "fps": None, "frame_rate": 24}):
        assert outcome.values["fps"] == 24


async def test_the_same_field_twice_is_a_duplicate(door: Door) -> None:
    """Neither the first nor the last one wins."""
    form = await door.form([X, ("seed", "1"), ("seed", "1")])
    json = await door.json('{"prompt": "x", "seed": 1, "seed": 1}')
    for outcome in (form, json):
        assert outcome.status == 400
        assert outcome.error["param"] == "seed"
        assert outcome.error["code"] == "duplicate_parameter"


async def test_a_name_in_errors_is_the_clients(door: Door) -> None:
    """An alias is not translated, nor is a nested name, whether the parser or the limits refuse it."""
    for outcome in await door.both({"prompt": "x", "frame_rate": 0}):
        assert outcome.error["param"] == "frame_rate"
    for outcome in await door.both({"prompt": "x", "format": "mov"}):
        assert outcome.error["param"] == "format"
    json, form = await door.both({"prompt": "x", "video_codec_options": {"crf": 99}})
    assert json.error["param"] == "video_codec_options.crf"
    assert form.error["param"] == "video_codec_options[crf]"
    json, form = await door.both({"prompt": "x", "extra_params": {"video_codec_options": {"crf": 99}}})
    assert json.error["param"] == "extra_params.video_codec_options.crf"
    assert form.error["param"] == "extra_params[video_codec_options][crf]"


async def test_extra_params_count_as_if_they_stood_beside_it(door: Door) -> None:
    """As an object, in brackets and as JSON text, by any spelling."""
    extra = {"flow_shift": 5, "frame_rate": 24, "seed": None, "preencode_mp4": True}
    for outcome in await door.both({"prompt": "x", "extra_params": extra}):
        assert outcome.values == {"prompt": "x", "flow_shift": 5.0, "fps": 24}
    for outcome in await door.both({"prompt": "x", "extra_params": '{"flow_shift": 5, "fps": "24"}'}):
        assert outcome.values == {"prompt": "x", "flow_shift": 5.0, "fps": 24}


@pytest.mark.parametrize(
    ("extra", "code"),
    [
        ({"guidance_scal": 1}, "unknown_parameter"),
        ({"extra_params": {}}, "invalid_value"),
        ({"prompt": "y"}, "invalid_value"),
        ({"model": "text"}, "invalid_value"),
        ({"image": "data:,x"}, "invalid_value"),
        ({"response_format": "url"}, "invalid_value"),
        ({"seed": 1}, "duplicate_parameter"),
        ({"guidance_scale": 21}, "invalid_value"),
    ],
)
async def test_extra_params_are_checked(lenient: Door, extra: dict[str, Any], code: str) -> None:
    """Unknown keys, what belongs beside them, conflicts and bounds: 400, even where unknown fields pass."""
    (key,) = extra
    json, form = await lenient.both({"prompt": "x", "seed": 1, "extra_params": extra})
    assert json.error["param"] == f"extra_params.{key}"
    assert json.error["code"] == code
    if key != "extra_params":  # an empty object has no spelling in brackets
        assert form.error["param"] == f"extra_params[{key}]"
        assert form.error["code"] == code


async def test_a_file_is_a_reference(door: Door) -> None:
    """Whatever it is called and claims to be; its bytes are judged when it is decoded."""
    for part in (
        ("upload", PNG, "application/octet-stream"),
        ("", PNG, "image/png"),
        ("a.png", PNG, "text/plain"),
    ):
        outcome = await door.form([X, ("model", "picture"), ("input_reference", part)])
        assert outcome.file("input_reference") == PNG


async def test_a_picture_without_a_file_name_is_a_file(door: Door) -> None:
    """Some clients leave the name out and say what it is."""
    body = (
        b"--b\r\nContent-Disposition: form-data; name=prompt\r\n\r\nx\r\n"
        b"--b\r\nContent-Disposition: form-data; name=image\r\nContent-Type: image/png\r\n\r\n"
        + PNG
        + b"\r\n--b--"
    )
    outcome = await door.post(body, "multipart/form-data; boundary=b")
    assert outcome.file("input_reference") == PNG


async def test_an_empty_file_input_is_not_given(door: Door) -> None:
    """A browser sends one for every input that nobody touched."""
    outcome = await door.form([X, ("input_reference", ("", b"", "application/octet-stream"))])
    assert outcome.values == {"prompt": "x"}


@pytest.mark.parametrize("name", ["prompt", "seed", "video_codec_options", "extra_params", "model"])
async def test_a_file_where_text_belongs_is_refused(door: Door, name: str) -> None:
    """The field is named, and the bytes are not echoed."""
    parts: list[Part] = [] if name == "prompt" else [X]
    outcome = await door.form([*parts, (name, ("prompt.txt", b"a secret", "text/plain"))])
    assert outcome.status == 400
    assert outcome.error["param"] == name
    assert "a file of 8 bytes" in outcome.error["message"]
    assert "secret" not in outcome.error["message"]


async def test_a_reference_in_brackets_keeps_its_spelling(door: Door) -> None:
    """The form spelling of `{image_url}` is taken, and is the name in an error about it."""
    outcome = await door.form([X, ("model", "picture"), ("input_reference[image_url]", "data:,x")])
    assert outcome.values["input_reference"] == {"image_url": "data:,x"}
    outcome = await door.form([X, ("input_reference[image_url]", "data:,x")])
    assert outcome.error["param"] == "input_reference[image_url]"


@pytest.mark.parametrize(
    ("reference", "param", "words"),
    [
        ({"url": "data:,x"}, "input_reference.url", "image_url"),
        ({"audio_url": "data:,x"}, "input_reference.audio_url", "image_url"),
        ({"image_url": {"url": "data:,x"}}, "input_reference.image_url", "text"),
        ({"image_url": 5}, "input_reference.image_url", "text"),
        ({"image_url": ""}, "input_reference", "image_url or file_id"),
        ([{"image_url": "data:,x"}], "input_reference", "image_url or file_id"),
        (7, "input_reference", "image_url or file_id"),
        ({"video_url": "data:,x"}, "audio_reference.video_url", "audio_url"),
        ({"audio_url": "data:,x", "image_url": "data:,y"}, "audio_reference", "audio_url or file_id"),
        ({"audio_url": "data:,x"}, "video_reference.audio_url", "video_url"),
    ],
)
async def test_a_reference_of_another_shape_is_refused(
    door: Door, reference: Any, param: str, words: str
) -> None:
    """The answer names what is wrong and the shapes that are right."""
    outcome = await door.json({"prompt": "x", param.partition(".")[0]: reference})
    assert outcome.status == 400
    assert outcome.error["param"] == param
    assert words in outcome.error["message"]


@pytest.mark.parametrize(
    ("parts", "param"),
    [
        (
            [("input_reference", "data:,x"), ("input_reference[image_url]", "data:,x")],
            "input_reference[image_url]",
        ),
        ([("input_reference[image_url]", "data:,x"), ("input_reference", "data:,x")], "input_reference"),
        ([("extra_params[seed]", "1"), ("extra_params[seed]", "2")], "extra_params[seed]"),
        ([("extra_params[seed]", "1"), ("extra_params[]", "2")], "extra_params[]"),
        ([("extra_params[n][a]", "1"), ("extra_params[n]", "2")], "extra_params[n]"),
        ([("seed[]", "1")], "seed[]"),
        ([("seed[x]", "1")], "seed[x]"),
        ([("seed" + "[a]" * 9, "1")], "seed" + "[a]" * 9),
        ([("seed[", "1")], "seed["),
        ([("", "1")], ""),
    ],
)
async def test_brackets_that_contradict_are_refused(door: Door, parts: list[Part], param: str) -> None:
    """A field is a value or an object or a list; the part that makes it two things is named."""
    outcome = await door.form([X, *parts])
    assert outcome.status == 400
    assert outcome.error["param"] == param


async def test_ten_thousand_fields_are_refused_quickly(door: Door) -> None:
    """Neither dialect can make the server look through a great many names."""
    outcome = await door.json({"prompt": "x", **{f"f{index}": 1 for index in range(10_000)}})
    assert outcome.status == 400
    outcome = await door.form([X, *((f"f{index}", "1") for index in range(10_000))])
    assert outcome.status == 400
    assert "100 parts" in outcome.error["message"]


def test_a_reference_does_not_show_its_content() -> None:
    """A request that is logged by mistake says neither its prompt nor its pictures."""
    assert "secret" not in repr(ImageReference(image_url="data:,secret"))
