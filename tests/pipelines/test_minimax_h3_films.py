"""Films among H3's references, where each is read and let go, and where a cancel is heard meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers.modular_pipelines.minimax_h3 import MiniMaxH3ImageReference, MiniMaxH3VideoReference
from PIL import Image

from pipelines import media
from pipelines.base import Reference, Stage
from pipelines.errors import Cancelled, InvalidParams
from pipelines.media import read_sound
from pipelines.minimax_h3.blocks import CONDITION, Run
from pipelines.minimax_h3.model import MiniMaxH3, load_minimax_h3
from pipelines.minimax_h3.processor import SEES_FILMS
from tests.pipelines.h3_models import RATE, Films, assert_same, config, make, params, theirs
from tests.pipelines.test_media import write as write_film
from tests.pipelines.tiny_models import Recorder, picture
from tests.server.films import film, store


@pytest.fixture(scope="module")
def model() -> MiniMaxH3:
    made = load_minimax_h3(config(), "cpu")
    if not SEES_FILMS:
        made._pipe.processor.video_processor = Films()
    return made


def moving(width: int, height: int, count: int = 40) -> np.ndarray:
    """Frames that differ, and are not even."""
    shape = (height, width, 3)
    return np.stack([np.linspace(n, n + 200, np.prod(shape)).reshape(shape) for n in range(count)]).astype(
        np.uint8
    )


@pytest.mark.parametrize("size", [(96, 64), (48, 144)], ids=str)
def test_a_film_with_its_sound_equals_diffusers(
    model: MiniMaxH3, tmp_path: Path, size: tuple[int, int]
) -> None:
    """Of 30 frames a second and 48 kHz, brought to 24 and 32 once, at the size that the model sees.

    The first has that size. The other is scaled to 64x160, which diffusers would scale again to 64x128.
    """
    frames = moving(*size)
    path = write_film(tmp_path / "film.mkv", frames, Fraction(30), tone_rate=48_000)
    still = picture(tmp_path / "still.png", 64, 64)
    ours = make(model, num_frames=17, references=(Reference("video", path), Reference("image", still)))
    reference = MiniMaxH3VideoReference(frames, 30.0, read_sound(path, RATE, 124 / 24), RATE)
    image = MiniMaxH3ImageReference(Image.open(still).convert("RGB"))
    whole, sound = theirs(model, params(model, num_frames=124), references=[reference, image])
    assert_same(ours, (whole[:, :17], sound))


async def test_a_film_is_read_as_the_server_stores_it(
    model: MiniMaxH3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An MP4 with AAC, by the door's own decoder: four seconds of 24 frames, and one of sound."""
    path = tmp_path / "film.mkv"
    await store("video", film(frames=40, audio="aac"), path, heard=1)
    seen: list[Any] = []
    plain = Run.run

    def run(run: Run, name: str) -> None:
        if name == CONDITION:
            seen.extend(run.get("normalized_references"))
            raise Cancelled("by the test")
        plain(run, name)

    monkeypatch.setattr(Run, "run", run)
    with pytest.raises(Cancelled):
        make(model, references=(Reference("video", path),))
    (made,) = seen
    assert made.frames.shape == (96, 64, 96, 3)  # of 64x48
    assert tuple(made.audio.shape) == (2, pytest.approx(RATE, abs=2048))
    assert made.frames[0, 32, 10, 0] > 200 > 50 > made.frames[0, 32, 10, 2]  # red on the left


