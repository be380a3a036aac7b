"""How a benchmark takes turns and tells what it found, where it ran, and the file with its figures."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import torch

Row = Mapping[str, float]
"""What one run was measured at, by name."""
T = TypeVar("T")


def device_name(*, on_gpu: bool) -> str:
    """The card's name, or CPU."""
    return torch.cuda.get_device_name() if on_gpu else "CPU"


def take_turns(
    variants: Mapping[str, Callable[[], Row]],
    rounds: int,
    options: argparse.Namespace,
    device: str,
    *,
    time_of: str = "seconds",
    both_orders: bool = False,
) -> dict[str, dict[str, float]]:
    """Run each variant once to warm up, then all in turn, `rounds` times; medians, and the fastest time.

    What is stopped early is not lost: each time is printed as soon as it is known, in the order of the runs,
    a line for each round, and the file of `options.json` is written after every one. `time_of`: which figure
    of a row is its time. `both_orders`: every second round goes backwards.
    """
    runs: dict[str, list[Row]] = {name: [] for name in variants}
    for number in range(rounds + 1):
        began = time.monotonic()
        print(f"round {number} of {rounds}:" if number else "warming up:", end="", flush=True)
        for name in list(variants)[:: -1 if both_orders and number % 2 == 0 else 1]:
            row = variants[name]()
            print(f" {row[time_of]:.3f}", end="", flush=True)
            if number > 0:
                runs[name].append(row)
        print(f" s; {time.monotonic() - began:.1f} s in all", flush=True)
        if number > 0:
            write_figures(options, device, _summary(runs, time_of), rounds=number, runs=runs)
    return _summary(runs, time_of)


def _summary(runs: Mapping[str, Sequence[Row]], time_of: str) -> dict[str, dict[str, float]]:
    return {
        name: {
            **{key: statistics.median(row[key] for row in rows) for key in rows[0]},
            "fastest": min(row[time_of] for row in rows),
        }
        for name, rows in runs.items()
    }


def chosen(variants: Mapping[str, T], only: Sequence[str] | None) -> dict[str, T]:
    """The variants that have one of these names, or have a text that is none within theirs; None: all.

    Raises:
        SystemExit: a text is found in no name; with all names.
    """
    if only is None:
        return dict(variants)
    wanted: set[str] = set()
    for text in only:
        found = {text} if text in variants else {name for name in variants if text in name}
        if not found:
            raise SystemExit(f"--only {text!r} is in none of: {'; '.join(variants)}")
        wanted |= found
    return {name: variant for name, variant in variants.items() if name in wanted}


def write_figures(
    options: argparse.Namespace, device: str, figures: Mapping[str, object], **more: object
) -> None:
    """The figures and what they were measured with, as JSON in the file of `options.json`; None: nowhere."""
    if options.json is not None:
        named = {name: str(value) for name, value in vars(options).items()}
        named |= {"device": device, "torch": torch.__version__}
        options.json.write_text(json.dumps({"options": named, "figures": figures, **more}, indent=1))
