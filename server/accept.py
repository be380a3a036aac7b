"""The `Accept` header (RFC 9110, section 12.5.1)."""

from __future__ import annotations


def prefers(accept: str, wanted: str, offered: str) -> bool:
    """Whether `wanted` is named and liked better than `offered`; both are media types.

    A wildcard names nothing, and speaks for what is offered: `*/*` never asks for something else.
    """
    weights = dict(map(_weighed, accept.lower().split(",")))
    kind, _, _ = offered.partition("/")
    rules = (offered, f"{kind}/*", "*/*")
    other = next((weights[rule] for rule in rules if rule in weights), 0.0)
    return weights.get(wanted, 0.0) > other


def _weighed(rule: str) -> tuple[str, float]:
    name, *parameters = (part.strip() for part in rule.split(";"))
    weight = next((value for key, _, value in (p.partition("=") for p in parameters) if key == "q"), "1")
    try:
        return name, float(weight)
    except ValueError:  # as if it were not there
        return name, 0.0
