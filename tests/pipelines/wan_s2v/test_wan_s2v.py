"""The shipped speech-to-video model: clips, sound, and every parameter."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from pipelines import registry
from pipelines.base import Chunk, Grid, Sound, SoundFormat
from pipelines.errors import Cancelled, InvalidParams, LoadFailed
from pipelines.latents import draw
from pipelines.tiny_wan.make_s2v import make
from pipelines.wan_s2v.clips import ClipPlan
from pipelines.wan_s2v.load import load_wan_s2v
from pipelines.wan_s2v.speech import WanS2V
from tests.pipelines.tiny_models import TINY, Recorder, params_for, picture, tiny_config
from tests.pipelines.wan_s2v.s2v_models import ffv1, wav

VISIBLE = 0.005
"""Root mean square of a difference, of 2 from black to white."""


@pytest.fixture(scope="module")
def model() -> Any:
    return registry.load(
        tiny_config("s2v", kind="wan-s2v", height=64, num_frames=13, num_inference_steps=2), "cpu"
    )


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A picture, and two seconds of a tone that comes and goes."""
    folder = tmp_path_factory.mktemp("given")
    times = torch.arange(96_000) / 48_000
    tone = torch.sin(440 * 2 * torch.pi * times) * torch.sin(5 * times) ** 2
    return {"image": picture(folder / "picture.png", 64, 64), "audio": wav(folder / "sound.wav", tone[None])}


def video(model: WanS2V, given: dict[str, Any], output: int = 0, **changes: Any) -> torch.Tensor:
    parts = list(model.generate(params_for(model, **(given | changes)), Recorder()))
    return torch.cat([p.frames for p in parts if isinstance(p, Chunk) and p.output == output], dim=1)


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).square().mean().sqrt())


@pytest.fixture(scope="module")
def plain(model: WanS2V, given: dict[str, Any]) -> torch.Tensor:
    return video(model, given)


def test_what_it_says_of_itself(model: WanS2V) -> None:
    """A picture and a sound in, a sound out, clips of 8 frames of which the first loses 3."""
    info = model.info
    assert (info.task, info.image, info.audio, info.video) == ("s2v", "required", "required", "optional")
    assert info.sound == SoundFormat(48_000, 2)
    assert info.grid == Grid(temporal=8, spatial=64, offset=5)


def test_three_clips_and_their_sound(model: WanS2V, given: dict[str, Any]) -> None:
    """The sound comes first, as long as the frames, and each clip before the next one is denoised."""
    seen: list[tuple[str, int]] = []

    class Noting(Recorder):
        def progress(self, stage: Any, step: int, steps: int, cost: float | None = None) -> None:
            seen.append((stage, step))

    parts = []
    for part in model.generate(params_for(model, **given, num_frames=20, width=60, height=50), Noting()):
        parts.append(part)
        seen.append(("given", 0))
    sound, *chunks = parts
    assert isinstance(sound, Sound)
    assert (sound.samples.shape, sound.sample_rate) == ((2, 60_000), 48_000)
    frames = [chunk.frames for chunk in chunks if isinstance(chunk, Chunk)]
    assert sum(each.shape[1] for each in frames) == 20
    assert {(each.shape[0], *each.shape[2:]) for each in frames} == {(3, 50, 60)}
    ends = [seen.index(("denoise", step)) for step in (2, 4, 6)]
    assert seen.index(("given", 0)) < ends[0]
    assert all(("given", 0) in seen[one:other] for one, other in pairwise(ends))


@pytest.mark.parametrize("change", ["sound", "prompt", "seed", "steps", "guidance", "fps", "first", "poses"])
def test_every_parameter_is_visible(
    change: str, model: WanS2V, given: dict[str, Any], plain: torch.Tensor, tmp_path: Path
) -> None:
    """Another sound, prompt, seed, …: visibly another video."""
    pixels = torch.zeros(20, 64, 64, 3, dtype=torch.uint8)
    pixels[:, 20:40] = 255
    options: dict[str, dict[str, Any]] = {
        "sound": {"audio": wav(tmp_path / "other.wav", given_noise())},
        "prompt": {"prompt": "a blue square in the snow"},
        "seed": {"seed": 8},
        "steps": {"num_inference_steps": 3},
        "guidance": {"guidance_scale": 1.0},
        "fps": {"fps": Fraction(10)},
        "first": {"init_first_frame": True},
        "poses": {"video": ffv1(tmp_path / "poses.mkv", pixels, 16)},
    }
    assert distance(plain, video(model, given, **options[change])) > VISIBLE


def given_noise() -> torch.Tensor:
    return 0.1 * torch.randn(2, 96_000, generator=torch.Generator().manual_seed(0))


def test_the_picture_is_visible(
    model: WanS2V, given: dict[str, Any], plain: torch.Tensor, tmp_path: Path
) -> None:
    turned = picture(tmp_path / "turned.png", 64, 64, turned=True)
    assert distance(plain, video(model, given, image=turned)) > VISIBLE


