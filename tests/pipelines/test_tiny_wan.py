"""The random checkpoints: loaded by diffusers' own loaders, run by diffusers' own pipelines."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import av
import numpy as np
import pytest
import torch
from diffusers import DiffusionPipeline, UniPCMultistepScheduler, WanImageToVideoPipeline, WanPipeline
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import load_file
from transformers import AutoTokenizer

from pipelines.tiny_wan.make import make
from tests.pipelines.tiny_models import TINY

Video = NDArray[np.float32]
"""(T, H, W, 3) in [-1, 1]."""
CLASSES = {"t2v": WanPipeline, "i2v": WanImageToVideoPipeline, "ti2v": WanPipeline}
SHIFTS = {"t2v": 12.0, "i2v": 5.0, "ti2v": 5.0}
PROMPT = "a red circle moves right"
VISIBLE = 0.01  # root mean square of a difference, of 2 from black to white


@pytest.fixture(autouse=True, scope="module")
def no_network() -> Iterator[None]:
    """Loading and running must not open a connection."""

    def refuse(*_: object) -> None:
        raise AssertionError("a connection was opened")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        yield


@cache
def loaded(task: str) -> Any:
    pipe = DiffusionPipeline.from_pretrained(TINY / task, dtype=torch.float32)
    pipe.scheduler = UniPCMultistepScheduler.from_config(pipe.scheduler.config, flow_shift=SHIFTS[task])
    pipe.set_progress_bar_config(disable=True)
    return pipe


def photo(colour: str) -> Image.Image:
    image = Image.new("RGB", (96, 64), "white")
    image.paste(colour, (24, 12, 72, 52))
    return image


@cache
def run(task: str, *, colour: str = "red", seed: int = 0, steps: int = 2, **changes: Any) -> Video:
    options: dict[str, Any] = {"prompt": PROMPT, "negative_prompt": "blurry", "guidance_scale": 4.0}
    options |= {"width": 96, "height": 64, "num_frames": 5, "max_sequence_length": 64}
    if task == "i2v":
        options["image"] = photo(colour)
    with torch.inference_mode():
        video = loaded(task)(
            **(options | changes),
            generator=torch.Generator().manual_seed(seed),
            num_inference_steps=steps,
            output_type="np",
        ).frames[0]
    return np.asarray(video * 2 - 1, dtype=np.float32)


def distance(one: Video, other: Video) -> float:
    return float(np.sqrt(np.mean((one - other) ** 2)))


def psnr_through_h264(video: Video) -> float:
    """dB between 8-bit RGB frames and what libx264 at crf 18 in 4:2:0 makes of them."""
    pixels = np.round((video + 1) * 127.5).astype(np.uint8)
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=16, options={"crf": "18", "preset": "veryfast"})
        stream.height, stream.width = pixels.shape[1:3]
        stream.pix_fmt = "yuv420p"
        for frame in pixels:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    file.seek(0)
    with av.open(file, "r") as made:
        decoded = np.stack([frame.to_ndarray(format="rgb24") for frame in made.decode(video=0)])
    return float(10 * np.log10(255**2 / np.mean((decoded.astype(np.float64) - pixels) ** 2)))


@pytest.mark.parametrize("task", CLASSES)
def test_loads_by_its_own_class_and_by_the_generic_one(task: str) -> None:
    """`DiffusionPipeline` finds the class that the folder names, and that class loads it as well."""
    assert type(loaded(task)) is CLASSES[task]
    assert type(CLASSES[task].from_pretrained(TINY / task)) is CLASSES[task]


@pytest.mark.parametrize(
    ("task", "boundary", "expand", "experts", "channels", "z_dim", "scale"),
    [
        ("t2v", 0.875, False, 2, 16, 16, 8),
        ("i2v", 0.9, False, 2, 36, 16, 8),
        ("ti2v", None, True, 1, 48, 48, 16),
    ],
)
def test_layout_is_that_of_the_real_checkpoint(
    task: str, boundary: float | None, expand: bool, experts: int, channels: int, z_dim: int, scale: int
) -> None:
    """Experts, channels, latent size and stage boundary are those of the Wan 2.2 repositories."""
    pipe = loaded(task)
    assert pipe.config.boundary_ratio == boundary
    assert pipe.config.expand_timesteps is expand
    assert [pipe.transformer, pipe.transformer_2].count(None) == 2 - experts
    assert pipe.transformer.config.in_channels == channels
    assert pipe.vae.config.z_dim == pipe.transformer.config.out_channels == z_dim
    assert len(pipe.vae.config.latents_mean) == len(pipe.vae.config.latents_std) == z_dim
    assert pipe.vae.config.scale_factor_spatial == scale
    assert pipe.scheduler.config.prediction_type == "flow_prediction"
    assert pipe.scheduler.config.use_flow_sigmas is True


@pytest.mark.parametrize("task", CLASSES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_component_loads_in_the_asked_type(task: str, dtype: torch.dtype) -> None:
    """Weights come as asked for, but for the layers that diffusers keeps in float32."""
    pipe = DiffusionPipeline.from_pretrained(TINY / task, dtype=dtype)
    for part in (pipe.text_encoder, pipe.vae, pipe.transformer):
        assert part.dtype == dtype
        assert {weight.dtype for weight in part.parameters()} <= {dtype, torch.float32}


@pytest.mark.parametrize("task", CLASSES)
def test_two_steps_make_a_finite_video_of_the_asked_size(task: str) -> None:
    """Five frames of 96 × 64 pixels, every value a number."""
    video = run(task)
    assert video.shape == (5, 64, 96, 3)
    assert np.isfinite(video).all()


@pytest.mark.parametrize("task", CLASSES)
@pytest.mark.parametrize(
    "change",
    [
        {"prompt": "a blue square in the snow"},
        {"prompt": "一只猫在跑"},
        {"seed": 1},
        {"guidance_scale": 1.0},
        {"guidance_scale": 6.0},
        {"negative_prompt": "dark"},
        {"steps": 3},
    ],
    ids=str,
)
def test_every_parameter_is_visible(task: str, change: dict[str, Any]) -> None:
    """Another prompt, seed, guidance, negative prompt or number of steps: visibly another video."""
    assert distance(run(task), run(task, **change)) > VISIBLE


def test_the_same_parameters_give_the_same_video() -> None:
    """Nothing is left of one call in the next."""
    assert np.array_equal(run("t2v"), run.__wrapped__("t2v"))


def test_the_image_is_visible() -> None:
    """A video from another image is another one."""
    assert distance(run("i2v"), run("i2v", colour="blue")) > VISIBLE


@pytest.mark.parametrize("task", ["t2v", "i2v"])
def test_both_experts_take_part(task: str) -> None:
    """The guidance of the low-noise expert alone changes the video, and so does that of the other."""
    both, low = run(task, steps=8), run(task, steps=8, guidance_scale_2=8.0)
    high = run(task, steps=8, guidance_scale=8.0, guidance_scale_2=4.0)
    assert min(distance(both, low), distance(both, high), distance(low, high)) > VISIBLE


@pytest.mark.parametrize("task", CLASSES)
def test_pictures_move_are_moderate_and_survive_a_codec(task: str) -> None:
    """Frames differ, keep away from black and white, and pass H.264 with more than 38 dB."""
    video = run(task, steps=8, width=160, height=96, num_frames=17)
    assert np.abs(np.diff(video, axis=0)).mean(axis=(1, 2, 3)).min() > VISIBLE
    assert 0.2 < video.std() < 0.6
    assert np.mean(np.abs(video) > 0.999) < 0.05
    assert psnr_through_h264(video) > 38


@pytest.mark.parametrize("task", CLASSES)
def test_strong_guidance_over_many_steps_stays_bounded(task: str) -> None:
    """Guidance 20 over 40 steps: finite, and still a picture rather than one colour."""
    video = run(task, steps=40, guidance_scale=20.0)
    assert np.isfinite(video).all()
    assert np.mean(np.abs(video) > 0.999) < 0.3
    assert video.std(axis=(1, 2)).mean() > VISIBLE


@pytest.fixture(scope="module")
def tokenizer() -> Callable[..., Any]:
    loader: Any = AutoTokenizer
    found: Callable[..., Any] = loader.from_pretrained(TINY / "t2v" / "tokenizer")
    return found


# "▁" is a space inside, and "<" begins the names of special tokens.
PLAIN_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="▁<"), max_size=40)


@settings(deadline=None)
@given(text=PLAIN_TEXT)
def test_any_text_survives_the_tokenizer(tokenizer: Any, text: str) -> None:
    """Text of any script comes back from its ids, so different prompts have different ids."""
    ids = tokenizer(text).input_ids
    assert ids[-1] == 1
    assert 2 not in ids
    assert tokenizer.decode(ids[:-1], clean_up_tokenization_spaces=False) == text.removeprefix(" ")


def test_prompts_are_padded_and_cut_as_the_text_encoder_expects(tokenizer: Any) -> None:
    """Padding is 0 and masked, the end of sequence is 1 even on a cut prompt, 512 ids are the most."""
    batch = tokenizer(["a", "the cat " * 1000], padding="max_length", truncation=True)
    short, long = batch.input_ids
    assert len(short) == len(long) == 512
    assert short[1:] == [1, *[0] * 510]
    assert sum(batch.attention_mask[0]) == 2
    assert long[-1] == 1
    assert max(long) < loaded("t2v").text_encoder.config.vocab_size


def test_the_script_makes_what_is_shipped(tmp_path: Any) -> None:
    """`make` writes the shipped files again: the same tensors, the same configuration.

    Another release of transformers may write further keys; what both write must agree.
    """
    make(tmp_path)
    made = {path.relative_to(tmp_path) for path in tmp_path.rglob("*.*") if path.is_file()}
    shipped = {p.relative_to(TINY) for t in CLASSES for p in (TINY / t).rglob("*.*") if p.is_file()}
    assert made == shipped
    for path in made:
        if path.suffix == ".safetensors":
            assert_same_tensors(load_file(tmp_path / path), load_file(TINY / path))
        else:
            ours, theirs = configuration(tmp_path / path), configuration(TINY / path)
            both = ours.keys() & theirs.keys()
            assert {key: ours[key] for key in both} == {key: theirs[key] for key in both}


def assert_same_tensors(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name], rtol=0, atol=0, msg=name)


def configuration(path: Any) -> dict[str, Any]:
    """A JSON file but for the versions of the libraries that wrote it."""
    content: dict[str, Any] = json.loads(path.read_text())
    return {name: value for name, value in content.items() if not name.endswith("_version")}


def test_the_checkpoints_are_small_and_packaged() -> None:
    """At most 6 MB in all, in files that the package's data patterns name."""
    files = [path for task in CLASSES for path in (TINY / task).rglob("*.*") if path.is_file()]
    assert {path.suffix for path in files} == {".json", ".safetensors"}
    assert sum(path.stat().st_size for path in files) < 6_000_000
