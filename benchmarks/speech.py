"""Speech to video, from a request to a closed MP4: encoded while the next clip is denoised, and afterwards.

    python -m benchmarks.speech [--model 14b] [--size 448x448] [--frames 77] [--steps 4] [--repeat 3]

`14b`: the published architecture with random weights, on a GPU; `tiny`: the shipped checkpoint. Both variants
are warmed once; then they take turns, in the one order and in the other, and each time to the closed file is
printed at once. In the end medians: seconds to the first fragment of a live stream, and to the closed file.
77 frames are one clip; the encoder has something to do beside the next clip from 78 frames on, such as with
`--frames 237`, three clips.
"""

from __future__ import annotations

import argparse
import math
import struct
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import torch
from PIL import Image

import pipelines.tiny_wan
from benchmarks.architectures import write
from benchmarks.figures import device_name, take_turns
from encoding.base import AudioSpec, OutputSpec
from encoding.formats import FORMATS, open_sink
from encoding.options import resolve
from pipelines.base import Chunk, GenerationParams, ModelConfig, ModelLimits, Pipeline, Sound
from pipelines.direct import Unheard, usual_params
from pipelines.registry import load

FPS = Fraction(16)
RATE = 48_000
VARIANTS = ("overlapped", "afterwards")


@dataclass(frozen=True, slots=True)
class Case:
    """A loaded model, what it is asked for, and where the file goes."""

    pipeline: Pipeline
    params: GenerationParams
    spec: OutputSpec

    def run(self, variant: str) -> Mapping[str, float]:
        """Seconds from the request on: to the first fragment, the last chunk and the closed file."""
        begun = time.monotonic()
        first: list[float] = []

        def live(data: bytes) -> None:
            if not first and b"moof" in data:  # the header alone shows nothing
                first.append(time.monotonic() - begun)

        parts: Iterable[Chunk | Sound] = self.pipeline.generate(self.params, Unheard())
        if variant == "afterwards":
            parts = list(parts)
            _settle()
        generated = time.monotonic() - begun
        with open_sink(self.spec, live) as sink:
            for part in parts:
                if isinstance(part, Sound):
                    sink.write_sound(part.samples, part.sample_rate)
                else:
                    sink.write(part.frames)
            if variant == "overlapped":
                _settle()
                generated = time.monotonic() - begun
            sink.finish().result()
        return {"fragment": first[0], "generated": generated, "file": time.monotonic() - begun}


def _settle() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory() as folder:
        case = make_case(options, Path(folder))
        device = device_name(on_gpu=torch.cuda.is_available())
        asked = f"{options.model}, {options.size}, {options.frames} frames"
        print(f"{device}, torch {torch.__version__}: {asked}")
        turns = {variant: partial(case.run, variant) for variant in VARIANTS}
        medians = take_turns(turns, 2 * options.repeat, options, device, time_of="file", both_orders=True)
    for variant, row in medians.items():
        told = "  ".join(f"{name} {seconds:8.3f} s" for name, seconds in row.items() if name != "fastest")
        print(f"{variant:12} {told}")
    gain = medians["afterwards"]["file"] - medians["overlapped"]["file"]
    sooner = medians["afterwards"]["fragment"] - medians["overlapped"]["fragment"]
    runs = f"{2 * options.repeat} runs each"
    print(f"overlap: {gain:.3f} s to the file, {sooner:.3f} s to the first fragment; {runs}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=["tiny", "14b"], default="tiny")
    parser.add_argument("--size", default="448x448")
    parser.add_argument("--frames", type=int, default=77)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--repeat", type=int, default=3, help="pairs of rounds, one in each order")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def make_case(options: argparse.Namespace, folder: Path) -> Case:
    """The model on the best device, a picture, and a tone as long as the video."""
    width, height = map(int, options.size.split("x"))
    gpu = torch.cuda.is_available()
    config = ModelConfig(
        id="speech",
        kind="wan-s2v",
        path=str(_checkpoint(options.model, folder)),
        dtype="bfloat16" if gpu else "float32",
        width=width,
        height=height,
        num_frames=options.frames,
        fps=FPS,
        num_inference_steps=options.steps,
        guidance_scale=4.5,
        limits=ModelLimits(max_pixels=width * height, max_num_frames=options.frames),
        load_format="dummy" if options.model == "14b" else "auto",
    )
    pipeline = load(config, "cuda:0" if gpu else "cpu")
    spec = OutputSpec(
        path=folder / "video.mp4",
        format="mp4",
        width=width,
        height=height,
        num_frames=options.frames,
        fps=FPS,
        codec_options=resolve(FORMATS["mp4"].codec, None, present=False),
        audio=AudioSpec(RATE, 2),
    )
    return Case(pipeline, _params(pipeline, options.frames, folder), spec)


def _checkpoint(model: str, folder: Path) -> Path:
    if model == "tiny":
        return Path(pipelines.tiny_wan.__file__).parent / "s2v"
    target = folder / "s2v-14b"
    target.mkdir()
    return write("s2v-14b", target)


def _params(pipeline: Pipeline, frames: int, folder: Path) -> GenerationParams:
    Image.linear_gradient("L").convert("RGB").save(folder / "picture.png")
    _write_tone(folder / "voice.wav", frames / float(FPS))
    return replace(
        usual_params(pipeline.info, "a woman speaks", seed=0),
        num_frames=frames,
        image=folder / "picture.png",
        audio=folder / "voice.wav",
        fps=FPS,
    )


def _write_tone(path: Path, seconds: float) -> None:
    """440 Hz, mono, 32-bit floats, as the server stores a sound."""
    count = math.ceil(seconds * RATE)
    samples = torch.sin(2 * math.pi * 440 * torch.arange(count) / RATE).numpy().tobytes()
    head = struct.pack("<4sIHHIIHH", b"fmt ", 16, 3, 1, RATE, 4 * RATE, 4, 32)
    data = struct.pack("<4sI", b"data", len(samples)) + samples
    path.write_bytes(struct.pack("<4sI4s", b"RIFF", 4 + len(head) + len(data), b"WAVE") + head + data)


if __name__ == "__main__":
    main()
