"""Parts of checkpoints as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def save(part: Any, folder: Path) -> None:
    """Write a pipeline, or one part of it, as its library does, with weights that every user may read.

    safetensors keeps them to their owner; a server may run as another user.
    """
    part.save_pretrained(folder)
    for file in folder.rglob("*.safetensors"):
        file.chmod(0o644)