def test_shorter_is_the_beginning_of_longer(model: WanS2V, given: dict[str, Any], tmp_path: Path) -> None:
    """The last clip is cut: with all of the sound in both, 10 frames are the first of 13."""
    short = wav(tmp_path / "short.wav", given_noise()[:, : 48_000 * 10 // 16])
    longer, shorter = (video(model, given, audio=short, num_frames=frames) for frames in (13, 10))
    torch.testing.assert_close(longer[:, :10], shorter, rtol=0, atol=1e-6)


def test_two_outputs_are_two_videos(model: WanS2V, given: dict[str, Any]) -> None:
    """Each with its sound; the first is that of a request for one."""
    parts = list(model.generate(params_for(model, **given, num_frames=4, num_outputs=2), Recorder()))
    assert [part.output for part in parts if isinstance(part, Sound)] == [0, 1]
    assert [part.output for part in parts] == sorted(part.output for part in parts)
    first, second = (
        torch.cat([p.frames for p in parts if isinstance(p, Chunk) and p.output == n], dim=1) for n in (0, 1)
    )
    assert first.shape == second.shape == (3, 4, 64, 64)
    assert distance(first, second) > VISIBLE
    assert torch.equal(first, video(model, given, num_frames=4))


def test_a_file_holds_the_noise_of_all_clips(
    model: WanS2V, given: dict[str, Any], plain: torch.Tensor, tmp_path: Path
) -> None:
    """Clip after clip in time: what the seeds 7 and 8 would draw."""
    noise = torch.cat([next(draw(seed, 1, (16, 2, 8, 8))) for seed in (7, 8)], dim=2)
    save_file({"latents": noise}, tmp_path / "noise.safetensors")
    made = video(model, given, latents=tmp_path / "noise.safetensors", seed=0)
    assert torch.equal(made, plain)


@pytest.mark.parametrize(("stage", "done"), [("denoise", 3), ("decode", 6)])
def test_cancelled_in_the_second_clip_it_stops_there(
    stage: str, done: int, model: WanS2V, given: dict[str, Any]
) -> None:
    """No frame is given after that, and none of the second clip while it is denoised."""
    shown = 0

    class Cancelling(Recorder):
        def progress(self, at: Any, step: int, steps: int, cost: float | None = None) -> None:
            if at == stage and step >= done:
                raise Cancelled("by the test")

    def show(parts: Iterator[Chunk | Sound]) -> None:
        nonlocal shown
        for part in parts:
            shown += part.frames.shape[1] if isinstance(part, Chunk) else 0

    parts = model.generate(params_for(model, **given), Cancelling())
    with pytest.raises(Cancelled):
        show(parts)
    assert shown == 5 if stage == "denoise" else 5 < shown < 13
    assert next(parts, None) is None


def test_its_pictures_are_told_as_they_are_encoded(
    model: WanS2V, given: dict[str, Any], tmp_path: Path
) -> None:
    """The reference, and the poses of each clip: what is done of them grows to the whole."""
    poses = ffv1(tmp_path / "poses.mkv", torch.zeros(2, 64, 64, 3, dtype=torch.uint8), 16)
    control = Recorder()
    list(model.generate(params_for(model, **given, video=poses, num_inference_steps=1), control))
    count = model._plan(params_for(model, **given)).count
    encoded = [call[1:] for call in control.calls if call[0] == "image"]
    assert {done for done, total in encoded if total == 1 + count} == set(range(1 + count))
    assert (encoded[0], encoded[-1]) == ((0, 1), (1, 1))
    costs = control.costs
    assert costs == sorted(costs)
    assert 0.7 < costs[-1] < 1


@pytest.mark.parametrize("field", ["image", "audio"])
def test_what_is_missing_is_named(field: str, model: WanS2V, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidParams) as caught:
        list(model.generate(params_for(model, **(given | {field: None})), Recorder()))
    assert caught.value.field == field


def test_a_sound_without_samples_is_refused(model: WanS2V, given: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InvalidParams, match="holds no sound"):
        video(model, given, audio=wav(tmp_path / "empty.wav", torch.zeros(1, 0)))


@pytest.mark.parametrize("change", [{"dtype": "bfloat16"}, {"load_format": "dummy"}])
def test_other_types_and_random_weights_make_finite_pictures(change: Any, given: dict[str, Any]) -> None:
    """The type that the real model is served in, whose ears stay in float32; and what benchmarks load."""
    other = load_wan_s2v(
        tiny_config("s2v", kind="wan-s2v", height=64, num_inference_steps=1, **change), "cpu"
    )
    made = video(other, given, num_frames=6)
    assert made.dtype == (torch.bfloat16 if "dtype" in change else torch.float32)
    assert bool(torch.isfinite(made).all())


def test_a_checkpoint_of_another_family_is_refused() -> None:
    with pytest.raises(LoadFailed, match=r"tiny-s2v: cannot load .*t2v"):
        load_wan_s2v(tiny_config("s2v", kind="wan-s2v", path=str(TINY / "t2v")), "cpu")


@pytest.mark.parametrize(
    ("frames", "started", "clips"),
    [(1, False, 1), (77, False, 1), (78, False, 2), (157, False, 2), (80, True, 1)],
)
def test_how_many_clips_a_video_takes(frames: int, started: bool, clips: int) -> None:
    """80 frames each; the first loses three, where the video does not start from the picture."""
    assert ClipPlan(clip=80, motion=73, frames=frames, from_picture=started).count == clips


def test_a_frame_hears_its_own_time() -> None:
    """What is not shown of the first clip lies before the start; clips follow without a gap."""
    plan = ClipPlan(clip=80, motion=73, frames=200)
    assert [plan.first_frame(clip) for clip in range(plan.count)] == [-3, 77, 157]
    started = ClipPlan(clip=80, motion=73, frames=200, from_picture=True)
    assert [started.first_frame(clip) for clip in range(started.count)] == [0, 80, 160]


def test_the_script_makes_what_is_shipped(tmp_path: Path) -> None:
    """The same weights of the parts that it draws, within 3 MB in all."""
    make(tmp_path)
    for part in ("transformer/diffusion_pytorch_model", "audio_encoder/model"):
        made, shipped = (root / f"s2v/{part}.safetensors" for root in (tmp_path, TINY))
        assert made.read_bytes() == shipped.read_bytes()
    files = [path for path in (TINY / "s2v").rglob("*.*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 3_000_000
