"""The processes that decode what clients sent, among all that a test run has."""

from __future__ import annotations

import contextlib

import psutil


def decoders() -> list[psutil.Process]:
    """The fork servers of this process."""
    return [child for child in psutil.Process().children() if any(map(_is_child_module, _command(child)))]


def forks() -> list[psutil.Process]:
    """What is being decoded."""
    found: list[psutil.Process] = []
    for server in decoders():
        with contextlib.suppress(psutil.NoSuchProcess):
            found += server.children()
    return found


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # it has just ended
        return []


def _is_child_module(argument: str) -> bool:
    return argument.startswith(("server.", "tests.server.")) and argument.endswith("_child")
