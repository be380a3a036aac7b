"""Parts of checkpoints as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def save(part: Any, folder: Path) -> None:
    """Write a pipeline, or one part of it, as its library does, with weights that every user may read.

    safetensors keeps them to their owner; a server may run as another user. The libraries also write down
    the folder that a part was loaded from, which means nothing elsewhere.
    """
    part.save_pretrained(folder)
    for file in folder.rglob("*.safetensors"):
        file.chmod(0o644)
    for file in folder.rglob("*.json"):
        _forget_where(file)


def _forget_where(file: Path) -> None:
    content = json.loads(file.read_text())
    if content.pop("_name_or_path", None) is not None:
        file.write_text(json.dumps(content, indent=2) + "\n")
