"""Our walk through H3's blocks against diffusers' own, and what a request may change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers.modular_pipelines.minimax_h3 import MiniMaxH3AudioReference, MiniMaxH3ImageReference
from diffusers.modular_pipelines.minimax_h3.encoders import get_qwen3vl_prompt_embeds
from PIL import Image
from transformers import Qwen3VLForConditionalGeneration

from pipelines.base import Chunk, GenerationParams, Grid, Reference, Sound
from pipelines.errors import BadOutput, Cancelled, InvalidParams
from pipelines.minimax_h3.decode import clips
from pipelines.minimax_h3.model import MiniMaxH3, load_minimax_h3
from pipelines.reference_work import ReferenceWork
from tests.pipelines.h3_models import CHECKPOINT, RATE, assert_same, config, make, params, theirs, write_sound
from tests.pipelines.tiny_models import Recorder, picture


@pytest.fixture(scope="module")
def model() -> MiniMaxH3:
    return load_minimax_h3(config(), "cpu")


@contextmanager
def broken(weight: torch.Tensor) -> Iterator[None]:
    kept = weight.data.clone()
    weight.data.fill_(torch.nan)
    try:
        yield
    finally:
        weight.data.copy_(kept)


def test_text_equals_diffusers(model: MiniMaxH3) -> None:
    """t2va: pictures and sound of `MiniMaxH3ModularPipeline`, from the same noise."""
    assert_same(make(model), theirs(model, params(model)))


@pytest.mark.parametrize("given", [("image",), ("last_image",), ("image", "last_image")], ids="+".join)
def test_first_and_last_pictures_equal_diffusers(
    model: MiniMaxH3, tmp_path: Path, given: tuple[str, ...]
) -> None:
    """fl2va, with each picture alone and both; they are on the grid, so that nothing is scaled."""
    paths = {name: picture(tmp_path / f"{name}.png", 64, 32, turned=name == "image") for name in given}
    pictures = {name: Image.open(path).convert("RGB") for name, path in paths.items()}
    assert_same(make(model, **paths), theirs(model, params(model), **pictures))


def test_references_equal_diffusers(model: MiniMaxH3, tmp_path: Path) -> None:
    """ref2va by its own transformer: two pictures, and a sound between them that is as the model has it."""
    one, two = picture(tmp_path / "1.png", 96, 64), picture(tmp_path / "2.png", 64, 64, turned=True)
    sound = write_sound(tmp_path / "3.wav", 0.5, RATE)
    ours = make(
        model,
        references=(Reference("image", one), Reference("audio", sound), Reference("image", two)),
    )
    samples = torch.from_numpy(np.sin(np.arange(RATE // 2) / 20).astype(np.float32))[None]
    images = [MiniMaxH3ImageReference(Image.open(path).convert("RGB")) for path in (one, two)]
    references = [images[0], MiniMaxH3AudioReference(samples, RATE), images[1]]
    assert_same(ours, theirs(model, params(model), references=references))


def test_the_conditioner_is_no_longer_than_it_must_be(model: MiniMaxH3) -> None:
    """Without the layers that nobody reads it says the same."""
    pipe = model._pipe
    whole = Qwen3VLForConditionalGeneration.from_pretrained(CHECKPOINT / "text_encoder", dtype=torch.float32)
    short = pipe.text_encoder
    assert (len(whole.model.language_model.layers), len(short.model.language_model.layers)) == (52, 51)
    tokens = pipe.tokenizer("a red circle", add_special_tokens=False)["input_ids"]
    with torch.inference_mode():
        said, expected = (
            get_qwen3vl_prompt_embeds(each, pipe.processor, tokens, dtype=torch.float32)
            for each in (short, whole)
        )
    assert torch.equal(said, expected)


def test_the_conditioner_keeps_the_state_that_is_read_and_no_other(model: MiniMaxH3, tmp_path: Path) -> None:
    """Of the 52 that the blocks ask for, also where there are pictures: the same bits as from all of them."""
    states: list[tuple[torch.Tensor | None, ...]] = []
    pipe, whole = model._pipe, CHECKPOINT / "text_encoder"
    every = Qwen3VLForConditionalGeneration.from_pretrained(whole, dtype=torch.float32)
    calls: list[dict[str, Any]] = []

    def before(_module: object, _inputs: object, named: dict[str, Any]) -> None:
        calls.append(named)

    def after(_module: object, _inputs: object, output: Any) -> None:
        states.append(output.hidden_states)

    handles = (
        pipe.text_encoder.model.register_forward_pre_hook(before, with_kwargs=True),
        pipe.text_encoder.model.register_forward_hook(after),
    )
    try:
        make(model, num_frames=17, image=picture(tmp_path / "first.png", 64, 32))
    finally:
        for handle in handles:
            handle.remove()
    (kept,), (call,) = states, calls
    assert [index for index, state in enumerate(kept) if state is not None] == [50]
    with torch.inference_mode():
        told = every.model(**{**call, "output_hidden_states": True}).hidden_states
    assert len(told) == 53
    assert kept[50] is not None
    assert torch.equal(kept[50], told[50])


def test_the_order_of_references_matters(model: MiniMaxH3, tmp_path: Path) -> None:
    """The same two pictures, exchanged: another video."""
    one, two = (
        Reference("image", picture(tmp_path / f"{turned}.png", 64, 64, turned=turned))
        for turned in (False, True)
    )
    assert not torch.allclose(make(model, references=(one, two))[0], make(model, references=(two, one))[0])


def test_a_reference_of_a_strange_shape_is_refused(model: MiniMaxH3, tmp_path: Path) -> None:
    """In diffusers' words, which name the limits and the size."""
    long = Reference("image", picture(tmp_path / "1.png", 320, 64))
    with pytest.raises(InvalidParams, match=r"1:4 and 4:1, got 320x64") as caught:
        make(model, references=(long,))
    assert caught.value.field == "references"


