"""Whole videos, clip by clip, against what the official loop made of the same weights, noise and sound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom

from pipelines.base import Chunk
from pipelines.wan_s2v import speech as module
from pipelines.wan_s2v.clips import DROPPED
from tests.pipelines.tiny_models import Recorder, params_for
from tests.pipelines.wan_s2v import drawn_weights as drawn
from tests.pipelines.wan_s2v.official_names import REFERENCE
from tests.pipelines.wan_s2v.s2v_models import ffv1, png, speech, wav


@pytest.mark.parametrize("name", ["loop", "loop_first", "loop_posed"])
def test_clips_are_the_official_ones(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every frame in blocks of 8 × 8 pixels, the last one pixel by pixel.

    The official first clip hears and sees what belongs to the three frames that it drops. Ours gets the same
    columns, and a film that begins three frames later, with a picture that stands still until then.
    """
    total = drawn.CLIP * drawn.CLIPS[name]
    embedded = drawn.noise("embedded", 1, drawn.AUDIO_LAYERS, 12, total)
    started = name == "loop_first"
    lead = 0 if started else DROPPED

    def columns(_: object, fps: object, first: int, count: int) -> torch.Tensor:
        return embedded[..., first + lead : first + lead + count]

    monkeypatch.setattr(module, "heard", lambda *_: embedded)
    monkeypatch.setattr(module, "align", columns)
    given: dict[str, Any] = {
        "prompt": "prompt",
        "negative_prompt": "negative",
        "seed": drawn.LOOP_SEED,
        "image": png(tmp_path / "picture.png", drawn.picture()),
        "audio": wav(tmp_path / "sound.wav", torch.zeros(2, 48_000)),
        "num_frames": total - lead,
        "init_first_frame": started,
    }
    if name == "loop_posed":
        film = drawn.film(total - 5)
        given["video"] = ffv1(tmp_path / "film.mkv", film[DROPPED:], 16)
    model = speech()
    parts = list(model.generate(params_for(model, **given), Recorder()))
    video = torch.cat([part.frames for part in parts if isinstance(part, Chunk)], dim=1)
    coarse = F.avg_pool2d(video.transpose(0, 1), 8)
    torch.testing.assert_close(coarse, REFERENCE[name], rtol=0, atol=2e-5)
    torch.testing.assert_close(video[:, -1], REFERENCE[f"{name}_last"].float(), rtol=0, atol=1e-3)
