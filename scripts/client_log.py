"""Renew the tables of docs/clients.md: run every client that is here against a server of its own.

`python -m scripts.client_log` in the project's folder, after `make clients`. Clients that are not installed
keep the table that they have.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.clients.request_log import DOCUMENT, WALKS, renewed, take
from tests.conftest import CAPABILITIES
from tests.serving import start


def main() -> int:
    here = [client for client, walk in WALKS.items() if walk.marker is None or CAPABILITIES[walk.marker]()]
    with tempfile.TemporaryDirectory() as folder:
        server = start(Path(folder))
        try:
            tables = {client: take(client, server.url).table for client in here}
        finally:
            server.stop()
    DOCUMENT.write_text(renewed(DOCUMENT.read_text(), tables))
    print(f"written: {', '.join(here)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
