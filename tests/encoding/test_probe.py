"""What would be refused is found before a job depends on it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from encoding.base import OutputSpec
from encoding.errors import EncodingError, InvalidOption, InvalidSpec
from encoding.formats import FORMATS
from encoding.options import resolve
from encoding.probe import available_formats, try_spec
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
