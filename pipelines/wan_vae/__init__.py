"""Wan's VAE, a few frames at a time."""

from pipelines.wan_vae.decoder import StreamingDecoder

__all__ = ["StreamingDecoder"]
