"""Videos with sound, clip by clip, inside a worker: a clip that fails takes all before it along."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch

from encoding.base import AudioSpec
from pipelines import registry
from pipelines.base import Control, GenerationParams, Pipeline, Stage
from pipelines.minimax_h3.model import load_minimax_h3
from server.engine.base import Failed, Finished
from tests.pipelines import h3_models
from tests.pipelines.tiny_models import params_for, picture, tiny_config
from tests.pipelines.wan_s2v.s2v_models import wav
from tests.server.executions import Run

pytestmark = pytest.mark.usefixtures("nothing_left")

FRAMES = 13
"""Two clips of the shipped model that speaks."""
H3_FRAMES = 20
"""Two clips of the shipped MiniMax-H3, of which the first gives 17."""


@pytest.fixture(scope="module")
def speech() -> Pipeline:
    config = tiny_config("s2v", kind="wan-s2v", height=64, num_frames=FRAMES, num_inference_steps=2)
    return registry.load(config, "cpu")


class Broken:
    """A pipeline whose control fails at a step of a stage."""

    def __init__(self, pipeline: Pipeline, at: tuple[Stage, int]) -> None:
        self.info = pipeline.info
        self._pipeline = pipeline
        self._at = at

    def generate(self, params: GenerationParams, control: Control) -> Any:
        broken = self

        class Breaking:
            def progress(self, stage: Stage, step: int, steps: int, cost: float | None = None) -> None:
                control.progress(stage, step, steps, cost)
                if (stage, step) == broken._at:
                    raise RuntimeError("a fault that a test injected")

        return self._pipeline.generate(params, Breaking())


def run_of(folder: Path, speech: Pipeline) -> Run:
    times = torch.arange(48_000) / 48_000
    given = {
        "image": picture(folder / "picture.png", 64, 64),
        "audio": wav(folder / "sound.wav", 0.5 * torch.sin(440 * 2 * torch.pi * times)[None]),
    }
    shown = {"height": 64, "num_frames": FRAMES, "fps": Fraction(16), "audio": AudioSpec(48_000, 2)}
    return asked(folder, params_for(speech, **given), shown)


def asked(folder: Path, params: GenerationParams, shown: dict[str, Any]) -> Run:
    """A run of one video, into an empty folder."""
    run = Run(folder / "made")
    run.task = replace(run.task, params=params, outputs=(replace(run.task.outputs[0], **shown),))
    run.execution.task = run.task
    return run


def fails_and_leaves_nothing(run: Run, pipeline: Any) -> None:
    last = run(pipeline)
    assert isinstance(last, Failed)
    assert last.code == "internal_error"
    assert list(run.task.outputs[0].path.parent.iterdir()) == []


@pytest.mark.parametrize("step", [3, 4])
def test_a_fault_in_the_second_clip_leaves_nothing(step: int, tmp_path: Path, speech: Pipeline) -> None:
    """The first clip and the sound are with the encoder by then; no thread, container or file outlives it.

    The model makes the next video as if nothing had been.
    """
    (tmp_path / "made").mkdir()
    fails_and_leaves_nothing(run_of(tmp_path, speech), Broken(speech, ("denoise", step)))
    last = run_of(tmp_path, speech)(speech)
    assert isinstance(last, Finished)
    (artifact,) = last.artifacts
    assert (artifact.num_frames, artifact.audio) == (FRAMES, AudioSpec(48_000, 2))


def test_a_fault_after_the_first_clip_of_another_model_leaves_nothing(tmp_path: Path) -> None:
    """MiniMax-H3 has denoised everything by then, and given its sound and 17 frames."""
    model = load_minimax_h3(h3_models.config(num_inference_steps=1), "cpu")
    params = h3_models.params(model, num_frames=H3_FRAMES)
    shown = {"num_frames": H3_FRAMES, "fps": Fraction(24), "audio": AudioSpec(h3_models.RATE, 2)}
    (tmp_path / "made").mkdir()
    fails_and_leaves_nothing(asked(tmp_path, params, shown), Broken(model, ("decode", 17)))
    last = asked(tmp_path, params, shown)(model)
    assert isinstance(last, Finished)
    assert last.artifacts[0].num_frames == H3_FRAMES
    assert last.artifacts[0].audio == AudioSpec(h3_models.RATE, 2)
