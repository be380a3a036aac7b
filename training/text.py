"""Captions to what a transformer is told, as diffusers' pipelines do it."""

from __future__ import annotations

from typing import Any

import torch
from tokenizers import normalizers

from pipelines.tiny_wan import tokenizer as tiny
from training import captions


def tokenizer() -> Any:
    """The tokenizer of the trained checkpoints: each word of the world is one piece, in capitals as well."""
    words = tiny.build(captions.vocabulary())
    words.backend_tokenizer.normalizer = normalizers.Lowercase()
    return words


def embed(text_encoder: Any, words: Any, prompts: list[str], length: int) -> torch.Tensor:
    """Embeddings (B, `length`, D), zero behind the end of each prompt, with gradients to the encoder."""
    found = words(prompts, padding="max_length", max_length=length, truncation=True, return_tensors="pt").to(
        text_encoder.device
    )
    hidden: torch.Tensor = text_encoder(found.input_ids, found.attention_mask).last_hidden_state
    mask: torch.Tensor = found.attention_mask
    return hidden * mask.unsqueeze(-1)
