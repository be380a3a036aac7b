"""The soak, in short: `make soak` is the long one, and measures what a loaded machine cannot be held to."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from benchmarks.soak import broken_bounds, parser
from benchmarks.watching import MIB, Sample, Watch
from tests.serving import PATIENCE_S

SLOW = ("--max-p99-ms", "200000", "--max-idle-ms", "200000")
LOOSE = (*SLOW, "--max-growth-mib", "64", "--max-worker-growth-mib", "128")
"""Forty jobs in ten seconds are no time to measure growth in, and tests run on busy machines."""


def test_forty_jobs_from_eight_clients() -> None:
    """Each ends exactly once, by its client, the server's list, its metrics and its log; the files play."""
    command = [sys.executable, "-m", "benchmarks.soak", "--jobs", "40", "--clients", "8", *LOOSE]
    run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    report = json.loads(run.stdout)
    assert report["broken"] == report["unexpected"] == []
    assert (report["lost"], report["duplicate"], report["without_end_in_log"]) == (0, 0, 0)
    assert report["jobs"] == report["created_by_metrics"] == report["ended_by_metrics"] == 40
    assert report["outcomes"]["completed"] >= 32
    assert report["get"]["count"] >= 26  # a look or more at each job of three of the ways
    assert report["server"]["fds"] > 3
    assert report["workers"]["rss_mib"] > report["server"]["rss_mib"]
    assert "error" not in report["log_lines"]


def test_a_broken_bound_is_told() -> None:
    """One lost job, and answers that take too long; memory that grows more than is allowed."""
    grown = {"rss_growth_mib": 9.0, "fds_growth": 0}
    report = {
        "lost": 1,
        "duplicate": 0,
        "unexpected": [],
        "get": {"p99_ms": 100.5},
        "server": grown,
        "workers": grown,
        "idle": {"mean_ms": 51.0},
    }
    options = parser().parse_args([])
    broken = broken_bounds(report, options)
    assert broken == ["lost", "get_p99_ms", "server_rss_growth_mib", "idle_mean_ms"]


def test_growth_is_that_of_the_last_quarter_over_the_second() -> None:
    """What fills up in the first quarter is none; what goes on after it is."""
    watch = Watch(os.getpid())
    watch.look()
    assert watch.samples["server"][0].fds > 3
    sizes = [10, 50, 100, 100, 100, 100, 103, 110, 110]
    watch.samples["server"] = [Sample(rss=size * MIB, fds=7 + (size > 100)) for size in sizes]
    growth = watch.growth("server")
    assert (growth["rss_growth_mib"], growth["rss_peak_mib"], growth["fds_growth"]) == (10, 110, 1)
