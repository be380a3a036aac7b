"""The rules of sound beside pictures, the same for every format."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch

from encoding.base import AudioSpec, OutputSpec, Sink
from encoding.errors import BadSound, EncodingError, InvalidSpec, SinkClosed
from encoding.formats import open_sink
from encoding.probe import try_spec
from tests.encoding.aborting import assert_abort_is_quick
from tests.encoding.clips import SUFFIXES, describe, smooth, sweep

RATE = 16_000
CLIP = smooth(9, 32, 48)


def spec_of(tmp_path: Path, suffix: str, channels: int = 1) -> OutputSpec:
    return describe(tmp_path / f"clip{suffix}", CLIP, audio=AudioSpec(RATE, channels))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_sound_that_never_comes_is_a_failure(tmp_path: Path, suffix: str) -> None:
    """All pictures are there, and still there is no file."""
    with open_sink(spec_of(tmp_path, suffix)) as sink:
        sink.write(CLIP)
    with pytest.raises(BadSound, match="announced, and none was written"):
        sink.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_sound_that_is_no_number_is_a_failure(tmp_path: Path, suffix: str, value: float) -> None:
    """Wherever it is, as long as it would be heard."""
    sound = sweep(RATE, 1, 0.3)
    sound[0, 4_000] = value
    sink = open_sink(spec_of(tmp_path, suffix))
    sink.write_sound(sound, RATE)
    with pytest.raises(EncodingError, match="sound: NaN or infinity"):
        sink.result.result(60)
    with pytest.raises(BadSound):
        sink.write(CLIP)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("sound", "rate", "named"),
    [
        (torch.zeros(2, 100), RATE, r"shape \(2, 100\), \(1, N\) expected"),
        (torch.zeros(100), RATE, r"shape \(100,\)"),
        (torch.zeros(1, 1, 100), RATE, r"shape \(1, 1, 100\)"),
        (torch.zeros(1, 100), 48_000, "48000 samples a second, 16000 expected"),
        (torch.zeros(1, 100, dtype=torch.int16), RATE, r"torch\.int16, a floating-point one expected"),
    ],
)
def test_sound_of_another_form_is_refused(tmp_path: Path, sound: torch.Tensor, rate: int, named: str) -> None:
    """The message has what came and what is expected; nothing is taken, and the right sound still is."""
    with open_sink(spec_of(tmp_path, SUFFIXES[0])) as sink:
        with pytest.raises(BadSound, match=named):
            sink.write_sound(sound, rate)
        sink.write_sound(sweep(RATE, 1, 0.1), RATE)
        with pytest.raises(BadSound, match="given twice"):
            sink.write_sound(sweep(RATE, 1, 0.1), RATE)
        sink.write(CLIP)
    assert sink.close().audio == AudioSpec(RATE, 1)
    with pytest.raises(SinkClosed):
        sink.write_sound(sound, rate)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_sound_that_was_not_announced_is_refused(tmp_path: Path, suffix: str) -> None:
    """A silent file stays one."""
    with open_sink(describe(tmp_path / f"clip{suffix}", CLIP)) as sink:
        with pytest.raises(BadSound, match="none was announced"):
            sink.write_sound(sweep(RATE, 1, 0.1), RATE)
        sink.write(CLIP)
    assert sink.close().audio is None


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("audio", "named"),
    [
        (AudioSpec(RATE, 3), "3 channels given, 1 or 2"),
        (AudioSpec(RATE, 0), "0 channels given"),
        (AudioSpec(192_001, 1), "a rate of 192001 given, 4000 to 192000"),
        (AudioSpec(3_999, 1), "a rate of 3999 given"),
    ],
)
def test_sound_that_no_file_holds_is_refused_at_once(
    tmp_path: Path, suffix: str, audio: AudioSpec, named: str
) -> None:
    """Before anything is made, by the probe and when the sink is opened."""
    spec = describe(tmp_path / f"clip{suffix}", CLIP, audio=audio)
    for refused in (try_spec, open_sink):
        with pytest.raises(InvalidSpec, match=named):
            refused(spec)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_abort_with_sound_leaves_nothing(tmp_path: Path, suffix: str) -> None:
    """With nothing, with the sound alone, with pictures that wait for it, with both."""

    def make_busy(given: int) -> Sink:
        sink = open_sink(spec_of(tmp_path, suffix))
        if given & 1:
            sink.write_sound(sweep(RATE, 1, 0.3), RATE)
        if given & 2:
            sink.write(CLIP)
        return sink

    for given in range(4):
        assert_abort_is_quick(tmp_path, partial(make_busy, given))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_sound_may_be_overwritten_after_the_write(tmp_path: Path, dtype: torch.dtype) -> None:
    """The producer's buffer is its own again as soon as `write_sound` returns, of whatever type it is."""
    sound = sweep(RATE, 1, 0.4).to(dtype)
    with open_sink(spec_of(tmp_path, ".pt")) as sink:
        sink.write(CLIP)
        wanted = sound.float()
        sink.write_sound(sound.requires_grad_(), RATE)
        with torch.no_grad():
            sound.fill_(float("nan"))
    held = torch.load(sink.close().path, weights_only=True)["audio"]
    assert torch.equal(held, wanted[:, : held.shape[1]].detach())
