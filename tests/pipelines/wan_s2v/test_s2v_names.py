"""The key map against the names and shapes of the published checkpoint, both ways, with nothing left over."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from diffusers import AutoencoderKLWan
from diffusers.loaders.single_file_utils import convert_wan_vae_to_diffusers
from transformers import UMT5Config, UMT5EncoderModel

from pipelines.errors import LoadFailed
from pipelines.wan_s2v.names import text_encoder_weights, transformer_name, transformer_weights
from pipelines.wan_s2v.official import transformer_config
from pipelines.wan_s2v.transformer import INJECT_LAYERS, WanS2VTransformer3DModel
from tests.pipelines.wan_s2v.official_names import official_shapes

OFFICIAL_CONFIG = {
    "model_type": "s2v",
    "dim": 5120,
    "ffn_dim": 13824,
    "num_heads": 40,
    "num_layers": 40,
    "cond_dim": 16,
    "audio_dim": 1024,
    "num_audio_token": 4,
    "audio_inject_layers": list(INJECT_LAYERS),
    "enable_adain": True,
    "zero_timestep": True,
    "enable_motioner": False,
    "enable_framepack": True,
    "framepack_drop_mode": "padd",
}


def empty(part: str) -> dict[str, torch.Tensor]:
    return {name: torch.empty(shape, device="meta") for name, shape in official_shapes(part).items()}


def shapes(state: dict[str, torch.Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in state.items()}


def test_every_weight_of_the_transformer_has_its_place() -> None:
    """Those of the official file are those of ours, by name and shape."""
    with torch.device("meta"):
        model: Any = WanS2VTransformer3DModel(**transformer_config(OFFICIAL_CONFIG))
    official = empty("transformer")
    mapped = transformer_weights(official, INJECT_LAYERS)
    assert len(mapped) == len(official) == 1260
    assert shapes(mapped) == shapes(model.state_dict())


def test_every_weight_of_the_text_encoder_has_its_place() -> None:
    """umT5-XXL; transformers holds the table of words under two names."""
    with torch.device("meta"):
        config = UMT5Config(
            vocab_size=256384, d_model=4096, d_kv=64, d_ff=10240, num_layers=24, num_heads=64,
            feed_forward_proj="gated-gelu",
        )  # fmt: skip
        ours = shapes(UMT5EncoderModel(config).state_dict())
    official = empty("text_encoder")
    assert shapes(text_encoder_weights(official)) == {
        name: shape for name, shape in ours.items() if name != "encoder.embed_tokens.weight"
    }
    assert len(official) == len(ours) - 1


def test_every_weight_of_the_vae_has_its_place() -> None:
    """diffusers' own map."""
    with torch.device("meta"):
        ours = shapes(AutoencoderKLWan().state_dict())
    official = empty("vae")
    assert shapes(convert_wan_vae_to_diffusers(dict(official))) == ours
    assert len(official) == len(ours)


def test_an_unknown_weight_is_named() -> None:
    with pytest.raises(ValueError, match=r"^blocks\.0\.self_attn\.r\.weight is the name of no weight"):
        transformer_name("blocks.0.self_attn.r.weight", INJECT_LAYERS)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"enable_motioner": True}, "enable_motioner is True; it must be False"),
        ({"adain_mode": "other"}, "adain_mode is 'other'; it must be 'attn_norm'"),
        ({"zero_timestep": None}, "zero_timestep is None; it must be True"),
    ],
)
def test_a_switch_of_no_published_model_is_refused(change: dict[str, object], told: str) -> None:
    with pytest.raises(LoadFailed, match=told):
        transformer_config(OFFICIAL_CONFIG | change)


def test_a_missing_entry_is_named() -> None:
    without = {name: value for name, value in OFFICIAL_CONFIG.items() if name != "ffn_dim"}
    with pytest.raises(LoadFailed, match="ffn_dim is missing"):
        transformer_config(without)
