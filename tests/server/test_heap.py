from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from server.heap import return_large_blocks

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

def use(size):
    for _ in range(3):
        blocks = [bytearray(size) for _ in range(3)]
        blocks[0] += b"x"

return_large_blocks()
with ThreadPoolExecutor(8) as threads:
    list(threads.map(use, [1000] * 8))
    before = resident()
    list(threads.map(use, [30_000_000] * 8))
    print(resident() - before)
"""


def test_large_blocks_are_given_back() -> None:
    """After threads have used hundreds of megabytes, the process is as small as before."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 4_000_000
