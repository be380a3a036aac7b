"""Folders with the configuration files of the real models, for `load_format: dummy`.

diffusers' and transformers' own default arguments are the published architectures; only what differs is
written down here. The tokenizer is the shipped tiny one: random weights know no words.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pipelines.tiny_h3
import pipelines.tiny_wan
from pipelines.tiny_wan import nets

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


_QWEN3_VL_32B = {
    "architectures": ["Qwen3VLForConditionalGeneration"],
    "model_type": "qwen3_vl",
    "tie_word_embeddings": False,
    "text_config": {
        "model_type": "qwen3_vl_text",
        "vocab_size": 151936,
        "hidden_size": 5120,
        "intermediate_size": 25600,
        "num_hidden_layers": 64,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 5000000.0,
            "mrope_section": [24, 20, 20],
            "mrope_interleaved": True,
        },
    },
    "vision_config": {"model_type": "qwen3_vl_vision", "out_hidden_size": 5120},
}
"""33.4 billion parameters; the sides that are not named are transformers' defaults."""
H3_AUDIO_LATENTS = {"latents_mean": [0.0] * 32, "latents_std": [1.0] * 32}

_WAV2VEC_LARGE = {
    "architectures": ["Wav2Vec2Model"],
    "model_type": "wav2vec2",
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
    "do_stable_layer_norm": True,
    "feat_extract_norm": "layer",
    "conv_bias": True,
}
"""315 million parameters; what is not named are transformers' defaults."""
_EXTRACTOR = {"do_normalize": True, "return_attention_mask": True, "sampling_rate": 16_000, "feature_size": 1}

Part = tuple[str, str, dict[str, Any]]

_Z16 = ("diffusers", "AutoencoderKLWan", {"_class_name": "AutoencoderKLWan"})
Z48: dict[str, Any] = {
    "base_dim": 160,
    "decoder_base_dim": 256,
    "latents_mean": [0.0] * nets.Z48_CHANNELS,
    "latents_std": [1.0] * nets.Z48_CHANNELS,
    **nets.Z48,
}
"""The VAE of Wan 2.2 5B; diffusers' default arguments are z16."""


def write(model: str, folder: Path) -> Path:
    """Write the architecture of a model of `configs/` into an empty folder.

    `t2v-a14b` and `i2v-a14b` have two experts of 14B and the z16 VAE, `ti2v-5b` one of 5B and the z48 VAE;
    the text encoder is UMT5-XXL throughout. `s2v-14b` has one of 16B, the z16 VAE and a large wav2vec2.
    `minimax-h3` has both transformers of 33B, and Qwen3-VL-32B.
    """
    if model == "minimax-h3":
        return _write_h3(folder)
    pipeline, parts, options = {"t2v-a14b": _t2v, "i2v-a14b": _i2v, "ti2v-5b": _ti2v, "s2v-14b": _s2v}[
        model
    ]()
    return _write(folder, pipeline, parts, options)


def _transformer(**changes: int) -> Part:
    return ("diffusers", "WanTransformer3DModel", {"_class_name": "WanTransformer3DModel", **changes})


def _t2v() -> tuple[str, dict[str, Part], dict[str, Any]]:
    parts = {"transformer": _transformer(), "transformer_2": _transformer(), "vae": _Z16}
    return "WanPipeline", parts, {"boundary_ratio": 0.875, "expand_timesteps": False}


def _i2v() -> tuple[str, dict[str, Part], dict[str, Any]]:
    expert = _transformer(in_channels=36)
    options: dict[str, Any] = {"boundary_ratio": 0.9, "expand_timesteps": False}
    options |= {"image_encoder": [None, None], "image_processor": [None, None]}
    return "WanImageToVideoPipeline", {"transformer": expert, "transformer_2": expert, "vae": _Z16}, options


