"""The official checkpoint's files (Wan-AI/Wan2.2-S2V-14B) as our components.

```
config.json, diffusion_pytorch_model*.safetensors   the transformer
models_t5_umt5-xxl-enc-bf16.pth, google/umt5-xxl/   text encoder, tokenizer
Wan2.1_VAE.pth                                      VAE
wav2vec2-large-xlsr-53-english/                     the sound's encoder, as transformers has it
```
The weights' names are mapped by `names.py`, the VAE's by diffusers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import torch
from diffusers import AutoencoderKLWan
from diffusers.loaders.single_file_utils import convert_wan_vae_to_diffusers
from safetensors.torch import load_file
from transformers import AutoTokenizer, UMT5Config, UMT5EncoderModel, Wav2Vec2FeatureExtractor, Wav2Vec2Model

from pipelines.errors import LoadFailed
from pipelines.wan_denoise import unipc
from pipelines.wan_s2v.components import WanS2VPipeline
from pipelines.wan_s2v.names import text_encoder_weights, transformer_weights
from pipelines.wan_s2v.transformer import WanS2VTransformer3DModel

TEXT_ENCODER = "models_t5_umt5-xxl-enc-bf16.pth"
TOKENIZER = "google/umt5-xxl"
VAE = "Wan2.1_VAE.pth"
AUDIO_ENCODER = "wav2vec2-large-xlsr-53-english"
FLOW_SHIFT = 3.0

_RENAMED = {
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
"""Entries of the official `config.json`, and ours."""
_DEFAULTS = {"in_dim": 16, "out_dim": 16, "freq_dim": 256, "eps": 1e-6, "num_audio_token": 4}
"""The official code's, for what the file leaves out."""
_SWITCHES = {
    "model_type": "s2v",
    "enable_adain": True,
    "adain_mode": "attn_norm",
    "zero_timestep": True,
    "add_last_motion": True,
    "enable_motioner": False,
    "enable_tsm": False,
    "enable_framepack": True,
    "framepack_drop_mode": "padd",
}
"""What the official code can be switched to, and how the published model is."""
_DEFAULT_SWITCHES = {
    "model_type": "s2v",
    "adain_mode": "attn_norm",
    "add_last_motion": True,
    "enable_tsm": False,
}


def is_official(folder: Path) -> bool:
    """Whether a folder is laid out as the official checkpoint."""
    return (folder / "config.json").is_file() and not (folder / "model_index.json").exists()


def load_official(folder: Path, dtype: torch.dtype) -> WanS2VPipeline:
    """All of the folder's parts, on the CPU.

    Raises:
        LoadFailed: a weight or a part of the configuration that does not fit.
        OSError: a file is missing.
    """
    for name in (TOKENIZER, TEXT_ENCODER, VAE, AUDIO_ENCODER):
        if not (folder / name).exists():  # or the libraries would look for it on the hub
            raise FileNotFoundError(f"{name} is missing, which the official checkpoint has")
    return WanS2VPipeline(
        tokenizer=AutoTokenizer.from_pretrained(folder / TOKENIZER),
        text_encoder=load_text_encoder(_pickled(folder / TEXT_ENCODER), dtype),
        vae=load_vae(_pickled(folder / VAE), dtype),
        scheduler=unipc(FLOW_SHIFT),
        transformer=load_transformer(folder, dtype),
        audio_encoder=Wav2Vec2Model.from_pretrained(folder / AUDIO_ENCODER, dtype=torch.float32),
        audio_extractor=Wav2Vec2FeatureExtractor.from_pretrained(folder / AUDIO_ENCODER),
    )


