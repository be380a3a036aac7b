"""Many clients at one server for as long as it takes: nothing lost, nothing twice, nothing growing.

    python -m benchmarks.soak [--jobs 500] [--clients 16] [--config configs/tiny.yaml] [--output soak.json]
    python -m benchmarks.soak --dummy ti2v-5b --jobs 20 --clients 4 --request '{"num_inference_steps": 2}'

Starts `reelserve serve`, makes jobs in all the ways that clients have (`soak_clients.WEIGHTS`), plays
every file that comes back, and compares what clients saw with the server's list, its metrics and its log.
Prints what it measured as JSON; the exit status is 1 where a bound is broken.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from benchmarks.running import Running, dummy_config, running
from benchmarks.scrape import Scrape
from benchmarks.soak_clients import Seen, soak
from benchmarks.watching import Watch, watching

SMALL = '{"size": "64x32", "num_frames": 5, "num_inference_steps": 1}'
ENDINGS = ("job completed", "job failed", "job cancelled")
TINY = Path("configs/tiny.yaml")
IDLE_BOUNDS = ("0.005", "0.01", "0.025", "0.05", "0.1")
"""Buckets of the metric."""
WARM_UP = 4
"""Jobs before anything is measured: the first ones load and allocate."""


def main() -> int:
    """Run the soak; returns the exit status."""
    options = parser().parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        config = options.config if options.dummy is None else dummy_config(options.dummy, place)
        with running(config, place, "--log.format", "json", *options.flag) as server:
            report = asyncio.run(measure(server, options))
        report |= judge_log(report.pop("seen"), server.log)
    report["broken"] = broken_bounds(report, options)
    text = json.dumps(report, indent=2)
    if options.output is not None:
        options.output.write_text(text + "\n")
    print(text)
    return 1 if report["broken"] else 0


def request_of(options: argparse.Namespace) -> str:
    """What is asked for, as JSON: of a model that is not the tiny one, its own defaults."""
    if options.request is not None:
        return str(options.request)
    return SMALL if options.dummy is None and options.config == TINY else "{}"


def broken_bounds(report: Mapping[str, Any], options: argparse.Namespace) -> list[str]:
    """What is more than it may be."""
    server, workers = report["server"], report["workers"]
    limits = {
        "lost": (report["lost"], 0),
        "duplicate": (report["duplicate"], 0),
        "unexpected": (len(report["unexpected"]), 0),
        "get_p99_ms": (report["get"]["p99_ms"], options.max_p99_ms),
        "server_rss_growth_mib": (server["rss_growth_mib"], options.max_growth_mib),
        "workers_rss_growth_mib": (workers["rss_growth_mib"], options.max_worker_growth_mib),
        "server_fds_growth": (server["fds_growth"], options.max_fds_growth),
        "workers_fds_growth": (workers["fds_growth"], options.max_fds_growth),
    }
    if report["idle"]["mean_ms"] is not None:
        limits["idle_mean_ms"] = (report["idle"]["mean_ms"], options.max_idle_ms)
    return [name for name, (value, limit) in limits.items() if value > limit]


async def measure(server: Running, options: argparse.Namespace) -> dict[str, Any]:
    """Let the clients work, and put together what was seen of it, `seen` being the jobs themselves."""
    fields = {"prompt": "a red circle", **json.loads(request_of(options))}
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=server.url, timeout=options.timeout, limits=limits) as client:
        warm = await soak(client, fields, jobs=WARM_UP, clients=1)
        before, started = await _scrape(client), time.monotonic()
        async with watching(server.process.pid) as watch:
            seen = await soak(client, fields, jobs=options.jobs, clients=options.clients)
        seconds, now = time.monotonic() - started, await _scrape(client)
        stored = await _list(client)
    report = _figures(seen, watch, before, now)
    lost, unexpected = _compare([*warm.jobs, *seen.jobs], stored)
    ended = now.total("reelserve_jobs_ended_total") - before.total("reelserve_jobs_ended_total")
    created = now.total("reelserve_jobs_created_total") - before.total("reelserve_jobs_created_total")
    return {
        "jobs": len(seen.jobs),
        "clients": options.clients,
        "seconds": round(seconds, 1),
        "ways": dict(Counter(job.way for job in seen.jobs)),
        "outcomes": dict(Counter(job.outcome for job in seen.jobs)),
        "lost": lost + abs(len(seen.jobs) - round(ended)),
        "created_by_metrics": round(created),
        "ended_by_metrics": round(ended),
        "unexpected": seen.problems + unexpected,
        **report,
        "seen": [job.id for job in seen.jobs],
    }


def _figures(seen: Seen, watch: Watch, before: Scrape, now: Scrape) -> dict[str, Any]:
    waits = sorted(seen.waits_s)
    idle, share = "reelserve_device_idle_seconds", "reelserve_encode_added_ratio"
    mean = now.mean(idle, before)
    get, where = "reelserve_http_request_seconds", {"method": "GET", "route": "/v1/videos/{video_id}"}
    models = {dict(labels)["model"] for (name, labels) in now.samples if name == f"{share}_count"}
    return {
        "get": {
            "count": len(waits),
            "p50_ms": _ms(waits[len(waits) // 2]),
            "p99_ms": _ms(waits[len(waits) * 99 // 100]),
            "max_ms": _ms(waits[-1]),
            "within_100_ms_by_the_server": now.share_within(get, "0.1", before, **where),
        },
        "server": watch.growth("server"),
        "workers": watch.growth("workers"),
        "idle": {
            "count": round(now.since(before, f"{idle}_count")),
            "mean_ms": None if mean is None else _ms(mean),
            "share_within_s": {le: now.share_within(idle, le, before) for le in IDLE_BOUNDS},
        },
        "encode_added_ratio": {model: now.mean(share, before, model=model) for model in sorted(models)},
    }


def judge_log(ids: list[str], log: Path) -> dict[str, Any]:
    """How many jobs have more than one end in the log, or none."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    ends = Counter(line["job_id"] for line in lines if line["message"] in ENDINGS)
    repeated = sum(count - 1 for count in Counter(ids).values())
    levels = Counter(line["level"] for line in lines)
    return {
        "duplicate": repeated + sum(ends[job_id] > 1 for job_id in set(ids)),
        "without_end_in_log": sum(ends[job_id] == 0 for job_id in set(ids)),
        "log_lines": dict(levels),
    }


