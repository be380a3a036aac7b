from __future__ import annotations

import json
from typing import Any

import pytest

from encoding.options import CODECS
from tests.server.door import CAPABILITIES, Door, as_form, ask, make_settings, refused


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
