"""Trains a transformer.

    python -m training.transformer t2v LATENTS RUN --steps 8000
    python -m training.transformer t2v LATENTS HIGH --from RUN --levels 0.875 1 --steps 1500
    python -m training.transformer i2v LATENTS I2V --from RUN --steps 4000

The first run trains the text encoder too; later ones take it as it is from the run that they start from.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import torch

from training import models, text
from training.captions import caption
from training.flow import CHANNELS, Levels, Task, question
from training.graphs import Replayed
from training.latents import cache_of, canvas_of
from training.loop import Losses, Plan, average_of, steps_done, train
from training.world import Canvas

_UNSAID = 0.1
"""Share of clips that come with an empty prompt, for guidance."""
_LENGTHS = (32, 64)
"""Of padded prompts, in tokens."""


class Learner:
    """The nets of a run, and what they get wrong in one of its steps."""

    def __init__(self, task: Task, options: argparse.Namespace) -> None:
        self._task = task
        self._device = options.device
        self._caches = [cache_of(options.latents, canvas, options.device) for canvas in options.canvas]
        self._levels = Levels(options.levels[0], options.levels[1], options.shift)
        self._batch = options.batch
        self._words = text.tokenizer()
        self.text_encoder = models.text_encoder(len(self._words))
        self.transformer = models.transformer(*CHANNELS[task])
        if options.origin is not None:
            start_from(options.origin, self.transformer, self.text_encoder)
            self.text_encoder.requires_grad_(requires_grad=False)
        self.text_encoder.to(options.device)
        self.transformer.to(options.device)
        answer = Answer(self.transformer)
        self._answer = Replayed(answer) if torch.device(options.device).type == "cuda" else answer

    @property
    def modules(self) -> dict[str, torch.nn.Module]:
        """All nets; those that do not learn are part of the run all the same."""
        return {"text_encoder": self.text_encoder, "transformer": self.transformer}

    def losses(self, step: int) -> Losses:
        """Of one batch; the same for the same step."""
        chance = Random(step)
        generator = torch.Generator().manual_seed(step)
        cache = chance.choice(self._caches)
        batch = cache.batch([chance.randrange(len(cache)) for _ in range(self._batch)])
        prompts = ["" if chance.random() < _UNSAID else caption(scene, chance) for scene in batch.scenes]
        asked = question(self._task, batch, self._levels.draw(self._batch, generator), generator)
        with torch.autocast(torch.device(self._device).type, torch.bfloat16, cache_enabled=False):
            told = text.embed(self.text_encoder, self._words, prompts, chance.choice(_LENGTHS))
            given = self._answer(asked.hidden_states, asked.timestep, told)
        return {"loss": asked.loss(given)}


class Answer(torch.nn.Module):
    """A transformer that takes tensors and gives one."""

    def __init__(self, transformer: Any) -> None:
        super().__init__()
        self._transformer = transformer

    def forward(
        self, hidden_states: torch.Tensor, timestep: torch.Tensor, told: torch.Tensor
    ) -> torch.Tensor:
        answer: torch.Tensor = self._transformer(
            hidden_states=hidden_states, timestep=timestep, encoder_hidden_states=told, return_dict=False
        )[0]
        return answer


def start_from(run: Path, transformer: Any, text_encoder: Any) -> None:
    """Begin with the averaged weights of a run, of this task or another one.

    Channels that the other task has not got begin at zero; those of another VAE begin anew.
    """
    origin, _ = average_of(run)
    with torch.no_grad():
        for name, parameter in text_encoder.named_parameters():
            parameter.copy_(origin[f"text_encoder.{name}"])
        for name, parameter in transformer.named_parameters():
            _take(parameter, origin[f"transformer.{name}"])


def _take(parameter: torch.Tensor, origin: torch.Tensor) -> None:
    if parameter.shape == origin.shape:
        parameter.copy_(origin)
    elif parameter.dim() == 5 and parameter.shape[1] == CHANNELS["i2v"][0]:
        parameter.zero_()
        parameter[:, : origin.shape[1]] = origin


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(description="Train a transformer.")
    parser.add_argument("task", choices=CHANNELS)
    parser.add_argument("latents", type=Path, help="what training.latents wrote")
    parser.add_argument("run", type=Path, help="holds the run's state; a run that is there is gone on with")
    parser.add_argument("--from", dest="origin", type=Path, metavar="RUN", help="a run to begin with")
    parser.add_argument("--levels", nargs=2, type=float, default=(0.0, 1.0), metavar=("LOW", "HIGH"))
    parser.add_argument("--shift", type=float, default=3.0)
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--until", type=int, metavar="STEP", help="stop at this step for now")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--average", type=float, default=0.999)
    parser.add_argument(
        "--canvas", nargs="+", type=canvas_of, default=[Canvas(160, 96, 17)], metavar="WxHxFRAMES"
    )
    parser.add_argument("--compile", action="store_true", help="minutes at the start, then faster on a CPU")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--device", default="cpu")
    return parser


def main(arguments: Sequence[str] | None = None) -> bool:
    """The command; whether the run is at its end now."""
    options = parser().parse_args(arguments)
    plan = Plan(
        options.steps, options.rate, until=options.until, average=options.average, minutes=options.minutes
    )
    if steps_done(options.run) < plan.end:
        torch.manual_seed(0)
        learner = Learner(options.task, options)
        if options.compile:
            for block in learner.transformer.blocks:
                block.compile(dynamic=False)
        train(options.run, learner.modules, learner.losses, plan)
    return steps_done(options.run) >= plan.end


if __name__ == "__main__":
    main()
