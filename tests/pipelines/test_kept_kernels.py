"""Compiled kernels that are kept between starts, with a compiler that is none."""

from __future__ import annotations

import ctypes
import functools
import threading
from pathlib import Path

import pytest
import torch
from diffusers.models.autoencoders.autoencoder_kl_wan import WanCausalConv3d

from pipelines.wan_vae import cuda
from pipelines.wan_vae.convs import HOPPER, Convs


@pytest.fixture(autouse=True)
def compiler(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What it was given to compile; it makes code of any length."""
    asked: list[bytes] = []

    def compiled(source: bytes) -> bytes:
        asked.append(source)
        return source[::-1] * 1000

    monkeypatch.setattr(cuda, "compiled", compiled)
    monkeypatch.setattr(cuda, "_version", lambda: "13.0")
    return asked


def kept_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "_kept_in", [folder])


def test_a_second_start_compiles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: list[bytes]
) -> None:
    """Unless the compiler is another: what an older one made may be slower."""
    kept_in(tmp_path / "new", monkeypatch)
    assert cuda.cubin("code") == cuda.cubin("code") == b"edoc" * 1000
    assert compiler == [b"code"]
    monkeypatch.setattr(cuda, "_version", lambda: "13.1")
    assert cuda.cubin("code") == b"edoc" * 1000
    assert compiler == [b"code"] * 2


@pytest.mark.parametrize("left", [0, 31, 32, 33, 3000])
def test_what_is_not_whole_is_made_again(
    left: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: list[bytes]
) -> None:
    """As after a power cut; and kept."""
    kept_in(tmp_path, monkeypatch)
    whole = cuda.cubin("code")
    (place,) = tmp_path.iterdir()
    place.write_bytes(place.read_bytes()[:left])
    assert cuda.cubin("code") == cuda.cubin("code") == whole
    assert compiler == [b"code"] * 2
    assert list(tmp_path.iterdir()) == [place]


def test_two_at_once_disturb_each_other_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have compiled before either keeps it: threads here, containers with one folder elsewhere."""
    kept_in(tmp_path, monkeypatch)
    both, made = threading.Barrier(2), list[bytes]()

    def compiled(source: bytes) -> bytes:
        both.wait(60)
        return source * 2_000_000

    monkeypatch.setattr(cuda, "compiled", compiled)
    threads = [threading.Thread(target=lambda: made.append(cuda.cubin("code"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [b"code" * 2_000_000] * 2
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_that_keeps_nothing_costs_the_compiling_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A file in the folder's place; the disk that is full. Nothing is left there."""
    (tmp_path / "file").touch()
    kept_in(tmp_path / "file", monkeypatch)
    assert cuda.cubin("code") == b"edoc" * 1000
    kept_in(tmp_path / "folder", monkeypatch)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    assert cuda.cubin("code") == b"edoc" * 1000
    assert list((tmp_path / "folder").iterdir()) == []
    assert [record.__dict__["reason"] for record in caplog.records] == [
        "File exists",
        "No space left on device",
    ]


def test_an_error_of_the_driver_has_the_words_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """By which everybody knows what it means for the device."""

    class Driver:
        def cuGetErrorString(self, status: int, text: ctypes.c_void_p) -> None:  # noqa: N802 - the driver's
            ctypes.cast(text, ctypes.POINTER(ctypes.c_char_p))[0] = (
                b"an illegal memory access was encountered"
            )

    monkeypatch.setattr(cuda, "driver", Driver)
    cuda.check(0)
    with pytest.raises(RuntimeError, match=r"^CUDA error: an illegal memory access was encountered \(700, "):
        cuda.check(700)


def test_without_a_compiler_the_library_does_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """On the very card and in the very type that ours are for; it is said once."""

    def missing() -> None:
        raise RuntimeError("NVIDIA's run-time compiler (libnvrtc) was not found")

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: HOPPER)
    monkeypatch.setattr(cuda, "compiler", missing)
    monkeypatch.setattr(cuda, "can_compile", functools.cache(cuda.can_compile.__wrapped__))
    layer, frames = WanCausalConv3d(96, 96, 3, padding=1), torch.empty(8, 64, 64, 96, device="meta")
    for _ in range(2):
        assert not Convs(torch.device("cuda"), torch.bfloat16).takes(layer, frames)
    (record,) = caplog.records
    assert record.__dict__["reason"].endswith("(libnvrtc) was not found")
