"""Serve the tiny model on a free port, ask for one video, leave `demo.mp4`, stop. Exits 1 on any failure."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import NoReturn

import av

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = Path("demo.mp4")
REQUEST = {"prompt": "A red circle moving right on a white background", "seed": 7}
READY = "ready: "
START_SECONDS = 120
ANSWER_SECONDS = 300
STOP_SECONDS = 30

# The server is on this machine: a proxy named in the environment has no part in it.
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class DemoFailed(Exception):
    """What went wrong, in words for the terminal."""


@contextmanager
def server(data_dir: Path) -> Iterator[str]:
    """The address of a server that takes work; stopped when the block is left, however it is left."""
    command = [str(Path(sys.executable).with_name("reelserve")), "serve", "--config", "configs/tiny.yaml"]
    command += ["--port", "0", "--data-dir", str(data_dir)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        address = announced_address(process)
        wait_until_healthy(address, process)
        yield address
    finally:
        stop(process)
    if process.returncode != 0:
        raise DemoFailed(f"the server ended with status {process.returncode} on SIGTERM; 0 was expected")


def announced_address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    deadline = threading.Timer(START_SECONDS, process.kill)
    deadline.start()
    try:
        for line in process.stdout:
            if line.startswith(READY):
                return line.removeprefix(READY).strip()
    finally:
        deadline.cancel()
    raise DemoFailed("the server ended before it was ready")


def wait_until_healthy(address: str, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not healthy(address):
        if process.poll() is not None:
            raise DemoFailed(f"the server ended with status {process.returncode}")
        if time.monotonic() > deadline:
            raise DemoFailed(f"no worker was ready within {START_SECONDS} s")
        time.sleep(0.1)


def healthy(address: str) -> bool:
    try:
        with direct.open(f"{address}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, TimeoutError):
        return False


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise DemoFailed(f"the server did not stop within {STOP_SECONDS} s of SIGTERM") from None


def post(url: str, body: str) -> None:
    """Send the request and write the answer to `OUTPUT`: with curl, as a reader would, where there is one."""
    curl = shutil.which("curl")
    if curl is None:
        post_with_urllib(url, body)
    else:
        post_with_curl(curl, url, body)


def post_with_curl(curl: str, url: str, body: str) -> None:
    command = [curl, "--silent", "--show-error", "--noproxy", "*", "--max-time", str(ANSWER_SECONDS)]
    command += ["--output", str(OUTPUT), "--write-out", "%{http_code}"]
    command += ["--header", "Content-Type: application/json", "--data", body, url]
    status = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True).stdout
    if status != "200":
        refuse(OUTPUT.read_bytes() if OUTPUT.exists() else b"no answer")


def post_with_urllib(url: str, body: str) -> None:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, body.encode(), headers)  # noqa: S310  always http, never a file
    try:
        with direct.open(request, timeout=ANSWER_SECONDS) as answer:
            OUTPUT.write_bytes(answer.read())
    except urllib.error.HTTPError as error:
        refuse(error.read())


def refuse(answer: bytes) -> NoReturn:
    OUTPUT.unlink(missing_ok=True)
    raise DemoFailed(f"the request failed: {answer.decode(errors='replace')}")


def describe(path: Path) -> str:
    """What a decoder finds in the file, every frame of it decoded."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        frames = sum(1 for _ in container.decode(stream))
        rate = stream.average_rate
        size = f"{stream.width}x{stream.height}"
        codec = stream.codec_context.name
    if frames == 0 or rate is None:
        raise DemoFailed(f"{path} has no pictures")
    return f"{path}: {codec}, {size}, {frames} frames at {Fraction(rate)} fps, {path.stat().st_size} bytes"


def run() -> None:
    OUTPUT.unlink(missing_ok=True)
    body = json.dumps(REQUEST)
    with tempfile.TemporaryDirectory() as folder, server(Path(folder)) as address:
        print(f"serving the tiny model on {address}")
        print(f"POST {address}/v1/videos/sync {body}")
        begin = time.monotonic()
        post(f"{address}/v1/videos/sync", body)
        print(f"answered in {time.monotonic() - begin:.2f} s; stopping the server")
    print(describe(OUTPUT))


def main() -> int:
    # A terminated demo still passes through the block that stops its server.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        run()
    except (DemoFailed, OSError, av.error.FFmpegError) as error:
        print(f"demo failed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
