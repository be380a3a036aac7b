"""Samples of sound on their way from whoever made them to the encoder's thread."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass

import torch

from encoding.base import AudioSpec, OutputSpec
from encoding.errors import BadSound, InvalidSpec
from encoding.transfer import Stopped, copied_beside, locked_bytes, page_locked, wait_for

RATES = range(4_000, 192_001)
"""Samples a second of what can be written."""
_MAX_CHANNELS = 2
_PIECE = 2**18
"""Values that are looked at in one go."""


def check_audio(audio: AudioSpec) -> None:
    """Raise InvalidSpec for sound that no file here can hold."""
    if audio.sample_rate not in RATES:
        allowed = f"{RATES[0]} to {RATES[-1]} samples a second are allowed"
        raise InvalidSpec("audio", f"audio: a rate of {audio.sample_rate} given, {allowed}")
    if not 1 <= audio.channels <= _MAX_CHANNELS:
        raise InvalidSpec("audio", f"audio: {audio.channels} channels given, 1 or 2 are allowed")


def check_sound(samples: torch.Tensor, sample_rate: int, spec: OutputSpec) -> None:
    """Raise BadSound for what is not the sound that `spec` announces."""
    if (audio := spec.audio) is None:
        raise BadSound("sound: given, and none was announced")
    shape = tuple(samples.shape)
    if not samples.is_floating_point():
        raise BadSound(f"sound: dtype {samples.dtype}, a floating-point one expected")
    if len(shape) != 2 or shape[0] != audio.channels:
        raise BadSound(f"sound: shape {shape}, ({audio.channels}, N) expected")
    if sample_rate != audio.sample_rate:
        raise BadSound(f"sound: {sample_rate} samples a second, {audio.sample_rate} expected")


@dataclass(slots=True)
class SoundArrival:
    """Sound that is, or soon will be, in host memory."""

    host: torch.Tensor
    """float32 (channels, N)."""
    event: torch.cuda.Event | None = None
    """Fires when the copy is done; None when there was none to wait for."""

    def wait(self, stop: threading.Event) -> torch.Tensor:
        """The samples, float32 (channels, N).

        Raises:
            BadSound: a value was NaN or infinite.
            Stopped: `stop` was set first.
        """
        wait_for(self.event, stop)
        values = self.host.flatten()
        for first in range(0, len(values), _PIECE):  # a long sound takes longer than an abort may
            if stop.is_set():
                raise Stopped
            if not bool(values[first : first + _PIECE].abs().amax() < math.inf):  # NaN is not less either
                raise BadSound("sound: NaN or infinity found, finite values in [-1, 1] expected")
        return self.host

    def release(self) -> None:
        """Refer to the host memory no more: it is the writer's alone."""
        self.host = self.host.new_empty(0)


def held_bytes(samples: torch.Tensor, spec: OutputSpec) -> int:
    """What of the host's memory `send_sound` takes."""
    most = _heard(samples, spec)
    size = most.numel() * torch.float32.itemsize
    return locked_bytes(size) if most.is_cuda else size


def send_sound(samples: torch.Tensor, spec: OutputSpec) -> SoundArrival:
    """Take as much of it as the pictures of `spec` last; `samples` may be overwritten once this returns."""
    with torch.inference_mode():
        most = _heard(samples, spec)
        ours = torch.empty(most.shape, dtype=torch.float32, device=most.device).copy_(most)
        return _copied(ours) if ours.is_cuda else SoundArrival(ours.cpu())


def _heard(samples: torch.Tensor, spec: OutputSpec) -> torch.Tensor:
    assert spec.audio is not None, "checked before"
    return samples[:, : spec.samples(spec.audio.sample_rate)]


def _copied(ours: torch.Tensor) -> SoundArrival:
    """Beside the producer's work, as frames are: its stream is never waited for here."""
    with torch.cuda.device(ours.device):
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's
        host = page_locked(ours.shape, ours.dtype)
        return SoundArrival(host, copied_beside(ours, host, stream))
