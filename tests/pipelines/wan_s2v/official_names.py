"""Names and shapes of the published checkpoint's weights, and of one of any other size."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import torch
from safetensors.torch import load_file

from pipelines.wan_s2v.names import transformer_name

_DATA = Path(__file__).parent / "data"
REFERENCE = load_file(_DATA / "reference.safetensors")
"""What `official_reference.py` wrote."""
_SHAPED = {
    "casual_audio_encoder.weights": (1, -1, 1, 1),
    "casual_audio_encoder.encoder.padding_tokens": (1, 1, 1, -1),
}


@cache
def official_shapes(part: str) -> dict[str, tuple[int, ...]]:
    """`transformer`, `text_encoder` or `vae` → name → shape."""
    rows = (
        line.split(" ")
        for line in gzip.decompress((_DATA / "official_names.txt.gz").read_bytes()).decode().splitlines()
    )
    return {name: tuple(map(int, shape.split("x"))) for found, name, shape in rows if found == part}


def official_like(ours: Mapping[str, torch.Tensor], layers: Sequence[int]) -> dict[str, torch.Tensor]:
    """A state of ours under the official names; it may have fewer blocks than the published one."""
    official = {}
    for name in official_shapes("transformer"):
        try:
            found = ours.get(transformer_name(name, layers))
        except IndexError:  # more injectors than this one has
            continue
        if found is not None:
            official[name] = found.reshape(_SHAPED.get(name, found.shape))
    return official
