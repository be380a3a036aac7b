"""The metrics as Prometheus reads them."""

from __future__ import annotations

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

    def mean(self, name: str, before: Scrape, **labels: str) -> float | None:
        """Of what a histogram has observed since; None if that is nothing."""
        count = self.since(before, f"{name}_count", **labels)
        return self.since(before, f"{name}_sum", **labels) / count if count else None

    def share_within(self, name: str, bound: str, before: Scrape, **labels: str) -> float | None:
        """How much of that was at most `bound`, one of the histogram's buckets."""
        count = self.since(before, f"{name}_count", **labels)
        return self.since(before, f"{name}_bucket", **labels, le=bound) / count if count else None

    def total(self, name: str, **labels: str) -> float:
        """All samples with these labels among others, added."""
        asked = set(labels.items())
        return sum(value for (one, given), value in self.samples.items() if one == name and asked <= given)
