"""What a supervisor sees of a start."""

from __future__ import annotations

import time
from pathlib import Path

import httpx

from tests.serving import LIGHT, PATIENCE_S, Served, free_port, launch


def test_the_server_lives_before_its_worker_can_work(tmp_path: Path) -> None:
    """`/live` is answered as soon as the process listens, long before torch is imported; `/health` is not."""
    port = free_port()
    loading = {"FAULT_ON_LOAD": f"held={tmp_path / 'looked'}"}
    process, log = launch(tmp_path / "data", "--port", str(port), **LIGHT, **loading)
    server = Served(f"http://127.0.0.1:{port}", tmp_path / "data", process, log)
    try:
        end = time.monotonic() + PATIENCE_S
        with server.client() as client:
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
        status = server.stop()
    assert status == 0