def _ti2v() -> tuple[str, dict[str, Part], dict[str, Any]]:
    transformer = _transformer(
        num_attention_heads=24, in_channels=48, out_channels=48, ffn_dim=14336, num_layers=30
    )
    vae = ("diffusers", "AutoencoderKLWan", {"_class_name": "AutoencoderKLWan", **Z48})
    options = {"boundary_ratio": None, "expand_timesteps": True, "transformer_2": [None, None]}
    return "WanPipeline", {"transformer": transformer, "vae": vae}, options


def _s2v() -> tuple[str, dict[str, Part], dict[str, Any]]:
    kind = "WanS2VTransformer3DModel"
    parts: dict[str, Part] = {
        "transformer": ("pipelines.wan_s2v.transformer", kind, {"_class_name": kind}),
        "vae": _Z16,
        "audio_encoder": ("transformers", "Wav2Vec2Model", _WAV2VEC_LARGE),
        "audio_extractor": ("transformers", "Wav2Vec2FeatureExtractor", _EXTRACTOR),
    }
    return "WanS2VPipeline", parts, {"clip_frames": 80}


_FILES = {"scheduler": "scheduler_config.json", "audio_extractor": "preprocessor_config.json"}
"""Of parts whose configuration is not in `config.json`."""


def _write_h3(folder: Path) -> Path:
    """The tiny checkpoint's layout and tokenizer, with the released sizes: diffusers' default arguments."""
    tiny = Path(pipelines.tiny_h3.__file__).parent / "checkpoint"
    for name in ("modular_model_index.json", "tokenizer", "processor", "scheduler", "audio_scheduler"):
        copy = shutil.copytree if (tiny / name).is_dir() else shutil.copy
        copy(tiny / name, folder / name)
    for name in ("transformer", "transformer_ref", "vae", "audio_vae"):
        kind = json.loads((tiny / name / "config.json").read_text())["_class_name"]
        more = H3_AUDIO_LATENTS if name == "audio_vae" else {}
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps({"_class_name": kind, **more}))
    small = json.loads((tiny / "text_encoder" / "config.json").read_text())
    marks = {key: value for key, value in small.items() if key.endswith("_token_id")}
    (folder / "text_encoder").mkdir()
    (folder / "text_encoder" / "config.json").write_text(json.dumps(_QWEN3_VL_32B | marks, indent=2))
    index = json.loads((folder / "modular_model_index.json").read_text())
    canvas = {"canvas_short_edge": 768, "canvas_max_pixels": 768 * 1344, "reference_image_short_edge": 2048}
    (folder / "modular_model_index.json").write_text(json.dumps(index | canvas, indent=2))
    eyes = json.loads((folder / "processor" / "processor_config.json").read_text())
    for side in ("image_processor", "video_processor"):
        eyes[side] |= {"patch_size": 16, "size": {"shortest_edge": 65536, "longest_edge": 16777216}}
    (folder / "processor" / "processor_config.json").write_text(json.dumps(eyes, indent=2))
    return folder


def _write(folder: Path, pipeline: str, parts: dict[str, Part], options: dict[str, Any]) -> Path:
    tiny = Path(pipelines.tiny_wan.__file__).parent / "t2v"
    index = json.loads((tiny / "model_index.json").read_text())
    index = {"_class_name": pipeline, "tokenizer": index["tokenizer"], **options}
    shutil.copytree(tiny / "tokenizer", folder / "tokenizer")
    common = {
        "scheduler": ("diffusers", "UniPCMultistepScheduler", _SCHEDULER),
        "text_encoder": ("transformers", "UMT5EncoderModel", _UMT5_XXL),
    }
    for name, (library, kind, config) in (parts | common).items():
        index[name] = [library, kind]
        file = _FILES.get(name, "config.json")
        (folder / name).mkdir()
        (folder / name / file).write_text(json.dumps(config, indent=2))
    (folder / "model_index.json").write_text(json.dumps(index, indent=2))
    return folder
