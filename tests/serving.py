"""A real server for tests: the command line, the worker process, the tiny models."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import pytest
import yaml

_ROOT = Path(__file__).parent.parent
FAULTS: Mapping[str, Any] = MappingProxyType({"PYTHONPATH": f"{_ROOT / 'tests/faults'}{os.pathsep}{_ROOT}"})
"""Variables of a server whose workers do what `fault:…` prompts ask for: `start(data, **FAULTS)`; see
`tests.faults.injected`."""
LIGHT: Mapping[str, Any] = MappingProxyType({**FAULTS, "FAULT_LIGHT": "1"})
"""The same, and no models are loaded: ready in a third of the time, and jobs cost next to nothing."""


def _models(*ids: str) -> Mapping[str, str]:
    """The variable that makes a server serve these models of the default configuration; without any, all."""
    models = yaml.safe_load(Path("configs/tiny.yaml").read_text())["models"]
    chosen = [model for model in models if not ids or model["id"] in ids]
    return MappingProxyType({"REELSERVE_MODELS": json.dumps(chosen)})


ALL_MODELS = _models()
ONE_MODEL = _models("tiny-wan-t2v")
SPEECH_MODEL = _models("tiny-wan-s2v")

PATIENCE_S = 240.0
"""How long a test waits for what will happen, however slow the machine is: only a failure takes it."""

_LIMITS = (
    "ARTIFACTS__PREVIEW_TIMEOUT_S",
    "ENGINE__HEARTBEAT_TIMEOUT_S",
    "IMAGES__TIMEOUT_S",
    "MEDIA__TIMEOUT_S",
    "SERVER__READ_TIMEOUT_S",
)
_PATIENT = MappingProxyType({f"REELSERVE_{name}": str(PATIENCE_S) for name in _LIMITS})
"""Bounds of the server that a busy machine may take longer than; what they do is tested without one."""

_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Without certificates, whose reading takes a client longer than its requests."""


@dataclass
class Served:
    """A running server and where it keeps things."""

    url: str
    data: Path
    process: subprocess.Popen[str]
    log: Path

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=PATIENCE_S, verify=_NO_TLS)

    @property
    def artifacts(self) -> Path:
        return self.data / "artifacts"

    def stop(self) -> int:
        """SIGTERM, and the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.ended()

    def ended(self, seconds: float = PATIENCE_S) -> int:
        """The exit status, once there is one."""
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.wait(seconds)


def start(data: Path, *flags: str, **variables: str) -> Served:
    """Start `reelserve serve` on a free port and wait for its one line; see `launch`."""
    process, log = launch(data, "--port", "0", *flags, **variables)
    assert process.stdout is not None
    line = process.stdout.readline()
    server = Served(line.removeprefix("ready: ").strip(), data, process, log)
    if not line.startswith("ready: http://127.0.0.1:"):
        process.kill()
        server.ended()
        raise AssertionError(log.read_text())
    return server


def to_be_hurt(server: Served) -> Iterator[Served]:
    """For a fixture: a server whose test may do anything to it."""
    yield server
    server.process.kill()
    server.ended()


def to_be_left(server: Served) -> Iterator[Served]:
    """For a fixture: a server whose tests leave it as it was; it ends cleanly on SIGTERM."""
    yield server
    assert server.stop() == 0, server.log.read_text()


def free_port() -> int:
    """A port of 127.0.0.1 where nobody listens; the kernel gives it to nobody who does not ask for it."""
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    ports = [port for port in range(10_000, 2**16) if not first <= port <= last] or range(10_000, 2**16)
    while True:
        port = random.choice(ports)  # noqa: S311 - no secret
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port


def launch(data: Path, *flags: str, **variables: str) -> tuple[subprocess.Popen[str], Path]:
    """Start `reelserve serve` and wait for nothing; the process, and its log.

    Of the default configuration it serves the first model alone, which starts sooner; `**ALL_MODELS`: all.
    """
    data.mkdir(parents=True, exist_ok=True)
    log = data / "server.log"
    command = [sys.executable, "-m", "server.cli", "serve", "--data-dir", str(data)]
    with log.open("a") as errors:
        process = subprocess.Popen(
            [*command, *flags],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "HF_HUB_OFFLINE": "1", **ONE_MODEL, **_PATIENT, **variables},
        )
    return process, log


def finished(client: httpx.Client, video_id: str, seconds: float = PATIENCE_S) -> dict[str, object]:
    """The job object, once it has ended; its progress never falls on the way."""
    end, progress = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        video: dict[str, object] = client.get(f"/v1/videos/{video_id}").raise_for_status().json()
        assert isinstance(video["progress"], int)
        assert video["progress"] >= progress
        progress = video["progress"]
        if video["status"] in ("completed", "failed"):
            return video
        time.sleep(0.05)
    raise AssertionError(f"not finished in {seconds} s: {json.dumps(video)}")


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for all tests that leave it as it was. Its workers do what prompts ask for."""
    latents = tmp_path_factory.mktemp("latents")
    flags = ("--artifacts.expose_paths", "true", "--fixed_latents.dir", str(latents))
    yield from to_be_left(start(tmp_path_factory.mktemp("served"), *flags, **ALL_MODELS, **FAULTS))


@pytest.fixture(scope="session")
def light(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Another one, which loads no models."""
    yield from to_be_left(start(tmp_path_factory.mktemp("light"), **LIGHT))


@pytest.fixture
def client(served: Served) -> Iterator[httpx.Client]:
    with served.client() as opened:
        yield opened
