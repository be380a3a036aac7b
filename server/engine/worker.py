"""A worker process from its first moment: `python -m server.engine.worker FD PARENT`.

FD is the inherited end of a connection: commands come in (`Setup` first), events go out. PARENT is the
process number of the server. The process ends when the server does, whatever it is at then.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import sys
from multiprocessing.connection import Connection

from server import logs
from server.engine.lifeline import die_with

logger = logging.getLogger("reelserve.worker")


def main() -> None:
    """Serve the connection until its other side is gone."""
    die_with(int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal reaches the server, which ends us
    faulthandler.enable()  # a crash in native code leaves the Python lines that led to it in the log
    logs.configure_from_environment()
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)  # a child of ours would keep the connection open after our end
    try:
        # Only now: it imports torch and diffusers, which takes seconds.
        from server.engine.service import Service

        Service(Connection(descriptor)).serve()
    except BaseException:
        logger.critical("error ends the worker", exc_info=True)
    # Not by returning: threads inside native code would hold up the end, or crash in it.
    os._exit(1)


if __name__ == "__main__":
    main()
