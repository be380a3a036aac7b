from __future__ import annotations

import asyncio
import json
import logging
import socket
import subprocess
import sys
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from server import error_answers, logs
from server.logs import FIELDS, JsonFormatter, TextFormatter
from server.request_id import RequestIdMiddleware
from tests.server.logged import writing


def record(message: str = "something happened", *args: object, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("reelserve.jobs", logging.INFO, "here.py", 1, message, args, None)
    made.created = 1_795_982_400.25
    vars(made).update(fields)
    return made


def as_json(made: logging.LogRecord) -> dict[str, Any]:
    line = JsonFormatter().format(made)
    assert line.isascii()
    assert "\n" not in line
    loaded: dict[str, Any] = json.loads(line)
    return loaded


def test_a_json_line_has_the_standard_fields() -> None:
    """Time in UTC to the millisecond, level, logger, process and message, then what the event says."""
    line = as_json(record(job_id="video_1", code="timeout", seconds=0.0))
    assert list(line) == ["time", "level", "logger", "pid", "message", "job_id", "code", "seconds"]
    assert line["time"] == "2026-11-29T20:00:00.250Z"
    assert (line["level"], line["logger"]) == ("info", "reelserve.jobs")
    assert line["message"] == "something happened"
    assert (line["job_id"], line["code"], line["seconds"]) == ("video_1", "timeout", 0.0)


def test_a_text_line_has_the_same_fields() -> None:
    """A value with blanks or quotes is quoted: no value can look like another field, or like another line."""
    line = TextFormatter().format(record(job_id="video_1", reason='a "b"\n2026 INFO forged: x code=1'))
    assert line == (
        "2026-11-29T20:00:00.250Z INFO reelserve.jobs: something happened"
        ' job_id=video_1 reason="a \\"b\\"\\n2026 INFO forged: x code=1"'
    )


def test_what_is_no_field_is_not_logged() -> None:
    """The set of fields is closed: whatever a caller or a library adds beside it stays out."""
    for form in (JsonFormatter(), TextFormatter()):
        assert "secret" not in form.format(record(prompt="a secret", color_message="a secret"))


def test_whatever_the_message_is_the_line_is_json() -> None:
    """Line ends, half an emoji and values that JSON does not know."""
    assert as_json(record("a\nb \ud83d %s", object))["message"] == f"a\nb \ud83d {object}"
    assert as_json(record(reason=ValueError("x")))["reason"] == "x"


def test_a_traceback_is_one_field_and_bounded() -> None:
    """Its end says what went wrong, so that is what is kept."""
    made = record()
    try:
        raise ValueError("x" * 50_000 + " the end")
    except ValueError:
        made.exc_info = sys.exc_info()
    line = as_json(made)
    assert line["exception"].endswith("the end")
    assert len(line["exception"]) == logs.MAX_TRACE
    assert TextFormatter().format(made).endswith("the end")


async def test_bound_fields_follow_a_task_and_leave_others_alone() -> None:
    """What a request starts has its id; beside it, and after a block, nothing has."""

    async def request(name: str) -> tuple[dict[str, Any], ...]:
        logs.bind(request_id=name)
        with logs.about(job_id=f"video_{name}"):
            inside = await asyncio.create_task(job())
            thread = await asyncio.to_thread(as_json, record())
        return inside, thread, as_json(record())

    async def job() -> dict[str, Any]:
        await asyncio.sleep(0)
        return as_json(record(job_id="video_own"))

    for name, told in zip("ab", await asyncio.gather(request("a"), request("b")), strict=True):
        inside, thread, after = told
        assert (inside["request_id"], inside["job_id"]) == (name, "video_own")
        assert (thread["request_id"], thread["job_id"]) == (name, f"video_{name}")
        assert (after["request_id"], "job_id" in after) == (name, False)
    assert "request_id" not in as_json(record())


PROGRAM = """
import logging, sys, threading, warnings
from server import logs
logs.configure("json", sys.argv[1])
for name in ("reelserve.jobs", "sqlalchemy"):
    for level in (logging.DEBUG, logging.INFO, logging.WARNING):
        logging.getLogger(name).log(level, "%s said", name)
logging.getLogger("uvicorn.error").info("started", extra={"color_message": "no"})
warnings.warn("a warning of a library")
own = logging.StreamHandler(sys.stderr)
logging.getLogger("library").addHandler(own)
logging.getLogger("library").propagate = False
logs.adopt()
logging.getLogger("library").warning("of a library")
thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
print(*map("=".join, logs.for_children().items()))
raise SystemError("the end")
"""


@pytest.mark.parametrize("level", ["debug", "warning"])
def test_all_that_a_process_says_is_json(level: str) -> None:
    """Libraries, warnings, crashes of threads and of the process; libraries never at `debug`."""
    command = [sys.executable, "-c", PROGRAM, level]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    said = [json.loads(line) for line in ended.stderr.splitlines()]
    told = [(line["level"], line["logger"], line["message"].partition("\n")[0]) for line in said]
    quiet = [(name, who) for name, who, _ in told if name in ("debug", "info")]
    ours = [("debug", "reelserve.jobs"), ("info", "reelserve.jobs"), ("info", "uvicorn.error")]
    assert quiet == (ours if level == "debug" else [])
    assert ("warning", "sqlalchemy", "sqlalchemy said") in told
    assert ("warning", "library", "of a library") in told
    assert any(name == "py.warnings" and "a warning of a library" in text for _, name, text in told)
    assert "ZeroDivisionError" in said[-2]["exception"]
    assert told[-1][2] == "the process crashed"
    assert said[-1]["exception"].endswith("SystemError: the end")
    assert ended.stdout.split() == ["REELSERVE_LOG__FORMAT=json", f"REELSERVE_LOG__LEVEL={level}"]
    assert ended.returncode == 1


def test_fields_have_no_name_of_a_record() -> None:
    """`logging` refuses such an `extra`."""
    assert not set(FIELDS) & set(vars(record()))


async def test_the_trace_of_a_bug_has_the_id_of_its_request(caplog: pytest.LogCaptureFixture) -> None:
    """uvicorn logs it, after every middleware has returned."""
    app = FastAPI()
    error_answers.install(app)
    app.add_middleware(RequestIdMiddleware)

    async def fail() -> None:
        raise RuntimeError("a bug")

    app.add_api_route("/fail", fail, methods=["GET"])
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    with writing(caplog):
        serving = asyncio.create_task(server._serve(sockets=[listener]))
        async with httpx.AsyncClient() as client:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/fail"
            for name in ("bug-1", "bug-2"):
                assert (await client.get(url, headers={"x-request-id": name})).status_code == 500
        server.should_exit = True
        await serving
    listener.close()
    said = [line for line in caplog.text.splitlines() if "Exception in ASGI application" in line]
    assert [line.partition("request_id=")[2] for line in said] == ["bug-1", "bug-2"]
    assert caplog.text.count("RuntimeError: a bug") == 2
