"""Python runs this at the start of processes with tests/faults on its PYTHONPATH (`tests.serving.FAULTS`).

Only a worker process is changed, before it imports anything of its own.
"""

from __future__ import annotations

import sys

if "server.engine.worker" in sys.orig_argv:
    from tests.faults.injected import install

    install()
