"""The conditioner's eyes: Qwen3-VL's processor, or that of pictures alone where torchvision is missing."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from transformers import Qwen2VLImageProcessorPil, Qwen3VLProcessor

SEES_FILMS = find_spec("torchvision") is not None
"""transformers prepares films with torchvision, and nothing else."""

PLACES = {"<|image_pad|>": "stands for a picture", "<|video_pad|>": "stands for a film"}
"""Tokens that stand in a prompt where a picture or a film is to be seen."""


class PictureProcessor:
    """What the blocks use of a Qwen3VLProcessor, without its films."""

    def __init__(self, image_processor: Any, tokenizer: Any) -> None:
        self.image_processor = image_processor
        self._kinds = {tokenizer.convert_tokens_to_ids(place): kind for kind, place in enumerate(PLACES, 1)}

    def create_mm_token_type_ids(self, input_ids: list[list[int]]) -> list[list[int]]:
        """Of each token: 0 text, 1 picture, 2 film."""
        return [[self._kinds.get(token, 0) for token in tokens] for tokens in input_ids]


def load_processor(source: str, subfolder: str, tokenizer: Any) -> Any:
    """Load it from a diffusers folder or hub repository.

    Raises:
        OSError, ValueError: its files are missing or broken.
    """
    if SEES_FILMS:
        return Qwen3VLProcessor.from_pretrained(source, subfolder=subfolder)
    images = Qwen2VLImageProcessorPil.from_pretrained(source, subfolder=subfolder)
    return PictureProcessor(images, tokenizer)
