"""What the benchmarks tell of their runs, and when."""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path

import pytest

from benchmarks.figures import chosen, take_turns
from benchmarks.serve import used_mib


def test_what_is_stopped_early_is_not_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The third round fails: the medians of two are in the file, and every time was printed."""
    seconds = iter([9.0, 9.0, 1.0, 4.0, 3.0, 6.0])  # the first two warm up
    options = argparse.Namespace(json=tmp_path / "figures.json")
    one, two = (lambda: {"seconds": next(seconds), "mib": 5.0} for _ in range(2))
    with pytest.raises(StopIteration):
        take_turns({"one": one, "two": two}, 3, options, "CPU")
    written = json.loads(options.json.read_text())
    assert written["rounds"] == 2
    assert written["figures"]["one"] == {"seconds": 2.0, "mib": 5.0, "fastest": 1.0}
    assert [run["seconds"] for run in written["runs"]["two"]] == [4.0, 6.0]
    told = capsys.readouterr().out.splitlines()
    assert [line.split(" s;")[0] for line in told] == [
        "warming up: 9.000 9.000",
        "round 1 of 3: 1.000 4.000",
        "round 2 of 3: 3.000 6.000",
        "round 3 of 3:",
    ]


def test_every_second_round_goes_backwards() -> None:
    went: list[str] = []

    def run(name: str) -> dict[str, float]:
        went.append(name)
        return {"file": 1.0}

    runs = {name: partial(run, name) for name in "ab"}
    take_turns(runs, 2, argparse.Namespace(json=None), "CPU", time_of="file", both_orders=True)
    assert went[2:] == ["a", "b", "b", "a"]


def test_some_variants_alone() -> None:
    """A whole name means itself, any other text all that have it; the order stays."""
    variants = dict.fromkeys(["decode", "decode to MP4", "decode to MP4, mixed", "encode"], 0)
    assert list(chosen(variants, ["mixed", "decode"])) == ["decode", "decode to MP4, mixed"]
    assert list(chosen(variants, ["MP4"])) == ["decode to MP4", "decode to MP4, mixed"]
    assert chosen(variants, None) == variants
    with pytest.raises(SystemExit, match=r"'mxied'.*encode"):
        chosen(variants, ["mxied"])


@pytest.mark.parametrize(
    ("visible", "used"), [("1", "512"), ("1,0", "512"), ("GPU-b2", "512"), ("0", "63311"), ("", "an unknown")]
)
def test_memory_is_that_of_the_visible_gpu(visible: str, used: str) -> None:
    told = "0, GPU-a1f, 63311\n1, GPU-b2e, 512\n"
    assert used_mib(told, visible).startswith(used)
