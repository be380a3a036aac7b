"""What a supervisor sees of a start."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import httpx

from tests.serving import free_port


def test_the_server_lives_before_its_worker_can_work(tmp_path: Path) -> None:
    """`/live` is answered as soon as the process listens, long before torch is imported; `/health` is not."""
    port = free_port()
    command = [sys.executable, "-m", "server.cli", "serve", "--port", str(port), "--data-dir", str(tmp_path)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"HF_HUB_OFFLINE": "1"})
    try:
        end = time.monotonic() + 30
        with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
            while True:
                try:
                    assert client.get("/live").json() == {"status": "ok"}
                    break
                except httpx.TransportError:
                    assert time.monotonic() < end, "it does not listen"
                    time.sleep(0.02)
            assert client.get("/health").status_code == 503
            metrics = client.get("/metrics").text
        assert 'reelserve_workers{state="down"} 1.0' in metrics.splitlines()
    finally:
        server.terminate()
        status = server.wait(30)
        assert server.stdout is not None
        server.stdout.close()
    assert status == 0
