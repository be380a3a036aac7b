from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from encoding.base import AudioSpec
from encoding.options import CODECS
from pipelines.base import SoundFormat
from server.params import Resolved
from server.tasks import output_of
from tests.server.door import CAPABILITIES, Door, as_form, ask, make_settings, refused
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


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({}, CODECS["libx264"].defaults),
        ({"output_format": "webm"}, CODECS["libvpx-vp9"].defaults),
        ({"video_codec_options": {"preset": "medium"}}, {"preset": "medium"}),
        ({"video_codec_options": {"bitrate": 1_000_000, "gop": "16"}}, {"b": "1000000", "g": "16"}),
        ({"video_codec_options": "{}"}, {}),
        ({"video_codec_options": "null"}, {}),
        ({"output_format": "pt"}, {}),
        ({"output_format": "pt", "video_codec_options": "{}"}, {}),
    ],
)
async def test_codec_options(door: Door, fields: dict[str, Any], options: dict[str, str]) -> None:
    """Absent: the service's defaults. Empty or null: the codec's own. Given: these, in FFmpeg's words."""
    assert (await ask(door, **fields)).numbers.codec_options == options


@pytest.mark.parametrize(
    ("fields", "option"),
    [
        ({"video_codec_options": {"preset": "warp"}}, "preset"),
        ({"video_codec_options": {"crf": 52}}, "crf"),
        ({"video_codec_options": {"x264-params": "dump-yuv=/tmp/x"}}, "x264-params"),
        ({"video_codec_options": {"pass": "1"}}, "pass"),
        ({"video_codec_options": {"stats": "/tmp/x"}}, "stats"),
        ({"video_codec_options": {"crf": True}}, "crf"),
        ({"output_format": "pt", "video_codec_options": {"crf": 20}}, "crf"),
    ],
)
async def test_codec_options_that_are_not_allowed(door: Door, fields: dict[str, Any], option: str) -> None:
    """Unknown, out of bounds, able to write files, or for a format without a codec: 400 naming the option."""
    outcome = await door.json({"prompt": "x", **fields})
    assert outcome.status == 400
    assert outcome.error["param"] == f"video_codec_options.{option}"


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


# What FFmpeg, x264 and libvpx read from, or write to, a file or an address by; and what reaches them unread.
REACHES_FILES = {
    "x264-params": "dump-yuv=/tmp/x",
    "x264opts": "stats=/tmp/x:qpfile=/etc/passwd",
    "x264_opts": "stats=/tmp/x",
    "x265-params": "csv=/tmp/x",
    "svtav1-params": "stats=/tmp/x",
    "stats": "/tmp/x",
    "passlogfile": "/tmp/x",
    "pass": "1",
    "2pass": "1",
    "multi-pass": "2",
    "flags": "+pass1",
    "dump-yuv": "/tmp/x",
    "qpfile": "/etc/passwd",
    "tcfile-in": "/etc/passwd",
    "tcfile-out": "/tmp/x",
    "cqmfile": "/etc/passwd",
    "log-file": "/tmp/x",
    "opencl-clbin": "/tmp/x",
    "vstats_file": "/tmp/x",
    "rc_override": "0,1,2",
    "vpre": "../../x",
    "fpre": "/etc/passwd",
    "filename": "/tmp/x",
    "path": "/tmp/x",
    "output": "file:/tmp/x",
    "url": "http://127.0.0.1/",
    "f": "tee",
    "map": "0",
    "filter_complex": "movie=/etc/passwd",
    "vf": "metadata=print:file=/tmp/x",
    "movflags": "faststart",
    "encryption_key": "0" * 32,
    "protocol_whitelist": "file,http",
    "init_hw_device": "opencl",
    "report": "1",
    "progress": "/tmp/x",
    "dump_attachment": "/tmp/x",
    "crf:stats": "/tmp/x",
    "preset ": "slow",
    "--stats": "/tmp/x",
    "Preset": "slow",
}


@pytest.mark.parametrize("output", ["mp4", "webm"])
async def test_options_that_reach_files(door: Door, output: str) -> None:
    """As JSON and as forms, nested or as text: each is refused by its name, and by that alone."""
    for option, value in REACHES_FILES.items():
        fields = {"output_format": output, "video_codec_options": {option: value}}
        error = await refused(door, **fields)
        assert error["param"] == f"video_codec_options.{option}", option
        assert "allowed are" in error["message"]
        text = {**fields, "video_codec_options": json.dumps(fields["video_codec_options"])}
        assert (await door.form(as_form({"prompt": "x", **text}))).error == error


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("preset", "slow:stats=/tmp/x"),
        ("preset", "/etc/passwd"),
        ("preset", "slow\n"),
        ("profile", "high:dump-yuv=/tmp/x"),
        ("tune", "film,stats=/tmp/x"),
        ("crf", "18:stats=/tmp/x"),
        ("gop", "12 -report"),
        ("bitrate", "1000000|tee"),
        ("threads", "auto"),
        ("crf", {"stats": "/tmp/x"}),
        ("preset", ["slow"]),
    ],
)
async def test_no_value_brings_another_option(door: Door, option: str, value: object) -> None:
    """A value is one of the words, or a number within bounds."""
    outcome = await door.json({"prompt": "x", "video_codec_options": {option: value}})
    assert (outcome.status, outcome.error["param"]) == (400, f"video_codec_options.{option}")


