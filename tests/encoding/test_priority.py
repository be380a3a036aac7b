"""What an encoder may do to the machine that it shares."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from encoding.options import CODECS
from encoding.priority import usual_priority
from encoding.probe import available_codecs

PROBE = """
import os
from fractions import Fraction
from pathlib import Path
import av
from encoding.base import OutputSpec
from encoding.encoder import find_encoder, open_encoder

spec = OutputSpec(Path("unused.mp4"), "mp4", 64, 64, 3, Fraction(16), {}, codec=CODEC)
context = av.CodecContext.create(find_encoder(CODEC), "w")
open_encoder(context, spec)
threads = [int(thread) for thread in os.listdir("/proc/self/task")]
print(*sorted({os.sched_getscheduler(thread) for thread in (0, *threads)}))
"""


@pytest.mark.parametrize("codec", sorted(CODECS.keys() & set(available_codecs("mp4"))))
def test_an_encoder_takes_no_priority_over_others(codec: str) -> None:
    """Its threads, and whoever opens it, have the policy that they would have without it, also as root."""
    command = [sys.executable, "-c", f"CODEC = {codec!r}\n{PROBE}"]
    folder = Path(__file__).parents[2]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.split()
    assert [int(policy) for policy in said] == [os.SCHED_OTHER]


def test_nobody_here_has_priority() -> None:
    """Every encoder has been tried in this process by now: what it starts later would inherit it."""
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_a_system_that_lets_nobody_choose_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under a filter of system calls: no encoder would work there otherwise."""
    policy, priority, choose = os.sched_getscheduler(0), os.sched_getparam(0), os.sched_setscheduler
    asked: list[int] = []

    def refuse(thread: int, *_: object) -> None:
        asked.append(thread)
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    try:
        with usual_priority():
            choose(0, os.SCHED_BATCH, os.sched_param(0))
        with usual_priority():
            pass
    finally:
        choose(0, policy, priority)
    assert asked == [0]
