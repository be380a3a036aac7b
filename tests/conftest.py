"""Tests that need more than this project: where it is missing they are skipped, and in CI they fail."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import logging
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import hypothesis
import pytest

from server import logs
from tests import postgres

hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")

pytest_plugins = ["tests.serving", "tests.databases", "tests.disks"]

CLIENTS = Path(".clients")
"""Where `make clients` puts the clients that get an environment of their own."""


def _on_path(*programs: str) -> bool:
    return any(shutil.which(program) is not None for program in programs)


def _has_gpu() -> bool:
    import torch  # seconds, for those tests alone that ask

    return torch.cuda.is_available()


CAPABILITIES: Mapping[str, Callable[[], bool]] = MappingProxyType(
    {
        "gpu": _has_gpu,
        "postgres": postgres.available,
        "ray": lambda: importlib.util.find_spec("ray") is not None,
        "browser": lambda: _on_path("chromium", "chromium-browser", "google-chrome"),
        "curl": lambda: _on_path("curl"),
        "ffmpeg": lambda: _on_path("ffmpeg"),
        "espeak": lambda: _on_path("espeak-ng"),
        "node": Path("tests/clients/node/node_modules/.package-lock.json").exists,
        "openai2": lambda: (CLIENTS / "openai2").is_dir(),
        "litellm": lambda: (CLIENTS / "litellm").is_dir(),
        "mounts": lambda: importlib.import_module("tests.disks").may_mount(),
    }
)
"""Marker → whether what it needs is here."""

NEVER_IN_CI = frozenset({"gpu"})
"""What CI's machines do not have; its absence is no one's mistake."""


@pytest.fixture(autouse=True)
def quiet_log() -> Iterator[None]:
    """A command that a test runs in this process sets up its log; the next test gets that of pytest again."""
    hooks = sys.excepthook, threading.excepthook
    yield
    sys.excepthook, threading.excepthook = hooks
    ours = [one for one in logging.root.handlers if type(one.formatter) in logs.FORMATTERS.values()]
    for handler in ours:
        logging.root.removeHandler(handler)
    if ours:
        logging.captureWarnings(False)
        for name in (*logs.OURS, "uvicorn"):
            logging.getLogger(name).setLevel(logging.NOTSET)


def pytest_collection_finish() -> None:
    """All that was imported stays: what tests have collected need not walk through it, half a second each."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    for name, present in CAPABILITIES.items():
        if item.get_closest_marker(name) is None or present():
            continue
        if os.environ.get("CI") == "true" and name not in NEVER_IN_CI:
            pytest.fail(f"CI lacks what the marker {name!r} needs", pytrace=False)
        pytest.skip(f"needs {name}")
