"""A child that ends with its parent, however little it can do about it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

WAIT_S = 60
CHILD = """
import ctypes, os, signal, sys, time
from server.engine.lifeline import die_with
die_with(int(sys.argv[1]))
print("bound", flush=True)
{then}
"""
PARENT = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, *sys.argv[1:], str(os.getpid())])
print(child.pid, flush=True)
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
    """Asleep, stopped, stuck in native code: gone soon after the parent's SIGKILL."""
    command = [sys.executable, "-c", PARENT, "-c", CHILD.format(then=then)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        said = sorted(parent.stdout.readline() for _ in range(2))
        assert said[1] == "bound\n"
        child = psutil.Process(int(said[0]))
        parent.kill()
        child.wait(WAIT_S)


def test_a_preview_is_not_drawn_for_nobody(tmp_path: Path) -> None:
    """Its process ends with the server, here while it waits for a file that says nothing."""
    source = tmp_path / "video.mp4"
    os.mkfifo(source)
    arguments = ["thumbnail", "mp4", "5", str(source), str(tmp_path / "target")]
    command = [sys.executable, "-c", PARENT, "-m", "encoding.preview_child", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        with source.open("wb"):  # returns when the child reads, and is bound by then
            parent.kill()
            child.wait(WAIT_S)


def test_a_child_whose_parent_has_gone_before_ends_at_once() -> None:
    """The number of another process stands for a parent that was replaced by the reaper of orphans."""
    command = [sys.executable, "-c", CHILD.format(then="time.sleep(600)"), str(os.getppid())]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
