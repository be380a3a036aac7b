"""A process that must not outlive the one which started it. Linux only, as the rest."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent, process number `parent`, ends; at once if it has.

    That works on a process that is stopped, or stuck in native code, where no thread of ours gets a turn.
    The kernel goes by the *thread* that forked: a server must start its children on a thread that lives as
    long as itself, as the event loop's does.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the line above: nobody will send that signal
        os._exit(1)
