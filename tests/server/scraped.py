"""The metrics of a server as Prometheus reads them."""

from __future__ import annotations

import httpx

from benchmarks.scrape import Scrape


async def scrape(client: httpx.AsyncClient) -> Scrape:
    """What the server would tell Prometheus now."""
    return Scrape((await client.get("/metrics")).raise_for_status().text)