def test_what_is_encoded_is_let_go(model: MiniMaxH3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When denoising begins no picture and no frame is held; whether there is a sound is still known."""
    seen: list[Any] = []

    def denoise(run: Run, *_: object) -> None:
        assert run.get("references") is None
        seen.extend(run.get("normalized_references"))
        raise Cancelled("by the test")

    monkeypatch.setattr(Run, "denoise", denoise)
    path = write_film(tmp_path / "film.mkv", moving(96, 64), Fraction(30), tone_rate=48_000)
    still = picture(tmp_path / "still.png", 64, 64)
    with pytest.raises(Cancelled):
        make(model, references=(Reference("video", path), Reference("image", still)))
    moved, image = seen
    assert (moved.frames, image.image) == (None, None)
    assert (moved.kind, moved.has_audio, image.kind) == ("video", True, "image")


class Stopped(Recorder):
    """Cancels with the first call after `stop`."""

    stopped = False

    def stop(self, *_: object) -> None:
        self.stopped = True

    def progress(self, stage: Stage, step: int, steps: int, cost: float | None = None) -> None:
        super().progress(stage, step, steps, cost)
        if self.stopped:
            raise Cancelled("by the test")


@contextmanager
def counted(module: torch.nn.Module, then: Callable[[], None]) -> Iterator[list[int]]:
    """The calls of `module`, after each of which `then` is called."""
    calls: list[int] = []

    def after(*_: object) -> None:
        calls.append(1)
        then()

    handle = module.register_forward_hook(after)
    try:
        yield calls
    finally:
        handle.remove()


def test_a_cancel_is_heard_while_a_film_is_read(
    model: MiniMaxH3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After eight pictures of the film at the latest; the conditioner is not called."""
    control, scaled, plain = Stopped(), [0], media._scaled

    def scale(*arguments: Any) -> Any:
        scaled[0] += 1
        control.stop()
        return plain(*arguments)

    monkeypatch.setattr(media, "_scaled", scale)
    path = write_film(tmp_path / "film.mkv", moving(96, 64), Fraction(24))
    reader = model._pipe.text_encoder.model.language_model
    with counted(reader, control.stop) as read, pytest.raises(Cancelled):
        list(model.generate(params(model, references=(Reference("video", path),)), control))
    assert (scaled, read) == ([8], [])


PLACES: dict[str, Callable[[Any], tuple[torch.nn.Module, torch.nn.Module]]] = {
    "eyes": lambda pipe: tuple(pipe.text_encoder.model.visual.blocks[:2]),
    "reader": lambda pipe: tuple(pipe.text_encoder.model.language_model.layers[:2]),
    "last layer": lambda pipe: (pipe.text_encoder.model.language_model, pipe.vae.encoder),
    "picture": lambda pipe: (pipe.vae.encoder, pipe.audio_vae.encoder),
}
"""A part of the work, and one that comes next or later."""


@pytest.mark.parametrize("place", PLACES)
def test_a_cancel_is_heard_within_and_between_the_blocks(
    model: MiniMaxH3, tmp_path: Path, place: str
) -> None:
    """Of a film with its sound: what was being done is done, and nothing after it."""
    doing, later = PLACES[place](model._pipe)
    path = write_film(tmp_path / "film.mkv", moving(96, 64), Fraction(24), tone_rate=48_000)
    control = Stopped()
    wanted = params(model, references=(Reference("video", path),))
    with (
        counted(doing, control.stop) as done,
        counted(later, control.stop) as begun,
        pytest.raises(Cancelled),
    ):
        list(model.generate(wanted, control))
    assert (done, begun) == ([1], [])


def test_a_cancel_is_heard_before_a_reference_is_read(model: MiniMaxH3, tmp_path: Path) -> None:
    """Its file is not even there."""
    control = Stopped()
    control.stop()
    missing = Reference("video", tmp_path / "missing.mkv")
    with pytest.raises(Cancelled):
        list(model.generate(params(model, references=(missing,)), control))


@pytest.mark.parametrize("given", [False, True])
def test_only_references_are_blamed_for_what_the_blocks_refuse(
    model: MiniMaxH3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: bool
) -> None:
    """A request that has none hears nothing about them: what is wrong is ours."""

    def refuse(*_: object, **__: object) -> None:
        raise ValueError("no such length")

    monkeypatch.setattr(model._pipe.text_encoder.model.language_model, "forward", refuse)
    references = (Reference("image", picture(tmp_path / "still.png", 64, 64)),) if given else ()
    with pytest.raises(InvalidParams if given else ValueError, match="no such length") as caught:
        make(model, references=references)
    assert isinstance(caught.value, InvalidParams) == given
