"""What `/metrics` tells Prometheus. One registry per app, so that two apps in a process never mix."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

GENERATION_BUCKETS = (0.5, 1, 2, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560)


class Metrics:
    """The service's counters."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
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

        self.webhooks = Counter(
            "reelserve_webhook_attempts",
            "Attempts to deliver an event: delivered, failed (and tried again), or expired (given up)",
            ["outcome"],
            registry=self.registry,
        )

    def watch(self, depth: Callable[[], float], ready: Callable[[], float]) -> None:
        """Read the queue's depth and the engine's readiness whenever the metrics are asked for."""
        gauge = Gauge("reelserve_queue_depth", "Jobs that wait", registry=self.registry)
        gauge.set_function(depth)
        gauge = Gauge("reelserve_ready", "1 while a worker can take work", registry=self.registry)
        gauge.set_function(ready)