def _compare(jobs: list[Any], stored: dict[str, str]) -> tuple[int, list[str]]:
    """Jobs that the server does not know as their client does, and jobs that nobody made."""
    expected = {job.id: job.outcome for job in jobs if not job.deleted}
    lost = sum(stored.get(job_id) != outcome for job_id, outcome in expected.items())
    others = sorted(set(stored) - set(expected))
    return lost, [f"{job_id} is there: {stored[job_id]}" for job_id in others]


async def _list(client: httpx.AsyncClient) -> dict[str, str]:
    """Every job of the server: id → completed, or the code of its error."""
    found: dict[str, str] = {}
    after: dict[str, str] = {}
    while True:
        page = (await client.get("/v1/videos", params={"limit": "100", **after})).raise_for_status().json()
        for video in page["data"]:
            error = video["error"]
            found[video["id"]] = video["status"] if error is None else error["code"]
        if not page["has_more"]:
            return found
        after = {"after": page["last_id"]}


async def _scrape(client: httpx.AsyncClient) -> Scrape:
    return Scrape((await client.get("/metrics")).raise_for_status().text)


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 2)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--jobs", type=int, default=500)
    made.add_argument("--clients", type=int, default=16)
    made.add_argument("--config", type=Path, default=TINY)
    made.add_argument("--dummy", choices=["t2v-a14b", "ti2v-5b"], help="a real architecture, random weights")
    made.add_argument("--request", help=f"fields of each request, as JSON; of the tiny model {SMALL}")
    made.add_argument("--flag", action="append", default=[], help="of `reelserve serve`, repeatable")
    made.add_argument("--timeout", type=float, default=600, help="seconds that one request may take")
    made.add_argument("--max-p99-ms", type=float, default=100)
    made.add_argument("--max-idle-ms", type=float, default=50, help="mean, of a device between two jobs")
    made.add_argument("--max-growth-mib", type=float, default=8, help="of the server, in half the time")
    made.add_argument("--max-worker-growth-mib", type=float, default=32, help="of all workers together")
    made.add_argument("--max-fds-growth", type=float, default=4)
    made.add_argument("--output", type=Path, help="file for the JSON")
    return made


if __name__ == "__main__":
    sys.exit(main())
