"""Our loop against diffusers' own pipelines, and what a request may change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import WanImageToVideoPipeline
from PIL import Image

from pipelines.base import GenerationParams
from pipelines.errors import BadOutput, Cancelled, InvalidParams
from pipelines.wan import NEGATIVE_PROMPT, Wan
from tests.pipelines.tiny_models import Recorder, picture

Make = Callable[..., GenerationParams]
Run = Callable[..., torch.Tensor]
TOLERANCE = 1e-4  # float32 through a denoising loop; one level of an 8-bit picture is 8e-3


def as_frames(video: np.ndarray[Any, Any]) -> torch.Tensor:
    """diffusers' `np` output (1, T, H, W, 3) in [0, 1] as (3, T, H, W) in [-1, 1]."""
    return torch.from_numpy(video[0]).permute(3, 0, 1, 2) * 2 - 1


def call(pipe: Any, params: GenerationParams, **changes: Any) -> torch.Tensor:
    """What diffusers makes of the same parameters."""
    generator = torch.Generator("cpu").manual_seed(params.seed)
    video = pipe(
        prompt=params.prompt,
        negative_prompt=params.negative_prompt,
        width=params.width,
        height=params.height,
        num_frames=params.num_frames,
        num_inference_steps=params.num_inference_steps,
        guidance_scale=params.guidance_scale,
        max_sequence_length=params.max_sequence_length,
        generator=generator,
        output_type="np",
        **changes,
    ).frames
    return as_frames(video)


def calls_of(module: torch.nn.Module, action: Callable[[], object]) -> int:
    """How often `module` is called while `action` runs."""
    count = 0

    def hook(*_: object) -> None:
        nonlocal count
        count += 1

    handle = module.register_forward_hook(hook)
    try:
        action()
    finally:
        handle.remove()
    return count


def test_t2v_equals_diffusers(t2v: Wan, params: Make, run: Run) -> None:
    """Both experts guided, the checkpoint's boundary and shift: the frames of `WanPipeline`."""
    wanted = params(t2v, num_frames=9, num_inference_steps=6)
    expected = call(t2v._pipe, wanted, guidance_scale_2=wanted.guidance_scale_2)
    assert torch.allclose(run(t2v, wanted), expected, atol=TOLERANCE)


def test_i2v_equals_diffusers(i2v: Wan, params: Make, run: Run, tmp_path: Path) -> None:
    """A first picture at the video's size: the frames of `WanImageToVideoPipeline`."""
    image = picture(tmp_path / "first.png", 64, 32)
    wanted = params(i2v, image=image)
    with Image.open(image) as opened:
        expected = call(i2v._pipe, wanted, image=opened, guidance_scale_2=wanted.guidance_scale_2)
    assert torch.allclose(run(i2v, wanted), expected, atol=TOLERANCE)


def test_i2v_with_a_last_picture_equals_diffusers(i2v: Wan, params: Make, run: Run, tmp_path: Path) -> None:
    """First and last picture, on the model's grid."""
    first, last = picture(tmp_path / "first.png", 64, 32), picture(tmp_path / "last.png", 64, 32, turned=True)
    wanted = params(i2v, image=first, last_image=last)
    with Image.open(first) as one, Image.open(last) as two:
        expected = call(
            i2v._pipe, wanted, image=one, last_image=two, guidance_scale_2=wanted.guidance_scale_2
        )
    assert torch.allclose(run(i2v, wanted), expected, atol=TOLERANCE)


def test_ti2v_from_text_equals_diffusers(ti2v: Wan, params: Make, run: Run) -> None:
    """One expert with a timestep for every token."""
    wanted = params(ti2v)
    assert torch.allclose(run(ti2v, wanted), call(ti2v._pipe, wanted), atol=TOLERANCE)


def test_ti2v_from_a_picture_equals_diffusers(ti2v: Wan, params: Make, run: Run, tmp_path: Path) -> None:
    """The picture stands for the first latent frame."""
    image = picture(tmp_path / "first.png", 64, 32)
    wanted = params(ti2v, image=image)
    pipe = WanImageToVideoPipeline(**ti2v._pipe.components, expand_timesteps=True)
    pipe.set_progress_bar_config(disable=True)
    with Image.open(image) as opened:
        expected = call(pipe, wanted, image=opened)
    assert torch.allclose(run(ti2v, wanted), expected, atol=TOLERANCE)


