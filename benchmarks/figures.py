"""Where a benchmark ran, and the file with its figures."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping

import torch


def device_name(*, on_gpu: bool) -> str:
    """The card's name, or CPU."""
    return torch.cuda.get_device_name() if on_gpu else "CPU"


def write_figures(options: argparse.Namespace, device: str, figures: Mapping[str, object]) -> None:
    """The figures and what they were measured with, as JSON in the file of `options.json`; None: nowhere."""
    if options.json is not None:
        named = {name: str(value) for name, value in vars(options).items()}
        named |= {"device": device, "torch": torch.__version__}
        options.json.write_text(json.dumps({"options": named, "figures": figures}, indent=1))
