"""Raw frames in the files that torch and safetensors read."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from encoding.base import AudioSpec
from tests.encoding.clips import FILM, describe, encode, smooth, sweep
from tests.encoding.judge import psnr, watch


def picture(frames: int, height: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random levels, uint8 (T, H, W, 3), and a clip that means exactly these."""
    generator = torch.Generator().manual_seed(0)
    levels = torch.randint(0, 256, (frames, height, width, 3), generator=generator, dtype=torch.uint8)
    return levels, (levels.double() / 127.5 - 1).float().permute(3, 0, 1, 2)


@pytest.mark.parametrize("chunk", [1, 4, 9])
@pytest.mark.parametrize(("height", "width"), [(60, 100), (7, 5), (1, 1)])
def test_a_pt_file_loads_as_it_was_written(tmp_path: Path, chunk: int, height: int, width: int) -> None:
    """`weights_only=True`, mapped or read; the frames are the clip's levels, odd sizes too."""
    levels, clip = picture(9, height, width)
    artifact = encode(describe(tmp_path / "clip.pt", clip), clip, chunk)
    for mapped in (False, True):
        loaded = torch.load(artifact.path, weights_only=True, mmap=mapped)
        assert set(loaded) == {"frames", "fps"}
        assert loaded["fps"] == 23.976
        assert torch.equal(loaded["frames"], levels)


def test_a_pt_file_is_what_torch_would_have_saved(tmp_path: Path) -> None:
    """Same records with the same contents as `torch.save` of the finished tensor, checksums included."""
    levels, clip = picture(9, 60, 100)
    path = encode(describe(tmp_path / "clip.pt", clip), clip).path
    with (tmp_path / "saved.pt").open("wb") as file:
        torch.save({"frames": levels, "fps": 23.976}, file)
    with zipfile.ZipFile(path) as ours, zipfile.ZipFile(tmp_path / "saved.pt") as theirs:
        assert ours.testzip() is None
        assert ours.namelist() == theirs.namelist()
        differing = [name for name in ours.namelist() if ours.read(name) != theirs.read(name)]
    assert differing in ([], ["archive/.data/serialization_id"])


@pytest.mark.parametrize("rate", [FILM, Fraction(24000, 1001), Fraction(16)], ids=str)
def test_a_safetensors_file_loads_as_it_was_written(tmp_path: Path, rate: Fraction) -> None:
    """The frames are the clip's levels, the rate an exact fraction in the metadata."""
    levels, clip = picture(9, 31, 50)
    artifact = encode(describe(tmp_path / "clip.safetensors", clip, rate), clip)
    assert torch.equal(load_file(artifact.path)["frames"], levels)
    with safe_open(str(artifact.path), framework="pt") as file:
        assert list(file.keys()) == ["frames"]
        assert Fraction(file.metadata()["fps"]) == rate


def test_a_safetensors_header_is_aligned(tmp_path: Path) -> None:
    """The frames start at a multiple of eight bytes, as the library writes them."""
    clip = smooth(3, 10, 10)
    data = encode(describe(tmp_path / "clip.safetensors", clip), clip).path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    assert length % 8 == 0
    assert json.loads(data[8 : 8 + length])["frames"] == {
        "dtype": "U8",
        "shape": [3, 10, 10, 3],
        "data_offsets": [0, 900],
    }
    assert len(data) == 8 + length + 900


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_overshoot_is_clipped(tmp_path: Path, suffix: str) -> None:
    """Values beyond ±1 are white and black, not wrapped."""
    clip = torch.tensor([-9.0, -1.01, 1.01, 1.9])[None, :, None, None].expand(3, 4, 8, 8)
    path = encode(describe(tmp_path / f"clip{suffix}", clip), clip).path
    frames = torch.load(path, weights_only=True)["frames"] if suffix == ".pt" else load_file(path)["frames"]
    assert [frame.unique().tolist() for frame in frames] == [[0], [0], [255], [255]]


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_an_artifact_describes_its_file(tmp_path: Path, suffix: str) -> None:
    """Size, format and records, as of the video sinks."""
    clip = smooth(9, 32, 48)
    artifact = encode(describe(tmp_path / f"clip{suffix}", clip), clip)
    assert (artifact.path.suffix, artifact.format) == (suffix, suffix[1:])
    assert artifact.size_bytes == artifact.path.stat().st_size
    assert [record.frames for record in artifact.records] == [4, 4, 1]


