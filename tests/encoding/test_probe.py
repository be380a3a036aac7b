"""What would be refused is found before a job depends on it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import pytest

import encoding.probe
from encoding.base import AudioSpec, OutputSpec
from encoding.encoder import find_encoder
from encoding.errors import EncoderMissing, EncodingError, InvalidOption, InvalidSpec
from encoding.formats import FORMATS
from encoding.options import resolve
from encoding.probe import available_codecs, available_formats, available_sound_formats, try_codec, try_spec
from tests.encoding.clips import FILM


def good(name: str) -> OutputSpec:
    options = resolve(FORMATS[name].codec, None, present=False)
    return OutputSpec(Path(f"a.{name}"), name, 100, 60, 18, FILM, options)


def test_every_format_works_here() -> None:
    """The build of FFmpeg that the project is locked to has all encoders."""
    assert available_formats() == ("mp4", "webm", "pt", "safetensors")


@pytest.mark.parametrize("name", FORMATS)
def test_a_good_specification_passes_and_leaves_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written, neither where the file would be nor elsewhere."""
    monkeypatch.chdir(tmp_path)
    try_spec(good(name))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        (replace(good("mp4"), width=101), "width: 101"),
        (replace(good("webm"), height=0), "height: 0"),
        (replace(good("mp4"), fps=Fraction(0)), "fps: 0"),
        (replace(good("mp4"), num_frames=0), "num_frames: 0"),
        (replace(good("pt"), width=0), "width: 0"),
        (replace(good("mp4"), format="mov"), "format: mov"),
        (replace(good("mp4"), codec="libvpx-vp9"), "codec: libvpx-vp9 makes no mp4, allowed are libx264"),
        (replace(good("mp4"), codec="libx265", height=32), "height: 32 given.*from 34 .* libx265"),
        (replace(good("mp4"), codec="libsvtav1", width=30), "width: 30 given.*from 32 .* libsvtav1"),
        (replace(good("pt"), codec="libx264"), "codec: libx264 makes no pt, allowed are none"),
    ],
)
def test_a_bad_specification_is_refused(spec: OutputSpec, named: str) -> None:
    """By the field's name."""
    with pytest.raises(InvalidSpec, match=named):
        try_spec(spec)


def test_raw_frames_may_have_odd_sides() -> None:
    """Only video needs even ones."""
    try_spec(replace(good("pt"), width=101, height=61))


def test_what_only_the_encoder_knows_is_refused() -> None:
    """An unknown option, a value that it cannot use, and two that contradict each other."""
    with pytest.raises(InvalidOption, match="deadline"):
        try_spec(replace(good("mp4"), codec_options={"deadline": "good"}))
    with pytest.raises(EncodingError, match="preset=sluggish"):
        try_spec(replace(good("mp4"), codec_options={"preset": "sluggish"}))
    with pytest.raises(EncodingError, match="crf=0, profile=high: Invalid argument"):
        try_spec(replace(good("mp4"), codec_options={"crf": "0", "profile": "high"}))


def test_every_software_encoder_of_mp4_works_here() -> None:
    """The build has them all; a card's are there where the card has them."""
    assert available_codecs("mp4")[:3] == ("libx264", "libx265", "libsvtav1")


@pytest.mark.parametrize("codec", ["h264_nvenc", "hevc_nvenc", "av1_nvenc"])
def test_a_card_without_an_encoder_is_told_in_ffmpegs_words(codec: str) -> None:
    """The build knows the encoder, and only trying it finds that there is none."""
    if codec in available_codecs("mp4"):
        pytest.skip("this machine's card has the encoder")
    with pytest.raises(EncodingError, match=rf"{codec} refuses 256x256.*: .+ \(.+\)") as raised:
        try_codec("mp4", codec)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_sound_here(name: str) -> None:
    """Of every rate and number of channels that is taken."""
    assert name in available_sound_formats()
    for rate in (4_000, 8_000, 44_100, 192_000):
        for channels in (1, 2):
            try_spec(replace(good(name), audio=AudioSpec(rate, channels)))


def test_a_build_without_an_encoder_of_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its format is there for silent videos only, and a specification with sound is refused."""

    def find(name: str) -> av.Codec:
        if name == "libopus":
            raise EncoderMissing(f"encoder {name}: Encoder not found")
        return find_encoder(name)

    monkeypatch.setattr(encoding.probe, "find_encoder", find)
    assert available_sound_formats() == ("mp4", "pt", "safetensors")
    assert "webm" in available_formats()
    with pytest.raises(EncoderMissing, match="libopus"):
        try_spec(replace(good("webm"), audio=AudioSpec(16_000, 1)))
