"""CUDA sources compiled at run time by NVIDIA's own compiler, and kept between starts."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import tempfile
from pathlib import Path

import torch

logger = logging.getLogger(__name__)

_kept_in: list[Path] = []
_DIGEST_BYTES = 32
"""In front of a kept kernel."""


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
    """Machine code of `source`, kept in the folder of `keep_kernels_in` if there is one.

    A folder that cannot be read or written costs the time of compiling, and a warning.

    Raises:
        RuntimeError: there is no compiler, or it refuses.
    """
    text = source.encode()
    if not _kept_in:
        return compiled(text)
    key = hashlib.sha256(f"{_version()}\n{source}".encode()).hexdigest()[:32]
    place = _kept_in[-1] / f"conv-{key}.cubin"
    if (kept := _read(place)) is not None:
        return kept
    code = compiled(text)
    try:
        _write(place, code)
    except OSError as error:
        why = {"error": type(error).__name__, "reason": error.strerror}
        logger.warning("compiled kernel cannot be kept", extra=why)
    return code


def _read(place: Path) -> bytes | None:
    """What was kept, if it is whole: the driver does not survive half of it."""
    try:
        data = place.read_bytes()
    except OSError:
        return None
    digest, code = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
    return code if hashlib.sha256(code).digest() == digest else None


def _write(place: Path, code: bytes) -> None:
    """By a file of its own until it is whole: other workers and other machines may do the same just now."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix="part-") as folder:
        part = Path(folder) / place.name
        part.write_bytes(hashlib.sha256(code).digest() + code)
        part.replace(place)


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
    if log.value:
        logger.warning("compiler had something to say", extra={"reason": log.value.decode().strip()})
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


def _version() -> str:
    major, minor = ctypes.c_int(), ctypes.c_int()
    _accept(compiler().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return f"{major.value}.{minor.value}"


@functools.cache
def can_compile() -> bool:
    """Whether there is a compiler; that there is none is logged once."""
    try:
        compiler()
    except RuntimeError as error:
        logger.warning("decoder does without its own kernels", extra={"reason": str(error)})
        return False
    return True


def check(status: int) -> None:
    """Raise RuntimeError for what the driver answered, in torch's words, unless it is success."""
    if status != 0:
        text = ctypes.c_char_p()
        driver().cuGetErrorString(status, ctypes.byref(text))
        raise RuntimeError(f"CUDA error: {(text.value or b'').decode()} ({status}, conv.cu)")


def _accept(status: int) -> None:
    if status != 0:
        raise RuntimeError(f"NVIDIA's run-time compiler: error {status}")
