"""What `/metrics` tells Prometheus. One registry per app, so that two apps in a process never mix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version
from platform import python_version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

HTTP_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
GENERATION_BUCKETS = (0.5, 1, 2, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560)


class Metrics:
    """The service's counters."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        build = Gauge("reelserve_build_info", "Always 1", ["version", "python"], registry=self.registry)
        build.labels(version("reelserve"), python_version()).set(1)
        self.created = Counter("reelserve_jobs_created", "Jobs taken into the queue", registry=self.registry)
        self.ended = Counter(
            "reelserve_jobs_ended",
            "Jobs that ended, by outcome: completed, or the job's error code",
            ["outcome"],
            registry=self.registry,
        )
        self.generation = Histogram(
            "reelserve_generation_seconds",
            "From the start of a job on its device to its last chunk",
            buckets=GENERATION_BUCKETS,
            registry=self.registry,
        )
        self.http_seconds = Histogram(
            "reelserve_http_request_seconds",
            "From the head of a request to the last byte of its answer",
            ["method", "route"],
            buckets=HTTP_BUCKETS,
            registry=self.registry,
        )
        self.http_requests = Counter(
            "reelserve_http_requests",
            "Answers, those that broke off included",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self.http_received = Counter(
            "reelserve_http_received_bytes",
            "Bytes of request bodies",
            ["method", "route"],
            registry=self.registry,
        )
        self.http_sent = Counter(
            "reelserve_http_sent_bytes",
            "Bytes of answers: at the route of content and at those that wait, of videos",
            ["method", "route"],
            registry=self.registry,
        )
        self.refusals = Counter(
            "reelserve_refusals", "Answers with an error", ["status", "code"], registry=self.registry
        )
        self.removed = Counter(
            "reelserve_files_removed",
            "Jobs whose files were removed: for their age, for the size of all, or as leftovers at a start",
            ["reason"],
            registry=self.registry,
        )
        self.forgotten = Counter(
            "reelserve_jobs_forgotten", "Records of ended jobs that were removed", registry=self.registry
        )
        self.webhooks = Counter(
            "reelserve_webhook_attempts",
            "Attempts to deliver an event: delivered, failed (and tried again), or expired (given up)",
            ["outcome"],
            registry=self.registry,
        )

    def watch_disk(self, held: Mapping[str, Callable[[], float]]) -> None:
        """Read the bytes of each kind of file whenever the metrics are asked for."""
        gauge = Gauge("reelserve_held_bytes", "Bytes of ended jobs", ["kind"], registry=self.registry)
        for kind, read in held.items():
            gauge.labels(kind).set_function(read)

    def watch(self, depth: Callable[[], float], ready: Callable[[], float]) -> None:
        """Read the queue's depth and the engine's readiness whenever the metrics are asked for."""
        gauge = Gauge("reelserve_queue_depth", "Jobs that wait", registry=self.registry)
        gauge.set_function(depth)
        gauge = Gauge("reelserve_ready", "1 while a worker can take work", registry=self.registry)
        gauge.set_function(ready)
