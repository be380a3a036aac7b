from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from encoding.base import AudioSpec
from pipelines.base import SoundFormat
from server.params import Resolved
from server.tasks import output_of
from tests.server.door import CAPABILITIES, Door, ask, make_settings, refused
from tests.server.scripted import resolved


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("auto", "mp4"),
        ("MP4", "mp4"),
        ("webm", "webm"),
        ("raw", "pt"),
        ("PT", "pt"),
        ("SafeTensors", "safetensors"),
    ],
)
async def test_formats_go_by_several_names(door: Door, given: str, made: str) -> None:
    """Case does not matter."""
    assert (await ask(door, output_format=given)).numbers.format == made


async def test_a_format_must_exist_and_be_there() -> None:
    """Unknown ones and those whose encoder is missing: 400 with the list."""
    door = Door(make_settings(), replace(CAPABILITIES, formats=("mp4", "pt")))
    error = await refused(door, output_format="MOV")
    assert error["param"] == "output_format"
    assert "mp4, webm, pt, safetensors, auto, raw" in error["message"]
    error = await refused(door, format="webm")
    assert error["param"] == "format"
    assert "mp4, pt" in error["message"]
    await door.close()


async def test_a_format_must_hold_the_models_sound() -> None:
    """Where its encoder of sound is missing, a model with sound is refused, and a silent one is not."""
    text, *others = CAPABILITIES.models
    models = (replace(text, sound=SoundFormat(16_000, 1)), *others)
    door = Door(make_settings(), replace(CAPABILITIES, models=models, sound_formats=("mp4", "pt")))
    error = await refused(door, output_format="WebM")
    assert error["param"] == "output_format"
    assert '"webm" cannot be made with sound' in error["message"]
    assert error["message"].endswith("as text does; there are mp4, pt")
    assert (await ask(door, output_format="webm", model="both")).numbers.sound is None
    await door.close()


async def test_the_file_is_announced_with_the_models_sound(tmp_path: Path) -> None:
    """From the model to what its worker is told, also over the database; and none for a silent model."""
    text, *others = CAPABILITIES.models
    models = (replace(text, sound=SoundFormat(16_000, 1)), *others)
    door = Door(make_settings(), replace(CAPABILITIES, models=models))
    adapter = TypeAdapter(Resolved)
    numbers = adapter.validate_json(adapter.dump_json((await ask(door)).numbers))
    assert output_of(numbers, tmp_path / "a.mp4").audio == AudioSpec(16_000, 1)
    silent = (await ask(door, model="both")).numbers
    assert output_of(silent, tmp_path / "a.mp4").audio is None
    await door.close()


async def test_paths_are_not_given_away(door: Door) -> None:
    """`video_path` only where the operator says so."""
    error = await refused(door, response_format="path")
    assert (error["param"], "not enabled" in error["message"]) == ("response_format", True)
    opened = Door(make_settings(artifacts={"expose_paths": True}))
    assert (await ask(opened, response_format="path")).numbers.response_format == "video_path"
    await opened.close()


async def test_streaming(door: Door) -> None:
    """One MP4, as bytes; anything else is refused, whatever else was asked."""
    assert (await ask(door, stream=True)).numbers.stream is True
    for fields in (
        {"output_format": "webm"},
        {"output_format": "pt"},
        {"n": 2},
        {"response_format": "url"},
        {"response_format": "b64_json"},
    ):
        assert (await refused(door, stream=True, **fields))["param"] == "stream"
        assert (await ask(door, stream=False, **fields)).numbers.stream is False


def test_a_job_of_before_is_read() -> None:
    """One that was written down without an encoder has its format's own, and one without sound is silent."""
    kinds = TypeAdapter(Resolved)
    written = kinds.dump_python(resolved(), mode="json")
    assert (written.pop("codec"), written.pop("sound")) == (None, None)
    read = kinds.validate_python(written)
    assert (read.codec, read.sound) == (None, None)


async def test_what_was_resolved_survives_json(door: Door) -> None:
    """The job store writes it down and reads back the same."""
    numbers = (await ask(door, fps="24000/1001", seed=2**63 - 1, guidance_scale_2=0)).numbers
    adapter = TypeAdapter(Resolved)
    assert adapter.validate_json(adapter.dump_json(numbers)) == numbers