def transformer_config(official: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Arguments of `WanS2VTransformer3DModel` for the official `config.json`; `more` are further ones.

    Raises:
        LoadFailed: a switch is set as in no published model, or an entry is missing.
    """
    for name, value in _SWITCHES.items():
        found = official.get(name, _DEFAULT_SWITCHES.get(name))
        if found != value:
            raise LoadFailed(f"config.json: {name} is {found!r}; it must be {value!r}")
    known = _DEFAULTS | dict(official)
    missing = [name for name in ("dim", *_RENAMED) if name not in known]
    if missing:
        raise LoadFailed(f"config.json: {missing[0]} is missing")
    config = {ours: known[name] for name, ours in _RENAMED.items()}
    return config | {"attention_head_dim": known["dim"] // known["num_heads"]} | more


def load_transformer(folder: Path, dtype: torch.dtype) -> WanS2VTransformer3DModel:
    """From `config.json` and the `.safetensors` files of `folder`."""
    config = transformer_config(json.loads((folder / "config.json").read_text()))
    official = {name: tensor for file in _shards(folder) for name, tensor in load_file(file).items()}
    weights = transformer_weights(official, config["audio_inject_layers"])
    with torch.device("meta"):
        model: Any = WanS2VTransformer3DModel(**config)
    rope = type(model.rope)(
        config["attention_head_dim"], model.config.patch_size, model.config.rope_max_seq_len
    )
    model.rope = rope  # its tables are in no checkpoint
    kept = set(model._keep_in_fp32_modules)
    typed = {
        name: tensor.to(torch.float32 if kept & set(name.split(".")) else dtype)
        for name, tensor in weights.items()
    }
    return cast(WanS2VTransformer3DModel, _filled(model, typed, "the transformer"))


def load_text_encoder(official: Mapping[str, torch.Tensor], dtype: torch.dtype) -> UMT5EncoderModel:
    """From the official state; its sizes tell the configuration."""
    weights = {name: tensor.to(dtype) for name, tensor in text_encoder_weights(official).items()}
    first = "encoder.block.0.layer"
    buckets, heads = weights[f"{first}.0.SelfAttention.relative_attention_bias.weight"].shape
    vocab, dim = weights["shared.weight"].shape
    config = UMT5Config(
        vocab_size=vocab,
        d_model=dim,
        d_kv=weights[f"{first}.0.SelfAttention.q.weight"].shape[0] // heads,
        d_ff=weights[f"{first}.1.DenseReluDense.wo.weight"].shape[1],
        num_layers=sum(name.endswith("SelfAttention.q.weight") for name in weights),
        num_heads=heads,
        relative_attention_num_buckets=buckets,
        feed_forward_proj="gated-gelu",
    )
    with torch.device("meta"):
        model = UMT5EncoderModel(config)
    weights["encoder.embed_tokens.weight"] = weights["shared.weight"]
    return _filled(model, weights, TEXT_ENCODER)


def load_vae(official: Mapping[str, torch.Tensor], dtype: torch.dtype) -> AutoencoderKLWan:
    """From the official state of Wan 2.1's VAE, of any width."""
    weights = convert_wan_vae_to_diffusers(dict(official))
    with torch.device("meta"):
        model = AutoencoderKLWan(base_dim=weights["encoder.conv_in.weight"].shape[0])
    return _filled(model, {name: tensor.to(dtype) for name, tensor in weights.items()}, VAE)


def _filled(model: Any, weights: Mapping[str, torch.Tensor], whose: str) -> Any:
    try:
        model.load_state_dict(weights, assign=True)
    except RuntimeError as error:
        raise LoadFailed(f"{whose}: {' '.join(str(error).split())}") from None
    return model.eval().requires_grad_(False)


def _shards(folder: Path) -> Iterator[Path]:
    files = sorted(folder.glob("diffusion_pytorch_model*.safetensors"))
    if not files:
        raise FileNotFoundError(f"{folder} holds no diffusion_pytorch_model*.safetensors")
    yield from files


def _pickled(file: Path) -> Mapping[str, torch.Tensor]:
    state: Mapping[str, torch.Tensor] = torch.load(file, map_location="cpu", mmap=True, weights_only=True)
    return state
