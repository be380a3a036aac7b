"""Folders with the configuration files of the real Wan 2.2 models, for `load_format: dummy`.

diffusers' and transformers' own default arguments are the published architectures; only what differs is
written down here. The tokenizer is the shipped tiny one: random weights know no words.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pipelines.tiny_wan

_UMT5_XXL = {
    "architectures": ["UMT5EncoderModel"],
    "model_type": "umt5",
    "vocab_size": 256384,
    "d_model": 4096,
    "d_kv": 64,
    "d_ff": 10240,
    "num_layers": 24,
    "num_heads": 64,
    "feed_forward_proj": "gated-gelu",
    "dense_act_fn": "gelu_new",
    "is_gated_act": True,
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
    "tie_word_embeddings": False,
}
_SCHEDULER = {
    "_class_name": "UniPCMultistepScheduler",
    "num_train_timesteps": 1000,
    "prediction_type": "flow_prediction",
    "use_flow_sigmas": True,
    "flow_shift": 3.0,
}


def write_t2v_a14b(folder: Path) -> Path:
    """Write the architecture of Wan2.2-T2V-A14B: two experts of 14B, UMT5-XXL, the z16 VAE."""
    expert = {"_class_name": "WanTransformer3DModel"}
    parts: dict[str, tuple[str, str, dict[str, Any]]] = {
        "transformer": ("diffusers", "WanTransformer3DModel", expert),
        "transformer_2": ("diffusers", "WanTransformer3DModel", expert),
        "vae": ("diffusers", "AutoencoderKLWan", {"_class_name": "AutoencoderKLWan"}),
        "scheduler": ("diffusers", "UniPCMultistepScheduler", _SCHEDULER),
        "text_encoder": ("transformers", "UMT5EncoderModel", _UMT5_XXL),
    }
    return _write(folder, "WanPipeline", parts, {"boundary_ratio": 0.875, "expand_timesteps": False})


def _write(
    folder: Path, pipeline: str, parts: dict[str, tuple[str, str, dict[str, Any]]], options: dict[str, Any]
) -> Path:
    tiny = Path(pipelines.tiny_wan.__file__).parent / "t2v"
    index = json.loads((tiny / "model_index.json").read_text())
    index = {"_class_name": pipeline, "tokenizer": index["tokenizer"], **options}
    shutil.copytree(tiny / "tokenizer", folder / "tokenizer")
    for name, (library, kind, config) in parts.items():
        index[name] = [library, kind]
        file = "scheduler_config.json" if name == "scheduler" else "config.json"
        (folder / name).mkdir()
        (folder / name / file).write_text(json.dumps(config, indent=2))
    (folder / "model_index.json").write_text(json.dumps(index, indent=2))
    return folder
