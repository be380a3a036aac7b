"""A request's prompt, pictures, films and sounds → the states that its denoising starts from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from pipelines.base import Control, Reference
from pipelines.errors import InvalidParams
from pipelines.minimax_h3.blocks import CONDITION, ENCODE, SETUP, Run
from pipelines.minimax_h3.references import fill, let_go


def condition(run: Run, pipe: Any, references: tuple[Reference, ...], frames: int, control: Control) -> None:
    """Run the blocks before the denoising; films are read up to `frames` frames, and let go when encoded.

    A cancel is heard between the blocks, in them before each layer of the conditioner and each clip or
    picture that a VAE encodes, and while films are read.

    Raises:
        InvalidParams: on `references`, in diffusers' words: a shape or a length that the model does not take.
        Cancelled: by `control`.
    """
    _read(run, pipe, references, frames, partial(control.progress, "prompt", 0, 1))
    control.progress("prompt", 1, 1)
    if run.has(ENCODE):
        tell = partial(control.progress, "image", 0, 1)
        tell()
        with _called_before(_encoders(pipe), tell):
            run.run(ENCODE)
        if references:
            let_go(run.get("normalized_references"))
        control.progress("image", 1, 1)


def _read(
    run: Run, pipe: Any, references: tuple[Reference, ...], frames: int, tell: Callable[[], object]
) -> None:
    """All that the conditioner reads, and what it makes of it."""
    tell()
    with _blaming(references):
        run.run(SETUP)
        if references:
            run.drop("references")
            fill(run.get("normalized_references"), references, pipe.fps, frames, tell)
        tell()
        with _called_before(_layers(pipe), tell):
            run.run(CONDITION)


@contextmanager
def _blaming(references: tuple[Reference, ...]) -> Iterator[None]:
    """Where references are given, a ValueError of the blocks is about them; else it is a mistake of ours."""
    try:
        yield
    except ValueError as error:
        if not references:
            raise
        raise InvalidParams("references", f"references: {error}") from None


@contextmanager
def _called_before(modules: Iterable[torch.nn.Module], tell: Callable[[], object]) -> Iterator[None]:
    """Until its end, `tell` is called before each of these modules; what it raises ends their work."""

    def before(_module: torch.nn.Module, _inputs: object) -> None:
        tell()

    handles = [module.register_forward_pre_hook(before) for module in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _layers(pipe: Any) -> Iterator[torch.nn.Module]:
    """Of the conditioner: its eyes' and its reader's."""
    model = pipe.text_encoder.model
    yield from model.visual.blocks
    yield from model.language_model.layers


def _encoders(pipe: Any) -> Iterator[torch.nn.Module]:
    """Each is called once for a picture, for a clip of a film or for a tile of one, and for a sound."""
    yield pipe.vae.encoder
    yield pipe.audio_vae.encoder
