"""Noise levels, and what a transformer is asked: by hand on small tensors."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from diffusers import UniPCMultistepScheduler
from PIL import Image

from pipelines.base import GenerationParams
from pipelines.wan_condition import concatenated
from training import models, world
from training.flow import CHANNELS, Levels, Task, question
from training.latents import Batch, Cache, make, normalized


def batch(channels: int = 16) -> Batch:
    generator = torch.Generator().manual_seed(0)
    clip, first, both = (torch.randn(8, channels, 3, 4, 6, generator=generator) for _ in range(3))
    return Batch([], clip, first, both)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


def asking(image: Path, last_image: Path | None) -> GenerationParams:
    return GenerationParams(
        model="tiny",
        prompt="",
        negative_prompt="",
        width=64,
        height=32,
        num_frames=9,
        seed=0,
        num_inference_steps=1,
        guidance_scale=1.0,
        guidance_scale_2=None,
        boundary_ratio=None,
        flow_shift=1.0,
        max_sequence_length=32,
        image=image,
        last_image=last_image,
    )


def test_levels_spread_like_the_steps_of_the_sampler() -> None:
    """The medians and quarters of many levels are where UniPC's steps of the same shift are."""
    scheduler = UniPCMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=5.0
    )
    scheduler.set_timesteps(1000)
    steps = scheduler.sigmas[:-1].flip(0)
    levels = Levels(shift=5.0).draw(4000, generator()).sort().values
    for part in (0.1, 0.25, 0.5, 0.9):
        assert float(levels[int(4000 * part)]) == pytest.approx(float(steps[int(1000 * part)]), abs=0.01)


@pytest.mark.parametrize(("low", "high"), [(0.0, 0.875), (0.875, 1.0)])
def test_an_experts_levels_keep_to_its_range(low: float, high: float) -> None:
    levels = Levels(low, high, shift=3.0).draw(500, generator())
    assert low <= levels.min() < low + 0.05
    assert high - 0.05 < levels.max() <= high


@pytest.mark.parametrize("task", CHANNELS)
def test_the_answer_leads_from_what_is_given_to_the_clip(task: Task) -> None:
    """Going back along the answer by the level gives the clip, wherever it counts."""
    clips = batch(CHANNELS[task][1])
    levels = torch.linspace(0.1, 1, 8)
    asked = question(task, clips, levels, generator())
    assert asked.hidden_states.shape[1] == CHANNELS[task][0]
    noisy = asked.hidden_states[:, : CHANNELS[task][1]]
    back = noisy - levels.view(-1, 1, 1, 1, 1) * asked.answer
    torch.testing.assert_close(back * asked.counts, clips.latents * asked.counts)
    assert float(asked.loss(asked.answer)) == 0
    assert float(asked.loss(asked.answer + 2)) == pytest.approx(4)


def test_times_are_thousandths_and_zero_for_a_first_frame_that_is_given() -> None:
    levels = torch.linspace(0.1, 0.8, 8)
    assert torch.equal(question("t2v", batch(), levels, generator()).timestep, 1000 * levels)
    asked = question("ti2v", batch(48), levels, generator())
    assert asked.timestep.shape == (8, 3 * 2 * 3)  # frames × patches
    given = asked.timestep[:, 0] == 0
    assert 0 < int(given.sum()) < 8
    assert torch.equal(asked.timestep[~given], (1000 * levels[~given]).view(-1, 1).expand(-1, 18))
    assert torch.equal(asked.timestep[given][:, 6:], (1000 * levels[given]).view(-1, 1).expand(-1, 12))
    assert torch.equal(asked.hidden_states[given][:, :, 0], batch(48).latents[given][:, :, 0])
    assert not asked.counts[given][:, :, 0].any()


def test_pictures_are_put_in_as_the_pipeline_does(tmp_path: Path) -> None:
    """The same mask and channels as `pipelines.wan_condition` makes of the first and last frame's files."""
    torch.manual_seed(0)
    vae = models.vae("z16").eval()
    canvas = world.Canvas(64, 32, 9)
    make(vae, tmp_path, canvas, 6, pictures=True)
    cache = Cache(tmp_path, canvas, "cpu")
    assert len(cache) == 6
    clips = cache.batch(list(range(6)))
    asked = question("i2v", clips, torch.full((6,), 0.5), generator())
    seen = set()
    for index, scene in enumerate(clips.scenes):
        files = {}
        for field, frame in (("image", 0), ("last_image", 8)):
            pixels = ((world.draw(scene)[:, frame] + 1) * 127.5).round().byte().permute(1, 2, 0).numpy()
            files[field] = tmp_path / f"{index}-{field}.png"
            Image.fromarray(pixels).save(files[field])
        last = bool(asked.hidden_states[index, 19, -1, 0, 0] == 1)
        seen.add(last)
        wanted = asking(files["image"], files["last_image"] if last else None)
        theirs = concatenated(vae, wanted, 9, 64, 32, torch.device("cpu")).channels[0]
        torch.testing.assert_close(asked.hidden_states[index, 16:20], theirs[:4])
        torch.testing.assert_close(asked.hidden_states[index, 20:], theirs[4:], rtol=0.1, atol=0.05)
    assert seen == {True, False}
    torch.testing.assert_close(
        clips.latents[0],
        normalized(vae, world.draw(world.scene(0, canvas))[None])[0].detach(),
        rtol=1e-2,
        atol=1e-2,
    )
