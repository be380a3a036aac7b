"""Every event of the log is a constant with fields, so that it can be counted and nothing slips in."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.logs import FIELDS

ROOT = Path(__file__).parents[2]
FILES = sorted(path for name in ("server", "encoding", "pipelines") for path in (ROOT / name).rglob("*.py"))
LOGGERS = {"logger", "_logger", "_log", "log"}
LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}


def calls(path: Path) -> Iterator[ast.Call]:
    """Calls of a module's logger."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        holder = node.func.value
        if isinstance(holder, ast.Name) and holder.id in LOGGERS and node.func.attr in LEVELS:
            yield node


def problems(call: ast.Call) -> Iterator[str]:
    """What is wrong with it."""
    assert isinstance(call.func, ast.Attribute)
    said = call.args[1:] if call.func.attr == "log" else call.args
    if len(said) != 1:
        yield "has arguments: what varies is a field"
    elif any(isinstance(node, ast.JoinedStr | ast.BinOp) for node in ast.walk(said[0])):
        yield "is put together: what varies is a field"
    for node in ast.walk(call):
        if isinstance(node, ast.Dict):
            names = [key.value for key in node.keys if isinstance(key, ast.Constant)]
            yield from (f"{name!r} is no field of server/logs.py" for name in names if name not in FIELDS)


def test_every_event_is_a_constant_with_fields() -> None:
    """In all three packages."""
    found = [(path, call) for path in FILES for call in calls(path)]
    assert len(found) > 20
    wrong = [
        f"{path.relative_to(ROOT)}:{call.lineno}: {problem}"
        for path, call in found
        for problem in problems(call)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "text",
    [
        'logger.info("job %s failed", job_id)',
        'logger.info(f"job {job_id} failed")',
        'logger.log(level, "job " + job_id)',
        'logger.warning("job failed", extra={"prompt": prompt})',
    ],
)
def test_what_breaks_the_rule_is_seen(text: str) -> None:
    """The test above can fail."""
    (call,) = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    assert list(problems(call))
