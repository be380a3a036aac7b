"""What a request may say about the codec, and what it gets if it says nothing."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import pytest

from encoding.base import OutputSpec
from encoding.errors import InvalidOption
from encoding.formats import FORMATS
from encoding.options import CODECS, resolve
from encoding.probe import available_codecs, try_spec

CODED = [(row.name, codec) for row in FORMATS.values() for codec in row.codecs]
HERE = [(name, codec) for name, codec in CODED if codec in available_codecs(name)]


def test_every_encoder_of_a_format_has_options() -> None:
    """No format can be asked for whose options are not known."""
    assert {codec for _, codec in CODED} == set(CODECS)


@pytest.mark.parametrize("codec", [codec for _, codec in CODED])
def test_absent_is_the_services_choice_and_null_the_codecs_own(codec: str) -> None:
    """Not given ≠ null; null = {}."""
    assert resolve(codec, None, present=False) == CODECS[codec].defaults != {}
    assert resolve(codec, None, present=True) == {}
    assert resolve(codec, {}, present=True) == {}


def test_a_mapping_starts_from_the_codecs_own_defaults() -> None:
    """Whoever sets the preset does not get the service's crf with it."""
    assert resolve("libx264", {"preset": "slow"}, present=True) == {"preset": "slow"}


@pytest.mark.parametrize(
    ("given", "resolved"),
    [
        ({"crf": 0}, {"crf": "0"}),
        ({"crf": 0.0}, {"crf": "0"}),
        ({"crf": "23"}, {"crf": "23"}),
        ({"crf": 17.5}, {"crf": "17.5"}),
        ({"crf": 51}, {"crf": "51"}),
        ({"bitrate": 2_500_000}, {"b": "2500000"}),
        ({"gop": 1}, {"g": "1"}),
        ({"threads": 16}, {"threads": "16"}),
        ({"profile": "baseline", "tune": "film"}, {"profile": "baseline", "tune": "film"}),
        ({"profile": "high", "crf": 1}, {"profile": "high", "crf": "1"}),
    ],
)
def test_allowed_options_become_ffmpegs(given: dict[str, object], resolved: dict[str, str]) -> None:
    """Numbers, also as text; zero is a value."""
    assert resolve("libx264", given, present=True) == resolved


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("crf", -1, "from 0 to 51"),
        ("crf", 52, "from 0 to 51"),
        ("crf", True, "from 0 to 51"),
        ("crf", None, "from 0 to 51"),
        ("crf", "", "from 0 to 51"),
        ("crf", "1e1", "from 0 to 51"),
        ("crf", " 18", "from 0 to 51"),
        ("crf", "١٨", "from 0 to 51"),
        ("crf", math.nan, "from 0 to 51"),
        ("crf", math.inf, "from 0 to 51"),
        ("crf", [18], "from 0 to 51"),
        pytest.param("crf", 10**6000, "an integer of 19932 bits.*from 0 to 51", id="too long to print"),
        ("bitrate", 0, "bits per second"),
        ("bitrate", "2M", "bits per second"),
        ("gop", 0, "from 1 to 1000 frames"),
        ("gop", 12.5, "whole number"),
        ("threads", 0, "from 1 to 16"),
        ("threads", False, "from 1 to 16"),
        ("preset", "placebo", "ultrafast, superfast, veryfast"),
        ("preset", "", "ultrafast"),
        ("preset", 3, "ultrafast"),
        ("profile", "high10", "baseline, main, high"),
        ("profile", "high444", "baseline, main, high"),
        ("tune", "film,fastdecode", "film, animation"),
    ],
)
def test_values_out_of_bounds_are_named(option: str, value: object, allowed: str) -> None:
    """The error carries the option; the message has the value and what is allowed, and is short."""
    with pytest.raises(InvalidOption, match=allowed) as raised:
        resolve("libx264", {option: value}, present=True)
    assert raised.value.option == option
    assert option in str(raised.value)
    assert len(str(raised.value)) < 250


