"""`python -m pipelines.wan_s2v.convert SOURCE TARGET`: the official files as a diffusers folder.

The server reads either. The folder loads faster: its weights have the names and types that they are kept in.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from pipelines.errors import LoadFailed
from pipelines.saving import save
from pipelines.wan_s2v.official import is_official, load_official

TYPES = ("bfloat16", "float16", "float32")


def convert(source: Path, target: Path, dtype: torch.dtype) -> None:
    """Write the official checkpoint in `source` to `target`, a folder that is not there or empty.

    Raises:
        LoadFailed: `source` is not laid out as the official checkpoint, or its weights do not fit.
        OSError: a file is missing, or `target` holds something or cannot be written.
    """
    if not is_official(source):
        raise LoadFailed(
            f"{source} is not laid out as the official checkpoint: no config.json, or a model_index.json"
        )
    if target.exists() and any(target.iterdir()):
        raise FileExistsError(f"{target} is not empty")
    save(load_official(source, dtype), target)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.wan_s2v.convert",
        description="Write the official Wan2.2-S2V-14B files as a diffusers folder.",
    )
    parser.add_argument("source", type=Path, help="a download of Wan-AI/Wan2.2-S2V-14B")
    parser.add_argument("target", type=Path, help="where the folder is written; must not hold anything")
    parser.add_argument("--dtype", choices=TYPES, default=TYPES[0], help="of the weights (%(default)s)")
    options = parser.parse_args()
    try:
        convert(options.source, options.target, getattr(torch, options.dtype))
    except (LoadFailed, OSError) as error:
        print(f"convert: {error}", file=sys.stderr)  # noqa: T201 - a command's last word
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
