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
from encoding.probe import try_spec

CODED = [(row.name, row.codec) for row in FORMATS.values() if row.codec is not None]


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
    with pytest.raises(InvalidOption, match=r"allowed are .*crf, bitrate, .*gop, threads") as raised:
        resolve(codec, {option: "1"}, present=True)
    assert raised.value.option == option
    assert len(str(raised.value)) < 250


@pytest.mark.parametrize("codec", [codec for _, codec in CODED])
def test_bitrate_and_crf_contradict_each_other(codec: str) -> None:
    """One of them rules the size, also when crf is 0."""
    with pytest.raises(InvalidOption, match="beside crf") as raised:
        resolve(codec, {"crf": 0, "bitrate": 1_000_000}, present=True)
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


@pytest.mark.parametrize(("name", "codec"), CODED)
def test_the_encoder_takes_every_word_and_both_ends(name: str, codec: str) -> None:
    """Nothing that the list allows is refused by the encoder itself."""
    for option, allowed in CODECS[codec].options.items():
        values = getattr(allowed, "words", None) or (allowed.low, allowed.high)  # type: ignore[union-attr]
        for value in values:
            options = resolve(codec, {option: value}, present=True)
            try_spec(OutputSpec(Path("a"), name, 96, 64, 9, Fraction(24), options))
