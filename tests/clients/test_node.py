"""The JavaScript clients, each with a suite of Node's own test runner."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.clients.places import NODE, NODE_FOLDER, URL_VARIABLE, environment
from tests.e2e.requests import png


@pytest.mark.node
@pytest.mark.parametrize("suite", ["openai.test.mjs", "tanstack.test.mjs"])
def test_the_suite_passes(suite: str, url: str, tmp_path: Path) -> None:
    """Every test of the suite, against this server."""
    picture = tmp_path / "first.png"
    picture.write_bytes(png())
    variables = environment(**{URL_VARIABLE: url, "REELSERVE_TEST_PICTURE": str(picture)})
    command = [str(NODE), "--test", "--test-reporter", "spec", suite]
    run = subprocess.run(command, cwd=NODE_FOLDER, env=variables, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