@pytest.mark.parametrize(
    ("high", "low", "passes"),
    [(4.0, 3.0, (2, 2)), (1.0, 3.0, (1, 2)), (4.0, 0.0, (2, 1)), (0.0, 1.0, (1, 1))],
)
def test_guidance_of_at_most_one_skips_the_second_pass_of_its_stage_only(
    t2v: Wan, params: Make, run: Run, high: float, low: float, passes: tuple[int, int]
) -> None:
    """Each expert is called once or twice a step, as its own scale says."""
    wanted = params(t2v, num_inference_steps=6, guidance_scale=high, guidance_scale_2=low)
    first, second = t2v._pipe.transformer, t2v._pipe.transformer_2
    high_calls = calls_of(first, lambda: run(t2v, wanted))
    low_calls = calls_of(second, lambda: run(t2v, wanted))
    assert high_calls % passes[0] == 0
    assert low_calls % passes[1] == 0
    assert high_calls // passes[0] + low_calls // passes[1] == 6
    assert high_calls > 0
    assert low_calls > 0


@pytest.mark.parametrize(("ratio", "high", "low"), [(0.0, 6, 0), (1.0, 0, 6)])
def test_the_boundary_is_the_requests_own(
    t2v: Wan, params: Make, run: Run, ratio: float, high: int, low: int
) -> None:
    """0 gives every step to the high-noise expert; 1 gives it none below timestep 1000."""
    wanted = params(
        t2v, num_inference_steps=6, boundary_ratio=ratio, guidance_scale=1.0, guidance_scale_2=1.0
    )
    assert calls_of(t2v._pipe.transformer, lambda: run(t2v, wanted)) == high
    assert calls_of(t2v._pipe.transformer_2, lambda: run(t2v, wanted)) == low


@pytest.mark.parametrize(
    "change",
    [
        {"guidance_scale": 6.0},
        {"guidance_scale": 1.0},
        {"guidance_scale_2": 6.0},
        {"guidance_scale_2": 0.0},
        {"boundary_ratio": 0.5},
        {"flow_shift": 9.0},
        {"seed": 0},
        {"prompt": "a blue square"},
        {"negative_prompt": ""},
        {"num_inference_steps": 5},
    ],
)
def test_every_parameter_changes_the_video_and_none_stays(
    t2v: Wan, params: Make, run: Run, change: dict[str, object]
) -> None:
    """A, then B with one parameter changed, then A again: B differs, and A is the same to the bit."""
    base = params(t2v, num_inference_steps=6)
    before, other, after = (run(t2v, wanted) for wanted in (base, replace(base, **change), base))  # type: ignore[arg-type]
    assert not torch.equal(before, other)
    assert torch.equal(before, after)


def test_a_request_of_another_size_leaves_nothing_behind(t2v: Wan, params: Make, run: Run) -> None:
    """A, B of another size, length and step count, then A: the same bits."""
    base = params(t2v)
    before = run(t2v, base)
    run(t2v, params(t2v, width=96, height=48, num_frames=9, num_inference_steps=2))
    assert torch.equal(before, run(t2v, base))


def test_exactly_the_size_and_length_asked_for(t2v: Wan, params: Make, run: Run) -> None:
    """100x60 and 18 frames are off the grid: 112x64 and 21 frames are made and trimmed."""
    assert run(t2v, params(t2v, width=100, height=60, num_frames=18)).shape == (3, 18, 60, 100)


def test_off_the_grid_is_the_middle_of_the_grid(t2v: Wan, params: Make, run: Run) -> None:
    """The trimmed video is the centre of the one on the grid, and its first frames."""
    whole = run(t2v, params(t2v, width=64, height=32, num_frames=9))
    part = run(t2v, params(t2v, width=60, height=28, num_frames=7))
    assert torch.equal(part, whole[:, :7, 2:30, 2:62])


def test_a_last_picture_is_on_the_last_frame_asked_for(
    i2v: Wan, params: Make, run: Run, tmp_path: Path
) -> None:
    """With 7 of 9 frames, the last picture must not be trimmed away: it changes the frames that stay."""
    first, last = picture(tmp_path / "first.png", 64, 32), picture(tmp_path / "last.png", 64, 32, turned=True)
    without = run(i2v, params(i2v, num_frames=7, image=first))
    with_last = run(i2v, params(i2v, num_frames=7, image=first, last_image=last))
    assert not torch.allclose(without[:, 4:], with_last[:, 4:], atol=1e-3)


def test_several_outputs_are_made_in_order(t2v: Wan, params: Make) -> None:
    """The first of two is the one that a single request makes; the second is another."""
    chunks = list(t2v.generate(params(t2v, num_outputs=2), Recorder()))
    alone = list(t2v.generate(params(t2v), Recorder()))
    outputs = [chunk.output for chunk in chunks]
    assert outputs == sorted(outputs)
    first = torch.cat([chunk.frames for chunk in chunks if chunk.output == 0], dim=1)
    second = torch.cat([chunk.frames for chunk in chunks if chunk.output == 1], dim=1)
    assert torch.equal(first, torch.cat([chunk.frames for chunk in alone], dim=1))
    assert not torch.equal(first, second)