@pytest.mark.parametrize("clips_wanted", [1, 3])
def test_clip_by_clip_equals_the_whole_decode(model: MiniMaxH3, clips_wanted: int) -> None:
    """Every bit of `AutoencoderKLMiniMaxH3.decode`, in stretches that are each given once."""
    vae = model._pipe.vae
    latents = torch.randn(1, 8, 5 * clips_wanted + 2, 4, 2, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        whole = vae.decode(latents).sample
        parts = list(clips(vae, latents))
    assert [part.shape[2] for part in parts] == [17] * clips_wanted + [5]
    assert torch.equal(torch.cat(parts, dim=2), whole)


def test_no_clip_is_decoded_that_is_not_wanted(model: MiniMaxH3) -> None:
    """Of the 124 frames that the model must make, 20 are wanted: two clips of seven."""
    calls: list[int] = []
    handle = model._pipe.vae.decoder.register_forward_hook(lambda *_: calls.append(1))
    try:
        frames, _ = make(model, num_frames=20, width=60, height=28)
    finally:
        handle.remove()
    assert frames.shape == (3, 20, 28, 60)
    assert len(calls) == 2


def test_off_the_grid_is_the_middle_of_the_grid(model: MiniMaxH3) -> None:
    """The trimmed video is the centre of the one on the grid, and its first frames; the sound is the same."""
    whole, part = make(model), make(model, width=60, height=28, num_frames=100)
    assert torch.equal(part[0], whole[0][:, :100, 2:30, 2:62])
    assert torch.equal(part[1], whole[1])


@pytest.mark.parametrize("frames", [100, 124])
@pytest.mark.parametrize("first", [False, True])
def test_the_last_picture_moves_with_the_last_frame(
    model: MiniMaxH3, tmp_path: Path, frames: int, first: bool
) -> None:
    """Its place in time is that of the last frame that stays; the first picture's is the start, as ever.

    A clip of 17 frames takes 17 · 5/3 units of time, and its first latent frame stands for one of them.
    """
    names = ("image", "last_image") if first else ("last_image",)
    given = {name: picture(tmp_path / f"{name}.png", 64, 32) for name in names}
    seen: list[dict[str, Any]] = []
    handle = model._pipe.transformer.register_forward_pre_hook(
        lambda _module, _inputs, named: seen.append(named), with_kwargs=True
    )
    try:
        make(model, num_frames=frames, **given)
    finally:
        handle.remove()
    times = seen[0]["position_ids"][seen[0]["video_indices"], 0].reshape(-1, 2)  # two rows a latent frame
    conditions, generated = times[: len(names), 0], times[len(names) :, 0]
    assert conditions[-1] == pytest.approx(float(generated[0]) + (frames - 1) * 5 / 3)
    assert conditions[0] == pytest.approx(float(generated[0])) or not first
    assert float(generated[-1]) == pytest.approx(float(generated[0]) + (7 * 17 + 1) * 5 / 3)


def test_sound_comes_first_and_lasts_as_long_as_the_grid(model: MiniMaxH3) -> None:
    """One for each output, before its pictures; the encoder cuts it to the frames asked for."""
    parts = list(model.generate(params(model, num_outputs=2, num_frames=17), Recorder()))
    assert [(type(part), part.output) for part in parts] == [(Sound, 0), (Chunk, 0), (Sound, 1), (Chunk, 1)]
    sound = parts[0]
    assert isinstance(sound, Sound)
    assert sound.sample_rate == RATE
    assert sound.samples.shape[0] == 2
    assert abs(sound.samples.shape[1] / RATE - 124 / 24) < 1 / 24
    assert float(sound.samples.abs().max()) <= 1


def test_several_outputs_start_with_the_single_one(model: MiniMaxH3) -> None:
    """The first of two is what one request makes; the second is another."""
    first, second = (
        torch.cat([part.frames for part in parts if isinstance(part, Chunk)], dim=1)
        for parts in _by_output(model, params(model, num_outputs=2, num_frames=17))
    )
    assert torch.equal(first, make(model, num_frames=17)[0])
    assert not torch.allclose(first, second)


def _by_output(model: MiniMaxH3, wanted: GenerationParams) -> list[list[Chunk | Sound]]:
    parts = list(model.generate(wanted, Recorder()))
    return [[part for part in parts if part.output == output] for output in range(wanted.num_outputs)]


def test_every_parameter_changes_the_video_and_none_stays(model: MiniMaxH3) -> None:
    """One parameter after the other is another, each time another video; then none, and it is the first."""
    changes: tuple[dict[str, object], ...] = (
        {},
        {"seed": 0},
        {"prompt": "a blue square"},
        {"flow_shift": 3.0},
        {"num_inference_steps": 3},
    )
    videos = [make(model, num_frames=17, **change) for change in changes]
    for one, other in combinations(videos, 2):
        assert not torch.equal(one[0], other[0])
        assert not torch.equal(one[1], other[1])
    assert torch.equal(make(model, num_frames=17)[0], videos[0][0])


def test_a_fixed_latent_takes_the_place_of_the_noise(model: MiniMaxH3, tmp_path: Path) -> None:
    """The file decides, as diffusers' `latents` do; one of another shape is refused before any work."""
    noise = torch.randn(1, 8, 37, 2, 4, generator=torch.Generator().manual_seed(3))
    torch.save(noise, tmp_path / "noise.pt")
    ours = make(model, latents=tmp_path / "noise.pt")
    assert_same(ours, theirs(model, params(model), latents=noise))
    control = Recorder()
    with pytest.raises(InvalidParams, match=r"\(1, 8, 37, 2, 4\).*\(1, 8, 42, 2, 4\)"):
        list(model.generate(params(model, latents=tmp_path / "noise.pt", num_frames=125), control))
    assert control.calls == []


@pytest.mark.parametrize("place", ["<|image_pad|>", "<|video_pad|>"])
def test_a_prompt_cannot_hold_the_place_of_a_picture(model: MiniMaxH3, tmp_path: Path, place: str) -> None:
    """The conditioner would look for one picture more than there is."""
    image = picture(tmp_path / "first.png", 64, 32)
    with pytest.raises(InvalidParams, match=r"prompt: .* is not allowed") as caught:
        make(model, prompt=f"a dog {place}", image=image)
    assert caught.value.field == "prompt"


def test_numbers_that_are_not_finite_are_no_video(model: MiniMaxH3) -> None:
    """NaN from the model ends in an error, not in a black picture."""
    with broken(model._pipe.transformer.proj_out.bias), pytest.raises(BadOutput, match="NaN"):
        make(model)


@pytest.mark.parametrize(
    "moment", [("prompt", 1), ("image", 1), ("denoise", 0), ("denoise", 1), ("decode", 0), ("decode", 17)]
)
def test_a_cancel_is_heard_at_every_step_and_chunk(model: MiniMaxH3, tmp_path: Path, moment: Any) -> None:
    """No step and no chunk follows the call that was answered with a cancel."""
    control = Recorder(cancel_at=moment)
    image = picture(tmp_path / "first.png", 64, 32)
    with pytest.raises(Cancelled):
        list(model.generate(params(model, image=image), control))
    assert control.calls[-1][:2] == moment


def test_progress_is_told_for_each_step_and_chunk(model: MiniMaxH3) -> None:
    """Two steps are two calls of the transformer; frames are told as they are finished."""
    calls: list[int] = []
    handle = model._pipe.transformer.register_forward_hook(lambda *_: calls.append(1))
    control = Recorder()
    try:
        list(model.generate(params(model, num_frames=40), control))
    finally:
        handle.remove()
    assert len(calls) == 2
    assert [call for call in control.calls if call[0] == "denoise"] == [("denoise", n, 2) for n in range(3)]
    decoded = [call for call in control.calls if call[0] == "decode"]
    assert decoded == [("decode", n, 40) for n in (0, 17, 34, 40)]


def test_what_a_loaded_model_says_of_itself(model: MiniMaxH3) -> None:
    """Pictures, references, sound, grid, and which fields have no meaning."""
    info = model.info
    assert (info.image, info.last_image, info.last_image_alone) == ("optional", True, True)
    assert info.grid == Grid(17, 32, offset=5, least_frames=120, fps=Fraction(24))
    assert (info.grid.frames(1), info.grid.frames(345)) == (124, 345)
    assert info.sound is not None
    assert (info.sound.sample_rate, info.sound.channels) == (RATE, 2)
    assert {"guidance_scale", "negative_prompt", "boundary_ratio"} <= set(info.unused)
    assert info.references is not None
    assert (info.references.images, info.references.audios, info.references.total) == (9, 3, 12)
    assert info.references.max_aspect == 4
    assert info.references.work == ReferenceWork(64, 17 / 5, 64, 64 * 128)
    assert set(info.reserved) == {"<|image_pad|>", "<|video_pad|>"}
