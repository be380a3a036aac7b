"""CUDA sources compiled at run time by NVIDIA's own compiler, and kept between starts."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
from pathlib import Path

import torch

_kept_in: list[Path] = []


def keep_kernels_in(folder: Path) -> None:
    """Keep compiled kernels there, ours and triton's, for the next start. Call before any is needed."""
    if folder not in _kept_in:
        _kept_in.append(folder)
    os.environ.setdefault("TRITON_CACHE_DIR", str(folder / "triton"))


def load_function(source: str, name: str, shared_bytes: int, device: int) -> ctypes.c_void_p:
    """The kernel `name` of `source` on a device, allowed `shared_bytes` of a multiprocessor's memory.

    Raises:
        RuntimeError: there is no compiler, or it or the driver refuses.
    """
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    with torch.cuda.device(device):
        torch.cuda.current_stream().synchronize()  # there is a context now
        check(driver().cuModuleLoadData(ctypes.byref(module), cubin(source)))
        check(driver().cuModuleGetFunction(ctypes.byref(function), module, name.encode()))
        most_shared_bytes = 8
        check(driver().cuFuncSetAttribute(function, most_shared_bytes, shared_bytes))
    return function


def cubin(source: str) -> bytes:
    """Machine code of `source`, kept in the folder of `keep_kernels_in` if there is one."""
    text = source.encode()
    folder = _kept_in[-1] if _kept_in else None
    kept = None if folder is None else folder / f"conv-{hashlib.sha256(text).hexdigest()[:32]}.cubin"
    if kept is not None and kept.exists():
        return kept.read_bytes()
    code = compiled(text)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(f".{os.getpid()}")
        part.write_bytes(code)
        part.replace(kept)
    return code


def compiled(source: bytes, architecture: str = "sm_90a") -> bytes:
    """`source` as machine code.

    Raises:
        RuntimeError: there is no compiler, or it refuses.
    """
    nvrtc = compiler()
    program = ctypes.c_void_p()
    _accept(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"conv.cu", 0, None, None))
    options = [f"--gpu-architecture={architecture}".encode(), b"--std=c++17"]
    status = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    if status != 0:
        raise RuntimeError(f"conv.cu: {log.value.decode()}")
    _accept(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)))
    code = ctypes.create_string_buffer(size.value)
    _accept(nvrtc.nvrtcGetCUBIN(program, code))
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return code.raw


@functools.cache
def driver() -> ctypes.CDLL:
    """NVIDIA's driver."""
    return ctypes.CDLL("libcuda.so.1")


@functools.cache
def compiler() -> ctypes.CDLL:
    """NVIDIA's run-time compiler, which torch's builds for CUDA bring along.

    Raises:
        RuntimeError: it is not there.
    """
    for name in ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise RuntimeError("NVIDIA's run-time compiler (libnvrtc) was not found")


def check(status: int) -> None:
    """Raise RuntimeError for what the driver answered, unless it is success."""
    if status != 0:
        text = ctypes.c_char_p()
        driver().cuGetErrorString(status, ctypes.byref(text))
        raise RuntimeError(f"conv.cu: {(text.value or b'').decode()} ({status})")


def _accept(status: int) -> None:
    if status != 0:
        raise RuntimeError(f"NVIDIA's run-time compiler: error {status}")
