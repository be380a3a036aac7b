"""The metrics as Prometheus reads them."""

from __future__ import annotations

import httpx
from prometheus_client.parser import text_string_to_metric_families


class Scrape:
    """All samples of one answer of `/metrics`."""

    def __init__(self, text: str) -> None:
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self.samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float:
        """The sample with exactly these labels; 0 where there is none."""
        return self.samples.get((name, frozenset(labels.items())), 0.0)

    def since(self, before: Scrape, name: str, **labels: str) -> float:
        """How much it grew."""
        return self.value(name, **labels) - before.value(name, **labels)

    def label_values(self) -> set[str]:
        """Every value that any label has."""
        return {value for _, labels in self.samples for _, value in labels}


async def scrape(client: httpx.AsyncClient) -> Scrape:
    """What the server would tell Prometheus now."""
    return Scrape((await client.get("/metrics")).raise_for_status().text)
