"""The shipped checkpoint of MiniMax-H3 is what the script makes, and small."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import torch
from safetensors.torch import load_file

from pipelines.tiny_h3.make import make
from tests.pipelines.h3_models import CHECKPOINT


def test_the_script_makes_what_is_shipped(tmp_path: Path) -> None:
    """The same files, tensors and sizes; libraries write their versions into the rest."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*weight_norm.*", FutureWarning)
        make(tmp_path)
    made = {path.relative_to(tmp_path) for path in tmp_path.rglob("*.*") if path.is_file()}
    assert made == {path.relative_to(CHECKPOINT) for path in CHECKPOINT.rglob("*.*") if path.is_file()}
    for path in made:
        if path.suffix == ".safetensors":
            ours, theirs = load_file(tmp_path / path), load_file(CHECKPOINT / path)
            assert ours.keys() == theirs.keys()
            assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_it_is_small_and_laid_out_like_the_released_one() -> None:
    """Every component in a folder of its own, in 2 MB; a second copy of it can lie anywhere."""
    assert sum(path.stat().st_size for path in CHECKPOINT.rglob("*.*")) < 2_000_000
    index = json.loads((CHECKPOINT / "modular_model_index.json").read_text())
    parts = {name for name, value in index.items() if isinstance(value, list)}
    assert parts == {path.name for path in CHECKPOINT.iterdir() if path.is_dir()}
    assert parts == {
        *("transformer", "transformer_ref", "text_encoder", "tokenizer", "processor"),
        *("vae", "audio_vae", "scheduler", "audio_scheduler"),
    }
    assert str(CHECKPOINT) not in (CHECKPOINT / "modular_model_index.json").read_text()
