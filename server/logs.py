"""The log of a process: one event a line on standard error, as text or as JSON.

The message of an event is a constant; what varies are fields, given as `extra=`. `FIELDS` is closed, so that
nothing gets into a log by accident: a prompt, a body, a path or a key is no field. Fields that hold for all
that is said of a request or a job are bound once, by `bind` or `about`.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType, TracebackType
from typing import Literal, TypedDict, Unpack, get_args

LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]

OURS = ("reelserve", "server", "encoding", "pipelines")
"""Loggers that follow `log.level`. Others are heard from `warning` on: at `debug` some write what passes
through them, such as the parameters of SQL."""
FORMAT_VARIABLE, LEVEL_VARIABLE = "REELSERVE_LOG__FORMAT", "REELSERVE_LOG__LEVEL"
MAX_TRACE = 12_000
"""Most characters of a traceback; its end is kept. Collectors split lines of more than 16 KiB."""


class Fields(TypedDict, total=False):
    """What a line can say beside time, level, logger, process and message."""

    request_id: str
    job_id: str
    event_id: str
    key: str
    """Name of an API key, never the key."""
    model: str
    code: str
    """Of an error, as clients see it."""
    error: str
    """Name of an exception's class."""
    reason: str
    variant: str
    method: str
    route: str
    """The template of a path, never the path."""
    status: int
    seconds: float
    count: int
    queued: int
    running: int
    bytes: int
    attempt: int
    host: str
    device: str
    worker_pid: int
    timings: Mapping[str, float]
    """Seconds by name, as in `Server-Timing`."""


FIELDS = tuple(Fields.__annotations__)
_NOTHING: Mapping[str, object] = MappingProxyType({})
_bound: ContextVar[Mapping[str, object]] = ContextVar("bound log fields", default=_NOTHING)


def bind(**fields: Unpack[Fields]) -> None:
    """Add fields to every line of this task, and of those it starts, from here on."""
    _bound.set({**_bound.get(), **fields})


@contextmanager
def about(**fields: Unpack[Fields]) -> Iterator[None]:
    """Add fields to every line within the block."""
    token = _bound.set({**_bound.get(), **fields})
    try:
        yield
    finally:
        _bound.reset(token)


class TextFormatter(logging.Formatter):
    """For terminals: time, level, logger, message, `name=value`; a traceback on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """One event."""
        said = "".join(f" {name}={_shown(value)}" for name, value in _fields(record).items())
        head = f"{_time(record)} {record.levelname} {record.name}: {record.getMessage().rstrip()}{said}"
        trace = _trace(record, self)
        return head if trace is None else f"{head}\n{trace}"


class JsonFormatter(logging.Formatter):
    """For collectors: one object a line, the traceback among its fields. ASCII, whatever is in it."""

    def format(self, record: logging.LogRecord) -> str:
        """One event."""
        trace = _trace(record, self)
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "message": record.getMessage().rstrip(),
            **_fields(record),
        }
        return json.dumps(line if trace is None else {**line, "exception": trace}, default=str)


FORMATTERS: Mapping[LogFormat, type[logging.Formatter]] = MappingProxyType(
    {"text": TextFormatter, "json": JsonFormatter}
)


def configure(form: LogFormat, level: LogLevel) -> None:
    """Let everything that this process says go to standard error in one format, warnings and crashes too."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(FORMATTERS[form]())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    for name in OURS:
        logging.getLogger(name).setLevel(level.upper())
    # uvicorn says when it starts and stops; below that it writes whole requests.
    logging.getLogger("uvicorn").setLevel(max(logging.INFO, logging.getLogger(OURS[0]).level))
    logging.captureWarnings(True)
    sys.excepthook = _crashed
    threading.excepthook = _thread_crashed


def configure_from_environment() -> None:
    """`configure` as the parent process did (`for_children`)."""
    form: LogFormat = "json" if os.environ.get(FORMAT_VARIABLE) == "json" else "text"
    named = os.environ.get(LEVEL_VARIABLE)
    configure(form, next((level for level in get_args(LogLevel) if level == named), "info"))


def for_children() -> dict[str, str]:
    """Variables by which a child process logs as this one does; none before `configure`."""
    for handler in logging.getLogger().handlers:
        for form, kind in FORMATTERS.items():
            if type(handler.formatter) is kind:
                level = logging.getLevelName(logging.getLogger(OURS[0]).level).lower()
                return {FORMAT_VARIABLE: form, LEVEL_VARIABLE: level}
    return {}


def adopt() -> None:
    """Take over loggers to which a library has given handlers of its own; call it once they are imported."""
    for logger in tuple(logging.root.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger) and logger.handlers:
            logger.handlers.clear()
            logger.propagate = True


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fields(record: logging.LogRecord) -> dict[str, object]:
    """The record's own fields, then those that are bound; in the order of `FIELDS`."""
    known = {**_bound.get(), **vars(record)}
    return {name: known[name] for name in FIELDS if known.get(name) not in (None, "")}


def _trace(record: logging.LogRecord, formatter: logging.Formatter) -> str | None:
    if not record.exc_info or record.exc_info[0] is None:
        return None
    return formatter.formatException(record.exc_info)[-MAX_TRACE:]


def _shown(value: object) -> str:
    """As it is if it is one word, or else as JSON."""
    if isinstance(value, str) and value.isprintable() and value.isascii() and not set(value) & set(' "'):
        return value
    return json.dumps(value, default=str)


def _crashed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    logging.getLogger("reelserve").critical("the process crashed", exc_info=(kind, error, trace))


def _thread_crashed(crash: threading.ExceptHookArgs) -> None:
    if crash.exc_value is None or issubclass(crash.exc_type, SystemExit):
        return
    info = (crash.exc_type, crash.exc_value, crash.exc_traceback)
    logging.getLogger("reelserve").critical("a thread crashed", exc_info=info)
