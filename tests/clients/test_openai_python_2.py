"""The last 2.x of the official Python client, in a process of its own: one process holds one major."""

from __future__ import annotations

import subprocess

import pytest

from tests.clients.places import MAJOR_VARIABLE, PYTHON, ROOT, URL_VARIABLE, environment

SUITE = ("tests/clients/test_openai_python.py", "tests/clients/test_openai_python_fields.py")


@pytest.mark.openai2
def test_the_same_suite_passes(url: str) -> None:
    """Every test that the newest major passes."""
    variables = environment("openai2", **{URL_VARIABLE: url, MAJOR_VARIABLE: "2"})
    command = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SUITE]
    run = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
