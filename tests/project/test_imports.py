"""The HTTP process is free of what only a worker needs."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("torch", "av", "diffusers", "transformers", "safetensors", "accelerate")

PROGRAM = """
import importlib, sys
for name in sys.argv[2:]:
    importlib.import_module(name)
print(*[name for name in sys.argv[1].split(",") if name in sys.modules])
"""


def heavy_modules_after(*modules: str) -> list[str]:
    """Which of `HEAVY` a fresh interpreter holds once it has imported `modules`."""
    command = [sys.executable, "-c", PROGRAM, ",".join(HEAVY), *modules]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_the_http_process_is_free_of_the_workers_libraries() -> None:
    """Application, command line and engine import neither torch nor av nor the model libraries."""
    assert heavy_modules_after("server.app", "server.cli", "server.engine.local") == []


def test_contracts_are_free_of_the_workers_libraries() -> None:
    """What server and worker share can be imported anywhere."""
    shared = ("pipelines.base", "pipelines.errors", "pipelines.registry")
    assert heavy_modules_after(*shared) == []
    assert (
        heavy_modules_after("encoding.base", "encoding.errors", "encoding.formats", "encoding.options") == []
    )


def test_the_probe_sees_a_heavy_import() -> None:
    """The tests above can fail."""
    assert "av" in heavy_modules_after("av")
