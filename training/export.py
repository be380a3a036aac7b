"""Puts trained nets together as the folders that are served.

python -m training.export t2v VAE OUT --high RUN --low RUN --shift 5
python -m training.export ti2v VAE OUT --high RUN
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from diffusers import (
    AutoencoderKLWan,
    DiffusionPipeline,
    WanImageToVideoPipeline,
    WanPipeline,
)

from pipelines.saving import save
from pipelines.wan_denoise import unipc
from training import models, text
from training.flow import CHANNELS, Task
from training.loop import averaged

BOUNDARIES: dict[Task, float] = {"t2v": 0.875, "i2v": 0.9}
"""The noise level from which the high-noise expert rules, as in Wan 2.2."""


def assembled(task: Task, vae: Path, high: Path, low: Path | None, shift: float) -> DiffusionPipeline:
    """The pipeline of a task from the VAE's folder and the runs of its experts.

    The text encoder is that of `high`; all runs of one family hold the same.
    """
    words = text.tokenizer()
    parts: dict[str, Any] = {
        "tokenizer": words,
        "text_encoder": models.text_encoder(len(words)),
        "vae": AutoencoderKLWan.from_pretrained(vae),
        "scheduler": unipc(shift),
        "transformer": models.transformer(*CHANNELS[task]),
    }
    averaged(high, {"text_encoder": parts["text_encoder"], "transformer": parts["transformer"]})
    if task == "ti2v":
        return _halved(WanPipeline, parts, expand_timesteps=True)
    assert low is not None, "two experts"
    parts["transformer_2"] = models.transformer(*CHANNELS[task])
    averaged(low, {"transformer": parts["transformer_2"]})
    kind = WanPipeline if task == "t2v" else WanImageToVideoPipeline
    return _halved(kind, parts, boundary_ratio=BOUNDARIES[task])


def _halved(kind: Any, parts: dict[str, Any], **options: Any) -> DiffusionPipeline:
    for name in ("text_encoder", "vae", "transformer", "transformer_2"):
        if name in parts:
            parts[name].half()
    made: DiffusionPipeline = kind(**parts, **options)
    return made


def main(arguments: Sequence[str] | None = None) -> bool:
    """The command; whether the folder is there now."""
    parser = argparse.ArgumentParser(description="Write a trained model as a diffusers folder.")
    parser.add_argument("task", choices=CHANNELS)
    parser.add_argument("vae", type=Path, help="what training.vae --finish wrote")
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--high", type=Path, required=True, help="the run of the only, or the high-noise expert"
    )
    parser.add_argument("--low", type=Path, help="the run of the low-noise expert")
    parser.add_argument("--shift", type=float, default=5.0)
    options = parser.parse_args(arguments)
    if (options.low is None) != (options.task == "ti2v"):
        parser.error("--low: t2v and i2v need it, ti2v has one expert")
    if not options.folder.exists():
        save(assembled(options.task, options.vae, options.high, options.low, options.shift), options.folder)
    return True


if __name__ == "__main__":
    main()