def test_the_mp4_shows_what_the_pt_holds(tmp_path: Path) -> None:
    """Within codec loss: more than 38 dB on smooth content with the service's options."""
    clip = smooth(17, 96, 160)
    frames = torch.load(encode(describe(tmp_path / "clip.pt", clip), clip).path, weights_only=True)["frames"]
    video = watch(encode(describe(tmp_path / "clip.mp4", clip), clip).path)
    assert psnr(video.rgb, np.asarray(frames)) > 38


@pytest.mark.parametrize("at", [0, 4, 9])
@pytest.mark.parametrize("seconds", [0.0, 0.1, 9.0])
def test_sound_stands_beside_the_frames(tmp_path: Path, seconds: float, at: int) -> None:
    """As it was given, cut or with silence to the length of the frames, before, among and after them."""
    levels, clip = picture(9, 7, 5)
    sound = sweep(44_100, 2, seconds)
    wanted = torch.zeros(2, 16_554)  # 9 frames at 23.976 a second
    wanted[:, : sound.shape[1]] = sound[:, :16_554]
    for suffix in (".pt", ".safetensors"):
        spec = describe(tmp_path / f"clip{suffix}", clip, audio=AudioSpec(44_100, 2))
        artifact = encode(spec, clip, sound=sound, sound_at=at)
        assert artifact.audio == AudioSpec(44_100, 2)
    loaded = torch.load(tmp_path / "clip.pt", weights_only=True)
    assert (set(loaded), loaded["sample_rate"]) == ({"frames", "fps", "audio", "sample_rate"}, 44_100)
    with safe_open(str(tmp_path / "clip.safetensors"), framework="pt") as file:
        assert (set(file.keys()), file.metadata()["sample_rate"]) == ({"frames", "audio"}, "44100")
    for tensors in (loaded, load_file(tmp_path / "clip.safetensors")):
        assert tensors["audio"].dtype == torch.float32
        assert torch.equal(tensors["audio"], wanted)
        assert torch.equal(tensors["frames"], levels)


def test_a_pt_file_with_sound_is_what_torch_would_have_saved(tmp_path: Path) -> None:
    """The checksums of both tensors included."""
    levels, clip = picture(9, 60, 100)
    sound = sweep(16_000, 1, 0.3)
    spec = describe(tmp_path / "clip.pt", clip, Fraction(30), audio=AudioSpec(16_000, 1))
    path = encode(spec, clip, sound=sound, sound_at=4).path
    with (tmp_path / "saved.pt").open("wb") as file:
        torch.save({"frames": levels, "fps": 30.0, "audio": sound, "sample_rate": 16_000}, file)
    with zipfile.ZipFile(path) as ours, zipfile.ZipFile(tmp_path / "saved.pt") as theirs:
        assert ours.testzip() is None
        assert ours.namelist() == theirs.namelist()
        differing = [name for name in ours.namelist() if ours.read(name) != theirs.read(name)]
    assert differing in ([], ["archive/.data/serialization_id"])


MEASURE = """
import resource, sys
from fractions import Fraction
from pathlib import Path
import torch
from encoding.base import OutputSpec
from encoding.formats import open_sink
torch.set_num_threads(1)
frame = torch.zeros(3, 1, 512, 512)
for count in (32, 256):
    for suffix in ("pt", "safetensors"):
        path = Path(sys.argv[1]) / f"clip.{suffix}"
        with open_sink(OutputSpec(path, suffix, 512, 512, count, Fraction(16), {}, 2**22)) as sink:
            for _ in range(count):
                sink.write(frame)
        sink.close()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_video(tmp_path: Path) -> None:
    """200 MB of frames need hardly more memory than 25 MB: they are written as they come."""
    command = [sys.executable, "-c", MEASURE, str(tmp_path)]
    short, long = map(int, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert long - short < 60_000  # kilobytes, of a video of 196,608
