"""What is loaded of a checkpoint of MiniMax-H3, and what does not start."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch

from pipelines.base import DecodeConfig, ModelLimits
from pipelines.errors import LoadFailed
from pipelines.minimax_h3.model import load_minimax_h3
from pipelines.minimax_h3.warm import decode_once
from tests.pipelines.h3_models import CHECKPOINT, config, make


@pytest.mark.parametrize(
    ("tasks", "loaded", "missing"),
    [(("t2va", "fl2va"), "transformer", "transformer_ref"), (("ref2va",), "transformer_ref", "transformer")],
)
def test_only_the_tasks_that_are_asked_for_are_loaded(
    tasks: tuple[str, ...], loaded: str, missing: str
) -> None:
    """One transformer of the two, and the model says so."""
    part = load_minimax_h3(config(tasks=tasks), "cpu")
    assert getattr(part._pipe, loaded) is not None
    assert getattr(part._pipe, missing, None) is None
    assert (part.info.references is not None) == ("ref2va" in tasks)
    assert (part.info.image == "optional") == ("fl2va" in tasks)


@pytest.mark.parametrize("tasks", [("ref2va",), ("fl2va",)])
def test_without_torchvision_films_are_refused_and_why_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tasks: tuple[str, ...]
) -> None:
    """To the operator once, to clients each time; a model that reads no references says nothing."""
    monkeypatch.setattr("pipelines.minimax_h3.model.SEES_FILMS", False)
    limits = load_minimax_h3(config(tasks=tasks), "cpu").info.references
    said = [record.getMessage() for record in caplog.records if record.name.startswith("pipelines")]
    if limits is None:
        assert said == []
        return
    assert (limits.videos, limits.min_video_s) == (0, None)
    assert "torchvision" in limits.no_videos
    assert said == ["model takes no films: torchvision is not installed"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"guidance_scale": 4.0}, "guidance_scale"),
        ({"decode": DecodeConfig(tile=(256, 256))}, "decode.tile"),
        (
            {"decode": DecodeConfig(precision="fp8")},
            "decode.precision is not allowed; the model is decoded clip",
        ),
        ({"fps": Fraction(16)}, "fps"),
        ({"limits": ModelLimits(10**6, 346)}, "346.*345"),
        ({"tasks": ("t2v",)}, "t2va, fl2va, ref2va"),
        ({"path": str(CHECKPOINT / "vae")}, "vae"),
    ],
    ids=str,
)
def test_what_cannot_be_served_does_not_start(change: dict[str, object], words: str) -> None:
    """Settings without a meaning, or beyond what the model makes, and a folder that holds no such model."""
    with pytest.raises(LoadFailed, match=rf"tiny-h3.*{words}"):
        load_minimax_h3(config(**change), "cpu")


def architecture(folder: Path) -> None:
    """The tiny one's configuration files, without weights."""
    for source in CHECKPOINT.rglob("*.json"):
        target = folder / source.relative_to(CHECKPOINT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())


def test_a_conditioner_without_the_layer_that_is_read_does_not_start(tmp_path: Path) -> None:
    """Instead of failing each request; before any other component is loaded."""
    architecture(tmp_path)
    file = tmp_path / "text_encoder" / "config.json"
    told = json.loads(file.read_text())
    told["text_config"]["num_hidden_layers"] = 50
    file.write_text(json.dumps(told))
    with pytest.raises(LoadFailed, match=r"tiny-h3: text_encoder: 50 layers .* 51 are needed"):
        load_minimax_h3(config(path=str(tmp_path), load_format="dummy"), "cpu")


def test_an_architecture_with_random_weights(tmp_path: Path) -> None:
    """`load_format: dummy` needs the configuration files alone, and makes finite frames of the right size."""
    architecture(tmp_path)
    dummy = load_minimax_h3(config(path=str(tmp_path), load_format="dummy", dtype="bfloat16"), "cpu")
    frames, sound = make(dummy, num_frames=17)
    assert frames.shape == (3, 17, 32, 64)
    assert bool(torch.isfinite(frames).all() and torch.isfinite(sound).all())
    assert dummy._pipe.transformer.transformer_blocks[0].attn.to_q.weight.dtype == torch.bfloat16
    assert dummy._pipe.transformer.proj_out.weight.dtype == torch.float32


def test_before_the_first_request_a_clip_and_its_sound_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a GPU does while the model loads: one clip of seven latent frames, and five seconds of sound."""
    model = load_minimax_h3(config(), "cpu")
    asked: list[tuple[int, ...]] = []
    for vae in (model._pipe.vae, model._pipe.audio_vae):
        plain = vae.decode

        def decode(latents: torch.Tensor, *rest: Any, plain: Any = plain, **named: Any) -> Any:
            asked.append(tuple(latents.shape))
            return plain(latents, *rest, **named)

        monkeypatch.setattr(vae, "decode", decode)
    with torch.inference_mode():
        decode_once(model._pipe, "t2va", 96, 64, 124, torch.device("cpu"))
    (_, _, frames, *sides), sound = asked
    assert (frames, sides) == (7, [4, 6])
    assert (sound[0], sound[-1]) == (2, 207)  # 124 frames of 24 a second, 40 latents a second
