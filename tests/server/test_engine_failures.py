"""What errors of torch, the host and our own mean: for the client, and for the worker."""

from __future__ import annotations

import pytest
import torch

from encoding.errors import EncodingError, StorageFailed, translate
from pipelines.errors import BadOutput, Cancelled, InvalidParams, LoadFailed, OutOfMemory
from server.engine.failures import judge


def caused(error: Exception, by: Exception) -> Exception:
    error.__cause__ = by
    return error


@pytest.mark.parametrize(
    "error",
    [
        torch.AcceleratorError("CUDA error: an illegal memory access was encountered"),
        torch.AcceleratorError("CUDA error: device-side assert triggered"),
        RuntimeError("CUDA error: unspecified launch failure\nCUDA kernel errors might be reported later"),
        RuntimeError("CUDA error: uncorrectable ECC error encountered"),
        RuntimeError("CUDA error: an illegal memory access was encountered (700, conv.cu)"),
        RuntimeError("Triton Error [CUDA]: an illegal memory access was encountered"),
        RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"),
        RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`"),
        translate(torch.AcceleratorError("CUDA error: misaligned address"), "writing a.mp4"),
    ],
)
def test_an_error_that_breaks_the_device(error: Exception) -> None:
    """The process cannot use it any more; the client hears of a crash and no words of the driver."""
    if type(error) is EncodingError:
        error = caused(error, torch.AcceleratorError("CUDA error: misaligned address"))
    verdict = judge(error)
    assert (verdict.code, verdict.device_lost) == ("worker_crashed", True)
    assert "CUDA" not in verdict.message


@pytest.mark.parametrize(
    "error",
    [
        OutOfMemory("832x480, 81 frames: too large"),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."),
        torch.AcceleratorError("CUDA error: out of memory"),
        RuntimeError("CUDA error: out of memory (2, conv.cu)"),
        RuntimeError("Triton Error [CUDA]: out of memory"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory"),
        MemoryError(),
        caused(EncodingError("writing a.mp4: MemoryError"), MemoryError()),
    ],
)
def test_too_little_memory(error: Exception) -> None:
    """On the device, the host, in a library below torch or in the encoder's thread: the worker goes on."""
    verdict = judge(error)
    assert (verdict.code, verdict.device_lost) == ("out_of_memory", False)


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (Cancelled("x"), "cancelled", "the job was cancelled"),
        (InvalidParams("latents", "latents: wrong shape"), "invalid_reference", "latents: wrong shape"),
        (BadOutput("NaN"), "internal_error", "NaN"),
        (StorageFailed("/secret/path: disk full"), "storage_failed", "the server could not store the file"),
        (EncodingError("the encoder refuses"), "encoding_failed", "the encoder refuses"),
        (ValueError("/secret/path"), "internal_error", "an error of the server ended the job (ValueError)"),
        (
            RuntimeError("CUDA error: invalid configuration argument"),
            "internal_error",
            "an error of the server ended the job (RuntimeError)",
        ),
    ],
)
def test_other_errors(error: Exception, code: str, told: str) -> None:
    """Each by its row, with its words where they name nothing of this machine; the worker goes on."""
    verdict = judge(error)
    assert (verdict.code, verdict.message, verdict.device_lost) == (code, told, False)


def test_a_start_on_a_device_that_is_full() -> None:
    """The loader's error counts by its cause, so that the start can be tried again."""
    full = torch.OutOfMemoryError("CUDA out of memory.")
    assert judge(caused(LoadFailed("model tiny: cannot load"), full)).code == "out_of_memory"
    assert judge(caused(LoadFailed("model tiny: cannot load"), OSError("no file"))).code == "internal_error"
