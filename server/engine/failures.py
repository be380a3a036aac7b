"""What an error means for the job that it ended, and for the device. For the worker process alone: it imports
torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass
from types import MappingProxyType

import torch

from encoding.errors import EncodingError, StorageFailed
from pipelines.errors import BadOutput, Cancelled, InvalidParams, OutOfMemory
from server.engine.base import JobErrorCode

ERROR_CODES: Mapping[type[BaseException], JobErrorCode] = MappingProxyType(
    {
        Cancelled: "cancelled",
        CancelledError: "cancelled",
        InvalidParams: "invalid_reference",
        OutOfMemory: "out_of_memory",
        BadOutput: "internal_error",
        StorageFailed: "storage_failed",
        EncodingError: "encoding_failed",
    }
)
"""What a client is told, looked up along the MRO; any other error is ours: `internal_error`."""

PRIVATE: Mapping[JobErrorCode, str] = MappingProxyType(
    {"storage_failed": "the server could not store the file", "cancelled": "the job was cancelled"}
)
"""Said instead of the error's own words, which may name paths of this machine."""

_FULL = ("out of memory", "alloc_failed", "can't allocate memory", "cannot allocate memory")
"""Words of torch and the libraries below it when memory is short, in lower case."""
_BROKEN = (
    "cuda error:",
    "triton error [cuda]:",
    "cudnn error:",
    "cudnn_status_",
    "cublas_status_",
    "cusolver_status_",
    "nccl error",
)
"""Words of errors that come from the device, in lower case."""
_HARMLESS = (
    "invalid argument",
    "invalid configuration argument",
    "invalid device function",
    "invalid device ordinal",
    "no kernel image is available",
    "device kernel image is invalid",
    "operation not supported",
    "not_supported",
    "bad_param",
    "invalid_value",
)
"""Words of device errors that say no to one call; after any other one no call succeeds any more."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to tell the client, and what to do."""

    code: JobErrorCode
    message: str
    expected: bool = True
    """The log needs no traceback."""
    device_lost: bool = False
    """The process can't use its device any more and must end."""


def judge(error: BaseException) -> Verdict:
    """The meaning of an error that ended a job, or a start; what caused it counts too."""
    causes = tuple(_causes(error))
    if any(_is_lost(cause) for cause in causes):
        message = "the device failed while it ran this job; the worker is started again"
        return Verdict("worker_crashed", message, expected=False, device_lost=True)
    code = next((ERROR_CODES[kind] for kind in type(error).__mro__ if kind in ERROR_CODES), None)
    if code in (None, "encoding_failed", "internal_error") and any(_is_full(cause) for cause in causes):
        return Verdict("out_of_memory", "the server ran out of memory for this request", expected=False)
    if code is None:
        message = f"an error of the server ended the job ({type(error).__name__})"
        return Verdict("internal_error", message, expected=False)
    return Verdict(code, PRIVATE.get(code, str(error)), expected=code != "storage_failed")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and what it was raised from or in answer to, the last first."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _is_full(error: BaseException) -> bool:
    if isinstance(error, torch.OutOfMemoryError | MemoryError | OutOfMemory):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in _FULL)


def _is_lost(error: BaseException) -> bool:
    if not isinstance(error, RuntimeError) or _is_full(error):
        return False
    said = str(error).lower()
    from_device = isinstance(error, torch.AcceleratorError) or any(words in said for words in _BROKEN)
    return from_device and not any(words in said for words in _HARMLESS)
