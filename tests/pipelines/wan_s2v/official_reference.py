"""What the official implementation makes of drawn weights and inputs, as the data of the agreement tests.

    python -m tests.pipelines.wan_s2v.official_reference FOLDER [DATA]

FOLDER is a checkout of github.com/Wan-Video/Wan2.2 (made with 42bf4cf); its code is imported and not copied.
It needs einops and easydict besides what is installed here. What it imports and this does not call (decord,
librosa, torchvision) is replaced by stand-ins, and flash-attention, which has no CPU version, by torch's own.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import sys
import types
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import diffusers.loaders  # noqa: F401 - looks for torchvision, before there is a stand-in
import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from PIL import Image
from safetensors.torch import save_file
from transformers import Wav2Vec2Config, Wav2Vec2FeatureExtractor, Wav2Vec2ForCTC

from tests.pipelines.wan_s2v import drawn_weights as drawn

DATA = Path(__file__).parent / "data"
FULL_SIZE = {
    "cond_dim": 16,
    "audio_dim": 1024,
    "num_audio_token": 4,
    "enable_adain": True,
    "audio_inject_layers": [0, 4, 8, 12, 16, 20, 24, 27, 30, 33, 36, 39],
    "zero_timestep": True,
    "enable_motioner": False,
    "enable_framepack": True,
    "framepack_drop_mode": "padd",
    "dim": 5120,
    "ffn_dim": 13824,
    "num_heads": 40,
    "num_layers": 40,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, help="the official repository")
    parser.add_argument("data", type=Path, nargs="?", default=DATA, help="where the data goes (%(default)s)")
    arguments = parser.parse_args()
    _prepare(arguments.folder)
    arguments.data.mkdir(exist_ok=True)
    _write_names(arguments.data)
    tensors = {**_forward(), **_features(), **_loops(), **_text()}
    save_file(
        {name: each.contiguous() for name, each in tensors.items()}, arguments.data / "reference.safetensors"
    )


def _prepare(folder: Path) -> None:
    """The official packages without what their `__init__.py` would import, on a machine without GPU."""
    sys.path.insert(0, str(folder))
    for name in ("wan", "wan.modules", "wan.modules.s2v", "wan.distributed", "wan.utils"):
        package = types.ModuleType(name)
        package.__path__ = [str(folder / name.replace(".", "/"))]
        sys.modules[name] = package
    for name in (
        "decord",
        "librosa",
        "torchvision",
        "torchvision.transforms",
        "torchvision.transforms.functional",
    ):
        sys.modules.setdefault(name, MagicMock())
    torch.cuda.current_device = lambda: 0  # a default argument of theirs
    for name in ("modules.model", "modules.s2v.model_s2v", "modules.s2v.motioner"):
        _official(name).flash_attention = _attention


def _official(name: str) -> Any:
    return importlib.import_module(f"wan.{name}")


def _attention(q: Any, k: Any, v: Any, k_lens: Any = None, **_: Any) -> torch.Tensor:
    assert k_lens is None or bool((k_lens == k.shape[1]).all())
    out = F.scaled_dot_product_attention(*(each.transpose(1, 2).to(v.dtype) for each in (q, k, v)))
    return out.transpose(1, 2)


def _write_names(folder: Path) -> None:
    """Name and shape of every weight of the published checkpoint, from modules that hold none."""
    with torch.device("meta"):
        parts = {
            "transformer": _official("modules.s2v.model_s2v").WanModel_S2V(**FULL_SIZE),
            "text_encoder": _official("modules.t5").umt5_xxl(encoder_only=True, device="meta"),
            "vae": _official("modules.vae2_1").WanVAE_(
                dim=96, z_dim=16, dim_mult=[1, 2, 4, 4], temperal_downsample=[False, True, True]
            ),
        }
    lines = [
        f"{part} {name} {'x'.join(map(str, tensor.shape))}\n"
        for part, module in parts.items()
        for name, tensor in module.state_dict().items()
    ]
    with gzip.GzipFile(folder / "official_names.txt.gz", "wb", mtime=0) as file:
        file.write("".join(lines).encode())


def _transformer() -> Any:
    model = _official("modules.s2v.model_s2v").WanModel_S2V(**drawn.TRANSFORMER).eval().requires_grad_(False)
    model.load_state_dict(drawn.weights(model.state_dict()))
    return model


def _forward() -> dict[str, torch.Tensor]:
    model, given = _transformer(), drawn.forward_inputs()
    times = {"forward": 737.0, "forward_dropped": 41.0, "forward_short": 999.0}
    changes: dict[str, dict[str, Any]] = {
        "forward": {},
        "forward_dropped": {"drop_motion_frames": True, "cond_states": [given["poses"] * 0]},
        "forward_short": {"motion_latents": [given["motion"][:, :5]], "motion_frames": [17, 5]},
    }
    made = {}
    for name, change in changes.items():
        call = {
            "context": [given["text"]],
            "seq_len": 0,
            "ref_latents": [given["reference"]],
            "motion_latents": [given["motion"]],
            "cond_states": [given["poses"]],
            "audio_input": given["audio"],
            "motion_frames": [73, 19],
        }
        made[name] = model([given["latents"]], torch.tensor([times[name]]), **(call | change))[0]
    return made


def _features() -> dict[str, torch.Tensor]:
    module = _official("modules.s2v.audio_encoder")
    encoder = module.AudioEncoder.__new__(module.AudioEncoder)
    encoder.model = Wav2Vec2ForCTC(Wav2Vec2Config(**drawn.WAV2VEC)).eval().requires_grad_(False)
    encoder.model.load_state_dict(drawn.weights(encoder.model.state_dict()))
    encoder.processor = Wav2Vec2FeatureExtractor(return_attention_mask=True, do_normalize=True)
    encoder.video_rate = 30
    module.librosa.load = lambda *_, **__: (drawn.sound().numpy(), 16000)
    features = encoder.extract_audio_feat("", return_all_layers=True)
    made = {"features": features}
    for fps in drawn.FPS:
        rate = float(Fraction(fps))
        bucket, clips = encoder.get_audio_embed_bucket_fps(
            features[:2, :, :2], fps=rate, batch_frames=12, m=0
        )
        made[f"bucket {fps}"] = bucket
        made[f"clips {fps}"] = torch.tensor(clips)
    return made


def _loops() -> dict[str, torch.Tensor]:
    found = {}
    cases: dict[str, dict[str, Any]] = {
        "loop": {},
        "loop_first": {"init_first_frame": True},
        "loop_posed": {"pose_video": "film"},
    }
    for name, options in cases.items():
        clips = drawn.CLIPS[name]
        video = _pipeline(clips).generate(
            input_prompt="prompt",
            ref_image_path="picture",
            audio_path="sound",
            enable_tts=False,
            tts_prompt_audio=None,
            tts_prompt_text=None,
            tts_text=None,
            num_repeat=clips,
            max_area=drawn.SIDES[0] * drawn.SIDES[1],
            infer_frames=drawn.CLIP,
            shift=drawn.SHIFT,
            sampling_steps=drawn.STEPS,
            guide_scale=drawn.GUIDANCE,
            n_prompt="negative",
            seed=drawn.LOOP_SEED,
            offload_model=False,
            **options,
        )
        # The whole video, coarse, and its last frame, fine.
        found[name] = F.avg_pool2d(video.transpose(0, 1), 8)
        found[f"{name}_last"] = video[:, -1].half()
    return found


def _pipeline(clips: int) -> Any:
    transforms: Any = sys.modules["torchvision.transforms"]
    transforms.Resize = transforms.CenterCrop = lambda *_: lambda image: image  # it has the size already
    transforms.ToTensor = lambda: lambda image: torch.from_numpy(np.array(image)).permute(2, 0, 1) / 255
    vision: Any = sys.modules["torchvision"]
    vision.transforms = transforms
    module = _official("speech2video")
    module.Image = MagicMock(wraps=Image)
    module.Image.open = lambda _: Image.fromarray(drawn.picture().numpy())
    pipeline = module.WanS2V.__new__(module.WanS2V)
    pipeline.config = types.SimpleNamespace()
    pipeline.device = torch.device("cpu")
    pipeline.rank, pipeline.t5_cpu, pipeline.init_on_cpu = 0, True, False
    pipeline.num_train_timesteps, pipeline.param_dtype = 1000, torch.float32
    pipeline.motion_frames, pipeline.drop_first_motion, pipeline.fps = drawn.MOTION, True, 16
    pipeline.sample_neg_prompt = ""
    pipeline.noise_model, pipeline.vae = _transformer(), _vae()
    pipeline.text_encoder = lambda texts, _: [drawn.noise(texts[0], 7, 20)]
    embedded = drawn.noise("embedded", 1, drawn.AUDIO_LAYERS, 12, drawn.CLIP * clips)
    pipeline.encode_audio = lambda *_, **__: (embedded, clips)
    pipeline.read_last_n_frames = lambda *_, **__: drawn.film(drawn.CLIP * clips - 5).numpy()
    return pipeline


def _vae() -> Any:
    module = _official("modules.vae2_1")
    model = module.WanVAE_(
        dim=drawn.VAE_DIM, z_dim=16, dim_mult=[1, 2, 4, 4], temperal_downsample=[False, True, True]
    )
    model.load_state_dict(drawn.weights(model.state_dict()))
    make, module._video_vae = module._video_vae, lambda **_: model
    vae = module.Wan2_1_VAE(device="cpu")
    module._video_vae = make
    return vae


def _text() -> dict[str, torch.Tensor]:
    """The text encoder, tiny: ids with padding."""
    model = _official("modules.t5").umt5_xxl(
        encoder_only=True, vocab_size=40, dim=16, dim_attn=16, dim_ffn=24, num_heads=2, encoder_layers=2
    )
    model = model.eval().requires_grad_(False)
    model.load_state_dict(drawn.weights(model.state_dict()))
    ids = torch.tensor([[5, 39, 7, 1, 0, 0]])
    return {"text": model(ids, ids.gt(0))}


if __name__ == "__main__":
    with torch.inference_mode():
        main()
