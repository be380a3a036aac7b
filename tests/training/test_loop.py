"""The training loop: it learns, can be stopped and gone on with, and leaves small files."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
import torch
from torch import nn

from training import loop


def nets() -> dict[str, nn.Module]:
    torch.manual_seed(3)
    frozen = nn.Linear(2, 2)
    frozen.requires_grad_(requires_grad=False)
    return {"net": nn.Linear(4, 1), "frozen": frozen}


def losses(modules: dict[str, nn.Module], step: int) -> loop.Losses:
    """How far a net is from summing up its inputs."""
    x = torch.randn(16, 4, generator=torch.Generator().manual_seed(step))
    return {"loss": (modules["net"](x)[:, 0] - x.sum(dim=1)).square().mean()}


def run(folder: Path, steps: int, plan: loop.Plan) -> dict[str, nn.Module]:
    modules = nets()
    assert loop.train(folder, modules, lambda step: losses(modules, step), plan) == steps
    return modules


PLAN = loop.Plan(steps=60, rate=0.1, warmup=5, average=0.9, log_every=10)


def test_a_run_that_was_stopped_ends_as_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(tmp_path / "whole", 60, PLAN)
    half = nets()
    with monkeypatch.context() as patch:
        patch.setattr(
            time, "monotonic", count(step=2.0).__next__
        )  # seconds: each look at the clock takes two
        limited = replace(PLAN, minutes=1.0)
        reached = loop.train(tmp_path / "parts", half, lambda step: losses(half, step), limited)
    assert 10 < reached < 50
    resumed = run(tmp_path / "parts", 60, PLAN)
    for name, value in whole["net"].state_dict().items():
        torch.testing.assert_close(resumed["net"].state_dict()[name], value)


def test_the_average_is_loaded_and_frozen_nets_are_kept(tmp_path: Path) -> None:
    trained = run(tmp_path, 60, PLAN)
    modules = {"net": nn.Linear(4, 1), "frozen": nn.Linear(2, 2)}
    assert loop.averaged(tmp_path, modules) == 60
    torch.testing.assert_close(modules["frozen"].state_dict(), nets()["frozen"].state_dict())
    torch.testing.assert_close(modules["net"].weight, torch.ones(1, 4), rtol=0, atol=0.1)
    assert not torch.equal(next(modules["net"].parameters()), next(trained["net"].parameters()))
    with pytest.raises(FileNotFoundError):
        loop.averaged(tmp_path / "none", modules)


def test_no_minutes_left_means_no_step_but_a_state(tmp_path: Path) -> None:
    run(tmp_path, 0, loop.Plan(steps=60, rate=0.1, minutes=-1))
    run(tmp_path, 60, PLAN)
    events = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [(one["event"], one["step"]) for one in events if "event" in one] == [
        ("start", 0), ("stop", 0), ("start", 0), ("stop", 60),
    ]  # fmt: skip
    losses_seen = [one["loss"] for one in events if "loss" in one]
    assert losses_seen[-1] < losses_seen[0] / 10


def test_a_state_is_split_into_small_files_and_the_older_one_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "SHARD_BYTES", 40)
    run(tmp_path, 20, replace(PLAN, until=20))
    run(tmp_path, 50, replace(PLAN, until=50))
    named = json.loads((tmp_path / "state.json").read_text())["files"]
    assert len(named) > 2
    assert sorted(named) == sorted(file.name for file in tmp_path.glob("*.safetensors"))


def test_a_run_at_its_end_is_its_average_and_can_go_on_after_all(tmp_path: Path) -> None:
    run(tmp_path, 20, replace(PLAN, until=20))
    unfinished = sum(file.stat().st_size for file in tmp_path.glob("*.safetensors"))
    run(tmp_path, 60, PLAN)
    assert sum(file.stat().st_size for file in tmp_path.glob("*.safetensors")) < unfinished / 2
    assert loop.steps_done(tmp_path) == 60
    average, steps = loop.average_of(tmp_path)
    assert steps == 60
    longer = run(tmp_path, 61, replace(PLAN, steps=61))
    torch.testing.assert_close(next(longer["net"].parameters()), average["net.weight"], rtol=0, atol=0.05)
    assert loop.steps_done(tmp_path / "none") == 0