@pytest.mark.parametrize(
    ("codec", "good", "bad"),
    [
        ("libx265", {"preset": "fast", "crf": 24.5}, {"threads": 2}),
        ("libsvtav1", {"preset": "10", "crf": 24}, {"bitrate": 1_000_000}),
        ("h264_nvenc", {"preset": "p7", "cq": 20, "tune": "hq"}, {"crf": 20}),
        ("av1_nvenc", {"bitrate": 1_000_000}, {"profile": "main"}),
    ],
)
async def test_options_are_those_of_the_servers_encoder(
    codec: str, good: dict[str, Any], bad: dict[str, Any]
) -> None:
    """It makes every MP4, and no other format; what it does not know is refused by its name."""
    door = Door(make_settings(encoding={"mp4_codec": codec}), CAPABILITIES)
    numbers = (await ask(door)).numbers
    assert (numbers.codec, numbers.codec_options) == (codec, CODECS[codec].defaults)
    assert (await ask(door, video_codec_options=good)).numbers.codec == codec
    error = await refused(door, video_codec_options=bad)
    assert error["param"] == f"video_codec_options.{next(iter(bad))}"
    assert codec in error["message"]
    assert (await ask(door, output_format="webm")).numbers.codec == "libvpx-vp9"
    assert (await ask(door, output_format="pt")).numbers.codec is None
    await door.close()


@pytest.mark.parametrize(
    ("codec", "fields", "param"),
    [
        ("libx265", {"size": "32x64"}, "size"),
        ("libsvtav1", {"size": "64x30"}, "size"),
        ("libsvtav1", {"width": 16, "height": 16}, "width"),
    ],
)
async def test_a_picture_that_is_too_small_for_the_encoder(
    codec: str, fields: dict[str, Any], param: str
) -> None:
    """Refused at the door with the encoder and its least side; other formats take it."""
    door = Door(make_settings(encoding={"mp4_codec": codec}), CAPABILITIES)
    error = await refused(door, **fields)
    assert error["param"] == param
    assert f"{codec} needs {CODECS[codec].min_side} pixels" in error["message"]
    assert (await ask(door, output_format="webm", **fields)).numbers.format == "webm"
    await door.close()


def test_a_job_of_before_is_read() -> None:
    """One that was written down without an encoder has its format's own, and one without sound is silent."""
    kinds = TypeAdapter(Resolved)
    written = kinds.dump_python(resolved(), mode="json")
    assert (written.pop("codec"), written.pop("sound")) == (None, None)
    read = kinds.validate_python(written)
    assert (read.codec, read.sound) == (None, None)


@pytest.fixture
async def latent_door(tmp_path: Path) -> AsyncIterator[Door]:
    """A server with a folder of latents, and a secret beside it."""
    folder = tmp_path / "latents"
    (folder / "deep").mkdir(parents=True)
    for name in ("noise.pt", "deep/noise.safetensors", "notes.txt"):
        (folder / name).write_bytes(b"noise")
    (tmp_path / "secret.pt").write_bytes(b"secret")
    (folder / "link.pt").symlink_to(tmp_path / "secret.pt")
    (folder / "loop.pt").symlink_to(folder / "loop.pt")
    (folder / "folder.pt").mkdir()
    opened = Door(make_settings(fixed_latents={"dir": folder}))
    yield opened
    await opened.close()


@pytest.mark.parametrize("name", ["noise.pt", "deep/noise.safetensors", "deep/../noise.pt", "./noise.pt"])
async def test_latents_below_the_operators_folder(latent_door: Door, tmp_path: Path, name: str) -> None:
    """A relative path names a file there."""
    latents = (await ask(latent_door, latent_path=name)).numbers.params.latents
    assert latents == (tmp_path / "latents" / name).resolve()


@pytest.mark.parametrize(
    "name",
    [
        "../secret.pt",
        "link.pt",
        "loop.pt",
        "folder.pt",
        "notes.txt",
        "missing.pt",
        "~/noise.pt",
        "x" * 5000,
        ".",
    ],
)
async def test_latents_elsewhere_are_refused(latent_door: Door, tmp_path: Path, name: str) -> None:
    """No way out of the folder, and no word about what lies around it."""
    error = await refused(latent_door, latent_path=name)
    assert error["param"] == "latent_path"
    assert str(tmp_path) not in error["message"]


async def test_absolute_latent_paths_are_refused(latent_door: Door, tmp_path: Path) -> None:
    """Also those that lie in the folder: clients do not know where it is."""
    error = await refused(latent_door, latent_path=str(tmp_path / "latents" / "noise.pt"))
    assert error["param"] == "latent_path"


async def test_latents_are_off_by_default(door: Door) -> None:
    """Without a folder no request may name a file; an operator's fixed file serves every request."""
    assert "not enabled" in (await refused(door, latent_path="noise.pt"))["message"]
    fixed = Door(make_settings().model_copy(update={"fixed_latent_path": Path("/latents/fixed.pt")}))
    assert (await ask(fixed)).numbers.params.latents == Path("/latents/fixed.pt")
    await fixed.close()


async def test_what_was_resolved_survives_json(door: Door) -> None:
    """The job store writes it down and reads back the same."""
    numbers = (await ask(door, fps="24000/1001", seed=2**63 - 1, guidance_scale_2=0)).numbers
    adapter = TypeAdapter(Resolved)
    assert adapter.validate_json(adapter.dump_json(numbers)) == numbers
