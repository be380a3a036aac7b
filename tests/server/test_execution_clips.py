"""A talking video inside a worker: a clip that fails takes all before it along."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch

from encoding.base import AudioSpec
from pipelines import registry
from pipelines.base import Control, GenerationParams, Pipeline
from server.engine.base import Failed, Finished
from tests.pipelines.tiny_models import params_for, picture, tiny_config
from tests.pipelines.wan_s2v.s2v_models import wav
from tests.server.executions import Run

pytestmark = pytest.mark.usefixtures("nothing_left")

FRAMES = 13
"""Two clips of the shipped model."""


@pytest.fixture(scope="module")
def speech() -> Pipeline:
    config = tiny_config("s2v", kind="wan-s2v", height=64, num_frames=FRAMES, num_inference_steps=2)
    return registry.load(config, "cpu")


class Broken:
    """A pipeline whose control fails at a step of its denoising."""

    def __init__(self, pipeline: Pipeline, at: int) -> None:
        self.info = pipeline.info
        self._pipeline = pipeline
        self._at = at

    def generate(self, params: GenerationParams, control: Control) -> Any:
        broken = self

        class Breaking:
            def progress(self, stage: Any, step: int, steps: int, cost: float | None = None) -> None:
                control.progress(stage, step, steps, cost)
                if (stage, step) == ("denoise", broken._at):
                    raise RuntimeError("a fault that a test injected")

        return self._pipeline.generate(params, Breaking())


def run_of(folder: Path, speech: Pipeline) -> Run:
    times = torch.arange(48_000) / 48_000
    given = {
        "image": picture(folder / "picture.png", 64, 64),
        "audio": wav(folder / "sound.wav", 0.5 * torch.sin(440 * 2 * torch.pi * times)[None]),
    }
    run = Run(folder / "made")
    spec = replace(
        run.task.outputs[0], height=64, num_frames=FRAMES, fps=Fraction(16), audio=AudioSpec(48_000, 2)
    )
    run.task = replace(run.task, params=params_for(speech, **given), outputs=(spec,))
    run.execution.task = run.task
    return run


@pytest.mark.parametrize("step", [3, 4])
def test_a_fault_in_the_second_clip_leaves_nothing(step: int, tmp_path: Path, speech: Pipeline) -> None:
    """The first clip and the sound are with the encoder by then; no thread, container or file outlives it.

    The model makes the next video as if nothing had been.
    """
    (tmp_path / "made").mkdir()
    last = run_of(tmp_path, speech)(Broken(speech, step))
    assert isinstance(last, Failed)
    assert last.code == "internal_error"
    assert list((tmp_path / "made").iterdir()) == []
    last = run_of(tmp_path, speech)(speech)
    assert isinstance(last, Finished)
    (artifact,) = last.artifacts
    assert (artifact.num_frames, artifact.audio) == (FRAMES, AudioSpec(48_000, 2))