def test_a_fixed_latent_takes_the_place_of_the_noise(
    t2v: Wan, params: Make, run: Run, tmp_path: Path
) -> None:
    """The file decides, whatever the seed; the noise of seed 7 from a file is seed 7."""
    noise = torch.randn((1, 16, 2, 4, 8), generator=torch.Generator("cpu").manual_seed(7))
    torch.save(noise, tmp_path / "noise.pt")
    fixed = run(t2v, params(t2v, seed=1, latents=tmp_path / "noise.pt"))
    assert torch.equal(fixed, run(t2v, params(t2v, seed=7)))


def test_a_fixed_latent_of_another_shape_is_refused(t2v: Wan, params: Make, tmp_path: Path) -> None:
    """Before any work, with both shapes."""
    torch.save(torch.randn(1, 16, 3, 4, 8), tmp_path / "noise.pt")
    control = Recorder()
    with pytest.raises(InvalidParams, match=r"\(1, 16, 3, 4, 8\).*\(1, 16, 2, 4, 8\)"):
        list(t2v.generate(params(t2v, latents=tmp_path / "noise.pt"), control))
    assert control.calls == []


def test_noise_that_is_not_finite_is_no_video(t2v: Wan, params: Make, run: Run) -> None:
    """NaN from the model ends in an error, not in a black picture."""
    weight = t2v._pipe.transformer_2.proj_out.bias
    kept = weight.data.clone()
    weight.data.fill_(torch.nan)
    try:
        with pytest.raises(BadOutput, match="NaN"):
            run(t2v, params(t2v, num_inference_steps=6))
    finally:
        weight.data.copy_(kept)


@pytest.mark.parametrize(
    "moment", [("prompt", 1), ("denoise", 0), ("denoise", 2), ("decode", 0), ("decode", 1)]
)
def test_a_cancel_is_heard_at_every_step_and_chunk(t2v: Wan, params: Make, moment: Any) -> None:
    """No step and no chunk follows the call that was answered with a cancel."""
    control = Recorder(cancel_at=moment)
    with pytest.raises(Cancelled):
        list(t2v.generate(params(t2v, num_frames=9), control))
    assert control.calls[-1][:2] == moment


def test_progress_is_told_for_each_step_and_chunk(t2v: Wan, params: Make) -> None:
    """Every denoising step, and the frames as they are decoded."""
    control = Recorder()
    list(t2v.generate(params(t2v, num_frames=9), control))
    assert [call for call in control.calls if call[0] == "denoise"] == [("denoise", n, 3) for n in range(4)]
    assert control.costs[0] == 0.0
    assert control.costs == sorted(control.costs)
    assert control.costs[-1] == 1.0
    assert [call for call in control.calls if call[0] == "decode"] == [("decode", n, 9) for n in (0, 1, 5, 9)]


def test_what_a_loaded_model_says_of_itself(t2v: Wan, i2v: Wan, ti2v: Wan) -> None:
    """Task, pictures, experts, grid and the defaults that come from the checkpoint."""
    assert (t2v.info.task, t2v.info.image, t2v.info.unused, t2v.info.grid.spatial) == ("t2v", "none", {}, 16)
    assert (i2v.info.task, i2v.info.image, i2v.info.last_image) == ("i2v", "required", True)
    assert (ti2v.info.task, ti2v.info.image) == ("ti2v", "optional")
    assert set(ti2v.info.unused) == {"guidance_scale_2", "boundary_ratio"}
    assert ti2v.info.grid.spatial == 32
    assert (t2v.info.defaults.boundary_ratio, i2v.info.defaults.boundary_ratio) == (0.875, 0.9)
    assert (ti2v.info.defaults.boundary_ratio, ti2v.info.defaults.guidance_scale_2) == (None, None)
    assert t2v.info.defaults.negative_prompt == NEGATIVE_PROMPT
    assert i2v.info.defaults.guidance_scale_2 == 4.0  # not given: that of the first expert


def test_a_step_counts_by_its_passes(t2v: Wan, params: Make) -> None:
    """With guidance on the second expert alone, its steps take two thirds of six passes."""
    control = Recorder()
    wanted = params(t2v, num_inference_steps=4, guidance_scale=1.0, guidance_scale_2=3.0)
    low = calls_of(t2v._pipe.transformer_2, lambda: list(t2v.generate(wanted, control))) // 2
    passes = [1] * (4 - low) + [2] * low
    expected = [sum(passes[:done]) / sum(passes) for done in range(5)]
    assert control.costs == pytest.approx(expected)
