"""Wan's VAE, a few frames at a time."""

from pipelines.wan_vae.cuda import keep_kernels_in
from pipelines.wan_vae.decoder import StreamingDecoder

__all__ = ["StreamingDecoder", "keep_kernels_in"]
