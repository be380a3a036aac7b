"""What `/metrics` tells Prometheus. One registry per app, so that two apps in a process never mix."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from platform import python_version
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.metrics import MetricWrapperBase

from server.database import Database
from server.engine.base import Engine, JobErrorCode
from server.engine.restarts import EndReason
from server.errors import ERROR_TABLE

HTTP_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
JOB_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120)
"""From the tiny models on a CPU to the largest request of a day."""
IDLE_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
SHARE_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 2)
OUTCOMES = ("completed", *get_args(JobErrorCode))
REMOVALS = ("age", "size", "start")
DELIVERIES = ("delivered", "failed", "expired")
STAGES = ("prepare", "denoise", "decode", "encode")


@dataclass(frozen=True, slots=True)
class Described:
    """A metric as the documents have it; `name` is what a query asks for."""

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str


class Metrics:
    """The service's own. No label has a value that a client can make up: no id, no path, no prompt.

    `models` are the ids of the models that are served: their counters are there from the start, at 0, so that
    the first event is seen as an increase.
    """

    def __init__(self, models: Iterable[str] = ()) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.build = Gauge(
            "reelserve_build_info", "Always 1; its labels tell", ["version", "python"], registry=self.registry
        )
        self.build.labels(version("reelserve"), python_version()).set(1)
        self._jobs()
        self._times()
        self._http()
        self._rest()
        self._begin_all()
        for model in models:
            self._begin(model)

    def _jobs(self) -> None:
        self.created = Counter(
            "reelserve_jobs_created", "Jobs taken into the queue", ["model"], registry=self.registry
        )
        self.ended = Counter(
            "reelserve_jobs_ended",
            "Jobs that ended, by outcome: completed, or the job's error code",
            ["model", "outcome"],
            registry=self.registry,
        )
        self.again = Counter(
            "reelserve_jobs_queued_again",
            "Jobs that had begun and wait again: their server ended, or another job's crash was theirs too",
            ["model"],
            registry=self.registry,
        )
        self.deleted = Counter("reelserve_jobs_deleted", "Jobs that clients deleted", registry=self.registry)
        self.depth = Gauge(
            "reelserve_queue_depth", "Jobs that are queued or in_progress", ["state"], registry=self.registry
        )
        self.stored = Counter(
            "reelserve_stored_bytes", "Bytes of finished videos", ["model", "format"], registry=self.registry
        )

    def _times(self) -> None:
        self.wait = self._histogram("queue_wait", "From the creation of a job to its first start")
        self.generation = self._histogram(
            "generation", "From the start of a completed job on its device to its last chunk"
        )
        self.total = self._histogram("job", "From the creation of a completed job to its whole file")
        self.first_piece = self._histogram(
            "first_fragment", "From the creation of a streamed job to its first fragment"
        )
        self.stage = Histogram(
            "reelserve_stage_seconds",
            "Parts of a completed job: prepare (prompt and pictures), denoise, decode, and encode: what "
            "encoding added to these, its waits and its tail",
            ["model", "stage"],
            buckets=JOB_BUCKETS,
            registry=self.registry,
        )
        self.encode_share = Histogram(
            "reelserve_encode_added_ratio",
            "What encoding added, as a share of the generation that it overlaps with",
            ["model"],
            buckets=SHARE_BUCKETS,
            registry=self.registry,
        )
        self.idle = Histogram(
            "reelserve_device_idle_seconds",
            "How long a device idled while the job that it took next was queued",
            buckets=IDLE_BUCKETS,
            registry=self.registry,
        )

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(
            f"reelserve_{name}_seconds", text, ["model"], buckets=JOB_BUCKETS, registry=self.registry
        )

    def _http(self) -> None:
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

    def _rest(self) -> None:
        self.removed = Counter(
            "reelserve_files_removed",
            "Jobs whose files were removed: for their age, for the size of all, or as leftovers at a start",
            ["reason"],
            registry=self.registry,
        )
        self.removed_bytes = Counter(
            "reelserve_files_removed_bytes",
            "Bytes of these files, by age or size",
            ["reason"],
            registry=self.registry,
        )
        self.forgotten = Counter(
            "reelserve_jobs_forgotten", "Records of ended jobs that were removed", registry=self.registry
        )
        self.held = Gauge("reelserve_held_bytes", "Bytes of ended jobs", ["kind"], registry=self.registry)
        self.webhooks = Counter(
            "reelserve_webhook_attempts",
            "Attempts to deliver an event: delivered, failed (and tried again), or expired (given up)",
            ["outcome"],
            registry=self.registry,
        )
        self.database_errors = Counter(
            "reelserve_database_errors",
            "Errors of the database, by the name of their class",
            ["kind"],
            registry=self.registry,
        )
        self.down = Gauge(
            "reelserve_database_down_seconds",
            "How long the database has not been usable; 0 while it is",
            registry=self.registry,
        )
        self.workers = Gauge("reelserve_workers", "Workers, up or down", ["state"], registry=self.registry)
        self.worker_ends = Counter(
            "reelserve_worker_ends",
            "Worker processes that ended and should not have; all but those that stay down are started again",
            ["reason"],
            registry=self.registry,
        )
        self.ready = Gauge("reelserve_ready", "1 while a worker can take work", registry=self.registry)

    def described(self) -> Iterator[Described]:
        """Every metric of this server's own, in the order of their names."""
        for metric in sorted(vars(self).values(), key=lambda value: getattr(value, "_name", "")):
            if isinstance(metric, MetricWrapperBase):
                (family,) = metric.describe()
                suffix = "_total" if family.type == "counter" else ""
                labels = tuple(metric._labelnames)
                yield Described(family.name + suffix, family.type, labels, family.documentation)

    def _begin_all(self) -> None:
        """What can happen has happened 0 times so far: an increase is seen only of what is there."""
        for row in ERROR_TABLE.values():
            self.refusals.labels(str(row.status), row.code)
        for reason in get_args(EndReason):
            self.worker_ends.labels(reason)
        for reason in REMOVALS:
            self.removed.labels(reason)
        for outcome in DELIVERIES:
            self.webhooks.labels(outcome)
        for kind in ("OperationalError", "InterfaceError", "IntegrityError"):
            self.database_errors.labels(kind)

    def _begin(self, model: str) -> None:
        for counter in (self.created, self.again):
            counter.labels(model)
        for outcome in OUTCOMES:
            self.ended.labels(model, outcome)
        for histogram in (self.wait, self.generation, self.total, self.encode_share):
            histogram.labels(model)
        for stage in STAGES:
            self.stage.labels(model, stage)

    def watch_queue(self, queued: Callable[[], float], running: Callable[[], float]) -> None:
        """Read the queue whenever the metrics are asked for."""
        self.depth.labels("queued").set_function(queued)
        self.depth.labels("in_progress").set_function(running)

    def watch_engine(self, engine: Engine) -> None:
        """Read how many workers are up whenever the metrics are asked for, and count those that end."""
        self.workers.labels("up").set_function(lambda: engine.up)
        self.workers.labels("down").set_function(lambda: engine.slots - engine.up)
        self.ready.set_function(lambda: engine.ready)
        engine.watch(lambda reason: self.worker_ends.labels(reason).inc())

    def watch_database(self, database: Database) -> None:
        """Read for how long it has been away whenever the metrics are asked for, and count its errors."""
        self.down.set_function(lambda: database.down_s)
        database.watch(lambda kind: self.database_errors.labels(kind).inc())

    def watch_disk(self, held: Mapping[str, Callable[[], float]]) -> None:
        """Read the bytes of each kind of file whenever the metrics are asked for."""
        for kind, read in held.items():
            self.held.labels(kind).set_function(read)
