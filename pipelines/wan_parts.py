"""What Wan's families do alike with the parts of a checkpoint; what each reads and generates is its own."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch

from pipelines.base import GenerationParams, ModelConfig
from pipelines.dummy import dummy_pipeline
from pipelines.errors import LoadFailed, loading
from pipelines.offload import keep_on_host
from pipelines.wan_denoise import Embeddings
from pipelines.wan_vae import StreamingDecoder, fp8, keep_kernels_in
from pipelines.wan_vae.convs import lay_channels_last

Read = Callable[[str, torch.dtype], Any]
"""A folder or hub repository, and the type of its weights → its parts on the CPU, as a diffusers pipeline."""


def load_parts(
    config: ModelConfig,
    device: torch.device,
    read: Read,
    pipeline: Callable[..., Any] | None = None,
    precise: Collection[str] = (),
) -> Any:
    """The parts as the configuration has them read and placed.

    `pipeline`: the class for random weights, where diffusers has none of the name that the folder says;
    `precise`: which of them are in float32, as `read` leaves them.

    Raises:
        LoadFailed: missing or broken files, a setting that no checkpoint of Wan has a use for, or
            `decode.precision` fp8 on a device that cannot.
    """
    if config.tasks:
        raise LoadFailed(f"model {config.id}: tasks is not allowed; a checkpoint of Wan can do one thing")
    if config.decode.kernels is not None:
        keep_kernels_in(config.decode.kernels)
    dtype = getattr(torch, config.dtype)
    if config.decode.precision == "fp8" and (why := fp8.missing(device, dtype)):
        raise LoadFailed(f"model {config.id}: decode.precision is fp8; {why}")
    with loading(config.id, config.path):
        if config.load_format == "dummy":
            home = torch.device("cpu") if config.offload == "model" else device
            pipe = dummy_pipeline(config.path, dtype, home, pipeline, precise)
        else:
            pipe = read(config.path, dtype)
        # Here, for what is laid on the device is gone with the turn where it is offloaded.
        lay_channels_last(pipe.components["vae"].encoder)
        if config.offload == "model":
            keep_on_host(pipe.components.values(), mapped=config.load_format != "dummy")
            pipe.enable_model_cpu_offload(device=device)
        else:
            pipe.to(device)
    return pipe


def decoder_of(pipe: Any, config: ModelConfig) -> StreamingDecoder:
    """The decoder of its VAE, as it is configured.

    Raises:
        LoadFailed: `decode.precision` fp8 for a VAE that it would change nothing of, or whose weights are
            no numbers.
    """
    decode = config.decode
    low = decode.precision == "fp8"
    if low:
        with loading(config.id, config.path):
            scales = fp8.input_scales(pipe.vae.decoder)
        if not scales:
            lacks = "its VAE has no convolution with the channels for it"
            raise LoadFailed(f"model {config.id}: decode.precision is fp8; {lacks}")
    return StreamingDecoder(
        pipe.vae, chunk=decode.chunk_frames, tile=decode.tile, exact=decode.exact, fp8=low
    )


def embed(pipe: Any, params: GenerationParams, device: torch.device, *, guided: bool) -> Embeddings:
    """What its text encoder makes of the prompts; of the negative one only where a pass is `guided`."""
    prompt, negative = pipe.encode_prompt(
        prompt=params.prompt,
        negative_prompt=params.negative_prompt,
        do_classifier_free_guidance=guided,
        max_sequence_length=params.max_sequence_length,
        device=device,
    )
    return Embeddings(prompt, negative)
