"""x"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.errors import LoadFailed

_NAMES = {
    "dim": None,
    "num_heads": "num_attention_heads",
    "in_dim": "in_channels",
    "out_dim": "out_channels",
    "freq_dim": "freq_dim",
    "ffn_dim": "ffn_dim",
    "num_layers": "num_layers",
    "eps": "eps",
    "cond_dim": "pose_channels",
    "audio_dim": "audio_dim",
    "num_audio_token": "audio_tokens",
    "audio_inject_layers": "audio_inject_layers",
}
"""Official configuration → ours; with the official defaults where a file leaves one out."""

_DEFAULTS = {"in_dim": 16, "out_dim": 16, "freq_dim": 256, "eps": 1e-6, "num_audio_token": 4}

_ONLY = {
    "enable_adain": True,
    "adain_mode": "attn_norm",
    "zero_timestep": True,
    "add_last_motion": True,
    "enable_motioner": False,
    "enable_tsm": False,
    "enable_framepack": True,
    "framepack_drop_mode": "padd",
    "model_type": "s2v",
}
"""Switches of the official code, and the values that the published model has."""
_SWITCHED_OFF = {"add_last_motion": True, "enable_tsm": False, "adain_mode": "attn_norm", "model_type": "s2v"}


def transformer_config(official: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Arguments of `WanS2VTransformer3DModel` for the official `config.json`; `more` are further ones.

    Raises:
        LoadFailed: a switch is set as in no published model, or a value is missing.
    """
    for name, value in _ONLY.items():
        found = official.get(name, _SWITCHED_OFF.get(name))
        if found != value:
            raise LoadFailed(f"config.json: {name} is {found!r}; it must be {value!r}")
    known = _DEFAULTS | dict(official)
    missing = [name for name in _NAMES if name not in known]
    if missing:
        raise LoadFailed(f"config.json: {missing[0]} is missing")
    config = {ours: known[name] for name, ours in _NAMES.items() if ours is not None}
    config["audio_inject_layers"] = tuple(config["audio_inject_layers"])
    return config | {"attention_head_dim": known["dim"] // known["num_heads"]} | more
