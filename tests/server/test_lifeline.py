"""A child that ends with its parent, however little it can do about it."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest

CHILD = """
import ctypes, os, signal, sys, time
from server.engine.lifeline import die_with
die_with(int(sys.argv[1]))
print(os.getpid(), flush=True)
{then}
"""
PARENT = """
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", sys.argv[1], str(os.getpid())])
time.sleep(600)
"""


@pytest.mark.parametrize(
    "then",
    [
        "time.sleep(600)",
        "os.kill(os.getpid(), signal.SIGSTOP)",
        "ctypes.PyDLL(None).sleep(600)",  # holds the interpreter's lock
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)",
    ],
)
def test_a_child_dies_with_its_parent(then: str) -> None:
    """Asleep, stopped, stuck in native code: gone within 5 s of the parent's SIGKILL."""
    command = [sys.executable, "-c", PARENT, CHILD.format(then=then)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        child.wait(5)


def test_a_child_whose_parent_has_gone_before_ends_at_once() -> None:
    """The number of another process stands for a parent that was replaced by the reaper of orphans."""
    command = [sys.executable, "-c", CHILD.format(then="time.sleep(600)"), str(os.getppid())]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
