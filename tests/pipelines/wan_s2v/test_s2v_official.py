"""The official files, tiny: read, converted, and the same model either way."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import Wav2Vec2Config, Wav2Vec2FeatureExtractor, Wav2Vec2ForCTC

import pipelines.tiny_wan
from pipelines.errors import LoadFailed
from pipelines.wan_s2v import official
from pipelines.wan_s2v.convert import main
from pipelines.wan_s2v.load import read_checkpoint
from tests.pipelines.wan_s2v import drawn_weights as drawn
from tests.pipelines.wan_s2v.official_names import REFERENCE, official_like, official_shapes
from tests.pipelines.wan_s2v.s2v_models import transformer, vae_weights

TEXT_DIM = 4096
"""What the official code assumes: its configuration does not say it."""


def text_weights(dim: int = 16) -> dict[str, torch.Tensor]:
    """The official text encoder's, with two blocks of two heads and 40 words."""
    sizes = {4096: dim, 10240: 24, 64: 2, 256384: 40}
    like = {
        name: torch.empty([sizes.get(size, size) for size in shape], device="meta")
        for name, shape in official_shapes("text_encoder").items()
        if not name.startswith("blocks.") or int(name.split(".")[1]) < 2
    }
    return drawn.weights(like)


def test_the_text_encoder_says_the_same() -> None:
    """umT5 of transformers, with the official weights."""
    model = official.load_text_encoder(text_weights(), torch.float32)
    ids = torch.tensor([[5, 39, 7, 1, 0, 0]])
    made = model(ids, ids.gt(0)).last_hidden_state
    torch.testing.assert_close(made[:, :4], REFERENCE["text"][:, :4], rtol=1e-5, atol=1e-5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Laid out as the published checkpoint, its transformer in two files."""
    root = tmp_path_factory.mktemp("official")
    config = {name: value for name, value in drawn.TRANSFORMER.items() if name != "text_dim"}
    (root / "config.json").write_text(json.dumps({"_class_name": "WanModel_S2V", **config}))
    model = transformer()
    like = official_like(model.state_dict(), model.config.audio_inject_layers)
    like["text_embedding.0.weight"] = torch.empty(drawn.TRANSFORMER["dim"], TEXT_DIM, device="meta")
    weights = drawn.weights(like)
    for number, names in enumerate((sorted(weights)[::2], sorted(weights)[1::2]), 1):
        shard = {name: weights[name] for name in names}
        save_file(shard, root / f"diffusion_pytorch_model-{number:05}-of-00002.safetensors")
    torch.save(text_weights(), root / official.TEXT_ENCODER)
    torch.save(vae_weights(), root / official.VAE)
    shutil.copytree(Path(pipelines.tiny_wan.__file__).parent / "t2v/tokenizer", root / official.TOKENIZER)
    Wav2Vec2ForCTC(Wav2Vec2Config(**drawn.WAV2VEC)).save_pretrained(root / official.AUDIO_ENCODER)
    Wav2Vec2FeatureExtractor(do_normalize=True).save_pretrained(root / official.AUDIO_ENCODER)
    return root


def test_converted_it_is_the_same_model(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every weight of every part, and what the scheduler and the pipeline are set to."""
    target = tmp_path / "converted"
    monkeypatch.setattr(sys, "argv", ["convert", str(folder), str(target), "--dtype", "float32"])
    assert main() == 0
    there, here = read_checkpoint(folder, torch.float32), read_checkpoint(target, torch.float32)
    assert there.config["clip_frames"] == here.config["clip_frames"] == 80
    assert here.scheduler.config.flow_shift == 3.0
    for part in ("transformer", "text_encoder", "vae", "audio_encoder"):
        one, other = getattr(there, part).state_dict(), getattr(here, part).state_dict()
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one), part


def test_what_is_kept_in_float32_is(folder: Path) -> None:
    """As diffusers' loader does it: times and norms, of a model in bfloat16."""
    model = official.load_transformer(folder, torch.bfloat16)
    types = {name: tensor.dtype for name, tensor in model.state_dict().items()}
    assert types["blocks.0.scale_shift_table"] == torch.float32
    assert types["condition_embedder.time_embedder.linear_1.weight"] == torch.float32
    assert types["blocks.0.attn1.to_q.weight"] == types["patch_embedding.weight"] == torch.bfloat16


def test_a_weight_that_is_missing_is_named(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    file = tmp_path / "diffusion_pytorch_model-00001-of-00002.safetensors"
    weights = load_file(file)
    del weights[min(weights)]
    save_file(weights, file)
    with pytest.raises(LoadFailed, match=r"the transformer: .*Missing key"):
        official.load_transformer(tmp_path, torch.float32)


def test_the_command_refuses_what_it_cannot_convert(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder of another kind, and a target that holds something."""
    for source, target, told in (
        (tmp_path, tmp_path / "new", "is not laid out"),
        (folder, folder, "not empty"),
    ):
        monkeypatch.setattr(sys, "argv", ["convert", str(source), str(target)])
        assert main() == 1
        assert told in capsys.readouterr().err
