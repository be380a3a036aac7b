"""Sounds and films at a model's rate, by diffusers' own rule for frames."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from diffusers.modular_pipelines.minimax_h3.before_encoder import MiniMaxH3Ref2VASetupStep
from diffusers.modular_pipelines.minimax_h3.encoders import MiniMaxH3Ref2VATextEncoderStep

from pipelines.media import read_film, read_sound
from pipelines.minimax_h3.references import shortest_film

RATE = 32_000
SIDE = 32


def write(path: Path, frames: np.ndarray, fps: Fraction, *, tone_rate: int | None = None) -> Path:
    """A film as the server stores it: FFV1 in Matroska, with a tone at `tone_rate` if it is given."""
    with av.open(str(path), "w", format="matroska") as container:
        stream = container.add_stream("ffv1", rate=fps)
        stream.width, stream.height, stream.pix_fmt = frames.shape[2], frames.shape[1], "bgr0"
        heard = (
            None if tone_rate is None else container.add_stream("pcm_f32le", rate=tone_rate, layout="mono")
        )
        for picture in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24")))
        container.mux(stream.encode(None))
        if heard is not None and tone_rate is not None:
            frame = av.AudioFrame.from_ndarray(tone(tone_rate, len(frames) / fps), "flt", "mono")
            frame.sample_rate = tone_rate
            container.mux(heard.encode(frame))
            container.mux(heard.encode(None))
    return path


def tone(rate: int, seconds: Fraction) -> np.ndarray:
    """440 Hz at half of full scale."""
    return (0.5 * np.sin(2 * np.pi * 440 * np.arange(int(seconds * rate)) / rate)).astype(np.float32)[None]


def numbered(count: int) -> np.ndarray:
    """Frames that are all of another grey."""
    return np.stack([np.full((SIDE, SIDE, 3), 5 * number, np.uint8) for number in range(count)])


@pytest.mark.parametrize(
    "fps",
    [Fraction(24), Fraction(10), Fraction(30), Fraction(48), Fraction(60), Fraction(30000, 1001)],
    ids=str,
)
@pytest.mark.parametrize("most", [9, 124])
def test_frames_are_held_and_dropped_as_diffusers_does_it(tmp_path: Path, fps: Fraction, most: int) -> None:
    """At 24 frames a second nothing changes; slower films repeat frames, faster ones lose some.

    At 48 every second frame lies on a half, which the file's milliseconds would round up or down.
    """
    frames = numbered(50)
    expected = MiniMaxH3Ref2VASetupStep._normalize_video_condition(
        frames, float(fps), most, SIDE, SIDE, SIDE * SIDE, 24.0
    )
    found = read_film(write(tmp_path / "film.mkv", frames, fps), 24, most, (SIDE, SIDE), lambda: None)
    assert np.array_equal(found, expected)


def test_frames_are_scaled_as_diffusers_does_it(tmp_path: Path) -> None:
    """Every bit of the frames that it scales all at once."""
    frames = np.random.default_rng(0).integers(0, 256, (5, 54, 96, 3), np.uint8)
    expected = MiniMaxH3Ref2VASetupStep._normalize_video_condition(frames, 10, 9, 32, 64, 64 * 128, 24.0)
    assert expected.shape == (9, 64, 128, 3)
    path = write(tmp_path / "film.mkv", frames, Fraction(10))
    assert np.array_equal(read_film(path, 24, 9, (128, 64), lambda: None), expected)


def test_frames_that_are_dropped_are_not_converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 60 frames a second 24 are shown; none is converted more than once."""
    converted: list[av.VideoFrame] = []

    def scaled(picture: av.VideoFrame, size: tuple[int, int]) -> np.ndarray:
        converted.append(picture)
        return np.zeros((size[1], size[0], 3), np.uint8)

    monkeypatch.setattr("pipelines.media._scaled", scaled)
    path = write(tmp_path / "film.mkv", numbered(50), Fraction(60))
    assert len(read_film(path, 24, 124, (SIDE, SIDE), lambda: None)) == len(converted) == 20


def test_a_film_that_is_long_enough_is_read() -> None:
    """Here by diffusers' own rule: as many frames as the conditioner merges, at its own rate."""
    sample = MiniMaxH3Ref2VATextEncoderStep._sample_video_condition_frames
    for patch, frames in ((2, 13), (3, 25)):
        with pytest.raises(ValueError, match=f"at least {frames} frames"):
            sample(np.zeros((frames - 1, 1, 1, 3)), 24.0, 2.0, patch)
        sample(np.zeros((frames, 1, 1, 3)), 24.0, 2.0, patch)
        least = shortest_film(24, 2.0, patch)
        assert (round(least * 24 + 0.01), round(least * 24 - 0.01)) == (frames, frames - 1)


def test_a_films_sound_is_brought_to_the_rate(tmp_path: Path) -> None:
    """The tone stays the tone: of another rate, as loud, and cut where it is told."""
    path = write(tmp_path / "film.mkv", numbered(20), Fraction(10), tone_rate=48_000)
    sound = read_sound(path, RATE, 1.5)
    assert sound is not None
    assert tuple(sound.shape) == (1, round(1.5 * RATE))
    middle = slice(1000, -1000)
    assert np.abs(sound.numpy()[:, middle] - tone(RATE, Fraction(3, 2))[:, middle]).max() < 0.01


def test_a_silent_film_has_no_sound(tmp_path: Path) -> None:
    """None, not silence: it says nothing about how the video is to sound."""
    assert read_sound(write(tmp_path / "film.mkv", numbered(3), Fraction(10)), RATE, 1) is None