@pytest.mark.parametrize(
    "option",
    ["x264-params", "x264opts", "stats", "passlogfile", "flags", "pix_fmt", "b", "CRF", "", "x" * 999],
)
@pytest.mark.parametrize("codec", [codec for _, codec in CODED])
def test_everything_else_is_refused(codec: str, option: str) -> None:
    """Options that write files, and FFmpeg's other words: the message lists what is allowed."""
    with pytest.raises(InvalidOption, match=rf"no option of {codec}; allowed are .*gop") as raised:
        resolve(codec, {option: "1"}, present=True)
    assert raised.value.option == option
    assert len(str(raised.value)) < 250


@pytest.mark.parametrize(
    ("codec", "quality"),
    [
        ("libx264", "crf"),
        ("libx265", "crf"),
        ("libvpx-vp9", "crf"),
        ("h264_nvenc", "cq"),
        ("av1_nvenc", "cq"),
    ],
)
def test_bitrate_and_quality_contradict_each_other(codec: str, quality: str) -> None:
    """One of them rules the size, also at the quality's lowest number."""
    with pytest.raises(InvalidOption, match=f"beside {quality}") as raised:
        resolve(codec, {quality: 1, "bitrate": 1_000_000}, present=True)
    assert raised.value.option == "bitrate"


def test_lossless_has_no_profile_that_players_know() -> None:
    """x264 codes without loss below crf 1 and would refuse the profile minutes later."""
    with pytest.raises(InvalidOption, match="crf 0"):
        resolve("libx264", {"crf": 0, "profile": "high"}, present=True)


def test_raw_formats_take_no_options() -> None:
    """A format without a codec has no defaults, and refuses what is given."""
    assert resolve(None, None, present=False) == resolve(None, {}, present=True) == {}
    with pytest.raises(InvalidOption, match="raw frames") as raised:
        resolve(None, {"crf": 18}, present=True)
    assert raised.value.option == "crf"


@pytest.mark.parametrize(
    ("codec", "option", "value", "allowed"),
    [
        ("libx265", "threads", 4, "libx265; allowed are preset, crf"),
        ("libx265", "x265-params", "csv=/tmp/x", "libx265; allowed are preset, crf"),
        ("libx265", "profile", "main10", "libx265, one of main"),
        ("libsvtav1", "svtav1-params", "pass=1", "libsvtav1; allowed are preset, crf, gop"),
        ("libsvtav1", "preset", "veryfast", "libsvtav1, a whole number from 0 to 13"),
        ("libsvtav1", "crf", 64, "libsvtav1, a whole number from 1 to 63"),
        ("h264_nvenc", "preset", "veryfast", "h264_nvenc, one of p1, p2"),
        ("hevc_nvenc", "crf", 20, "hevc_nvenc; allowed are preset, cq"),
        ("av1_nvenc", "cq", 64, "av1_nvenc, a number from 1 to 63"),
    ],
)
def test_each_encoder_has_a_list_of_its_own(codec: str, option: str, value: object, allowed: str) -> None:
    """The message names the encoder, whose words differ from the others'."""
    with pytest.raises(InvalidOption, match=allowed) as raised:
        resolve(codec, {option: value}, present=True)
    assert raised.value.option == option


@pytest.mark.parametrize(("name", "codec"), HERE)
def test_the_encoder_takes_every_word_and_both_ends(name: str, codec: str) -> None:
    """Nothing that the list allows is refused by the encoder itself."""
    for option, allowed in CODECS[codec].options.items():
        values = getattr(allowed, "words", None) or (allowed.low, allowed.high)  # type: ignore[union-attr]
        for value in values:
            options = resolve(codec, {option: value}, present=True)
            try_spec(OutputSpec(Path("a"), name, 96, 64, 9, Fraction(24), options, codec=codec))
