"""Samples of sound on their way from whoever made them to the encoder's thread."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import torch

from encoding.base import AudioSpec, OutputSpec
from encoding.errors import BadSound, InvalidSpec
from encoding.transfer import wait_for

RATES = range(4_000, 192_001)
"""Samples a second of what can be written."""
_MAX_CHANNELS = 2


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


@dataclass(frozen=True, slots=True)
class SoundArrival:
    """Sound of (channels, N) float32 in host memory, or to be copied there once `event` has fired."""

    samples: torch.Tensor
    event: torch.cuda.Event | None

    @property
    def size(self) -> int:
        """In bytes."""
        return self.samples.nbytes

    def wait(self, stop: threading.Event) -> torch.Tensor:
        """The samples in host memory.

        Raises:
            BadSound: a value was NaN or infinite.
            Stopped: `stop` was set first.
        """
        wait_for(self.event, stop)
        host = self.samples.cpu()
        if not bool(host.isfinite().all()):
            raise BadSound("sound: NaN or infinity found, finite values in [-1, 1] expected")
        return host


def send_sound(samples: torch.Tensor, spec: OutputSpec) -> SoundArrival:
    """Take as much of it as the pictures of `spec` last; `samples` may be overwritten once this returns."""
    assert spec.audio is not None, "checked before"
    with torch.inference_mode():
        most = samples[:, : spec.samples(spec.audio.sample_rate)]
        ours = torch.empty(most.shape, dtype=torch.float32, device=most.device).copy_(most)
        if not ours.is_cuda:
            return SoundArrival(ours, None)
        with torch.cuda.device(ours.device):
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch's
            event.record()
    return SoundArrival(ours, event)
