"""A server of a benchmark's own: `reelserve serve` as a process, on a free port and in a folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchmarks.architectures import write

READY = "ready: "
STOP_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Running:
    """A server that takes work. `log` is what it and its workers have said."""

    url: str
    process: subprocess.Popen[str]
    data: Path
    log: Path


@contextmanager
def running(config: Path, folder: Path, *flags: str) -> Iterator[Running]:
    """The server, with what it writes below `folder`; stopped by SIGTERM when the block is left.

    Raises:
        RuntimeError: it does not become ready, or does not end with status 0; with the end of its log.
    """
    data, log = folder / "data", folder / "server.log"
    command = [sys.executable, "-m", "server.cli", "serve", "--config", str(config), "--port", "0"]
    with log.open("w") as errors:
        process = subprocess.Popen(
            [*command, "--data-dir", str(data), *flags],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={"HF_HUB_OFFLINE": "1"} | os.environ,
        )
    try:
        yield Running(_address(process, log), process, data, log)
    finally:
        process.terminate()
        try:
            status = process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
    if status != 0:
        raise RuntimeError(f"the server ended with status {status}\n{_tail(log)}")


def dummy_config(model: str, folder: Path, **changes: str) -> Path:
    """A model's file of configs/ (Wan's without the family's name), with random weights of the real size.

    `changes`: further keys of the model's entry.
    """
    names = (Path(f"configs/{name}.yaml") for name in (model, f"wan2.2-{model}"))
    config = yaml.safe_load(next(path for path in names if path.is_file()).read_text())
    architecture = folder / "architecture"
    architecture.mkdir()
    config["models"][0] |= {"path": str(write(model, architecture)), "load_format": "dummy", **changes}
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def _address(process: subprocess.Popen[str], log: Path) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith(READY):
        raise RuntimeError(f"the server did not become ready\n{_tail(log)}")
    return line.removeprefix(READY).strip()


def _tail(log: Path) -> str:
    return "\n".join(log.read_text().splitlines()[-20:])
