"""From clips to a folder that is served: each part of the way once, with nets that have learned nothing."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pipelines.saving import save
from pipelines.wan import load_wan
from training import evaluate, export, flow, latents, loop, models, start, transformer, vae, world
from training.judge import judge

CANVAS = world.Canvas(64, 32, 5)
pytestmark = pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")  # of autocast

NO_STEPS = loop.Plan(steps=10, rate=1e-3, minutes=-1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished VAE of each layout, and latents of each."""
    root = tmp_path_factory.mktemp("training")
    for layout in models.LAYOUTS:
        torch.manual_seed(0)
        net = models.vae(layout)
        start.fill(net)
        loop.train(root / f"{layout}-run", {"vae": net}, lambda _: {}, NO_STEPS)
        vae.finish(root / f"{layout}-run", layout, root / layout, CANVAS, 2)
        latents.make(
            latents.loaded(root / layout), root / f"{layout}-clips", CANVAS, 4, pictures=layout == "z16"
        )
    return root


def learner(folder: Path, task: flow.Task, origin: Path | None = None) -> transformer.Learner:
    options = transformer.parser().parse_args(
        [task, str(folder / f"{flow.LAYOUTS[task]}-clips"), "unused", "--batch", "3", "--canvas", "64x32x5"]
    )
    options.origin = origin
    torch.manual_seed(0)
    return transformer.Learner(task, options)


def test_latents_are_measured_so_that_they_come_out_normal(folder: Path) -> None:
    """Mean 0 and deviation 1 by channel over the clips that were measured: the first ones."""
    for layout in models.LAYOUTS:
        cache = latents.Cache(folder / f"{layout}-clips", CANVAS, "cpu")
        values = cache.batch([0, 1]).latents.transpose(0, 1).flatten(1)
        torch.testing.assert_close(values.mean(dim=1), torch.zeros(len(values)), rtol=0, atol=0.1)
        assert float(values.std(dim=1).max()) < 1.2


@pytest.mark.parametrize("task", flow.CHANNELS)
def test_a_step_is_the_same_again_and_reaches_every_net(folder: Path, task: flow.Task) -> None:
    one = learner(folder, task)
    found = one.losses(3)["loss"]
    again, other = (one.losses(step)["loss"].detach() for step in (3, 4))
    assert torch.equal(found.detach(), again)
    assert not torch.equal(again, other)
    found.backward()  # type: ignore[no-untyped-call]
    for net in one.modules.values():
        assert all(value.grad is not None for value in net.parameters())


def test_an_expert_for_pictures_begins_as_the_one_for_text(folder: Path, tmp_path: Path) -> None:
    """Whatever the pictures are: their channels count for nothing yet. The text encoder learns no more."""
    first = learner(folder, "t2v")
    loop.train(tmp_path, first.modules, first.losses, NO_STEPS)
    later = learner(folder, "i2v", tmp_path)
    noisy, pictures = torch.randn(1, 16, 2, 4, 8), torch.randn(1, 20, 2, 4, 8)
    told = torch.randn(1, 8, models.TEXT_DIM)
    with torch.no_grad():
        ours, theirs = (
            net.transformer(x, torch.tensor([500.0]), told, return_dict=False)[0]
            for net, x in ((first, noisy), (later, torch.cat([noisy, pictures], dim=1)))
        )
    torch.testing.assert_close(ours, theirs)
    assert not any(value.requires_grad for value in later.text_encoder.parameters())


@pytest.mark.parametrize("task", flow.CHANNELS)
def test_what_is_exported_is_served_and_judged(folder: Path, tmp_path: Path, task: flow.Task) -> None:
    """Nets that know nothing show nothing right, but a clip of the asked size."""
    one = learner(folder, task)
    loop.train(tmp_path / "run", one.modules, one.losses, NO_STEPS)
    low = None if task == "ti2v" else tmp_path / "run"
    made = export.assembled(task, folder / flow.LAYOUTS[task], tmp_path / "run", low, 5.0)
    save(made, tmp_path / "served")
    weights = [file.stat().st_size for file in (tmp_path / "served").rglob("*.safetensors")]
    assert sum(weights) < 12_000_000
    model = load_wan(
        evaluate.config(argparse.Namespace(**OPTIONS, folder=tmp_path / "served"), CANVAS), "cpu"
    )
    assert model.info.task == task
    score = evaluate.evaluate(model, evaluate.scenes(1, CANVAS))
    assert (score.prompts, score.right) == (1, 0)


OPTIONS = {"steps": 2, "guidance": (1.0,), "shift": 5.0, "boundary": None}


def test_a_clip_is_compared_by_all_that_its_prompt_says() -> None:
    wide = world.Canvas(160, 96, 9)
    scene = evaluate.scenes(1, wide)[0]
    (thing,) = scene.things
    clip = ((world.draw(scene) + 1) * 127.5).round().byte().permute(1, 2, 3, 0)
    assert evaluate.compare(scene, judge(clip)) == dict.fromkeys(evaluate.ASPECTS, True)
    for word in (thing.colour, thing.shape, scene.background):
        assert word in evaluate.prompt(scene)
    other = replace(scene, background="a", things=(replace(thing, shape="b"),))
    assert evaluate.compare(other, judge(clip)) == {
        "colour": True, "shape": False, "motion": True, "background": False,
    }  # fmt: skip
    assert evaluate.compare(scene, judge(torch.zeros_like(clip))) == {
        "colour": False, "shape": False, "motion": False, "background": scene.background == "black",
    }  # fmt: skip
