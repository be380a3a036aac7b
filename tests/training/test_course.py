"""The course: its lines are commands that there are, in an order that has what each of them needs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from training import course, flow, latents, models, transformer, vae


def needs(command: str, words: list[str]) -> tuple[set[str], str]:
    """The folders that a stage reads, and the one that it makes."""
    if command == "vae":
        options = vae.parser().parse_args(words)
        made = str(options.finish or options.folder)
        return ({str(options.folder)} if options.finish else set()), made
    if command == "latents":
        encoded = latents.parser().parse_args(words)
        return {str(encoded.vae)}, str(encoded.folder)
    if command == "transformer":
        trained = transformer.parser().parse_args(words)
        return {str(trained.latents), *([str(trained.origin)] if trained.origin else [])}, str(trained.run)
    runs = {words[place + 1] for place, word in enumerate(words) if word in ("--high", "--low")}
    return {words[1], *runs}, words[2]


def test_every_stage_has_what_it_needs_and_every_task_is_exported() -> None:
    made: set[str] = set()
    for command, *words in course.stages(batch=8):
        wanted, result = needs(command, words)
        assert wanted <= made, (command, words)
        made.add(result)
    assert {f"out/{task}" for task in flow.CHANNELS} | set(models.LAYOUTS) <= made


def test_it_stops_where_the_time_is_up_and_goes_on_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stage that is not done is the last one of that start; all get what is left of the time."""
    calls: list[tuple[str, list[str]]] = []
    monkeypatch.chdir(tmp_path)
    minutes = SimpleNamespace(monotonic=count(step=60.0).__next__)  # each look at the clock takes one
    monkeypatch.setattr(course, "time", minutes)

    def stage(name: str, unfinished: list[str]) -> None:
        def run(words: Sequence[str]) -> bool:
            calls.append((name, list(words)))
            return words[1] not in unfinished

        monkeypatch.setitem(course.COMMANDS, name, run)

    for name in course.COMMANDS:
        stage(name, ["z16-clips"])
    assert not course.follow(8, "cpu", 9.0)
    assert [name for name, _ in calls] == [*["vae"] * 4, "latents"]
    assert [float(words[words.index("--minutes") + 1]) for _, words in calls] == [8.0, 7.0, 6.0, 5.0, 4.0]
    for name in course.COMMANDS:
        stage(name, [])
    assert course.follow(8, "cuda", None)
    assert len(calls) == 5 + len(course.stages(8))
    assert {words[-1] for name, words in calls[5:] if name != "export"} == {"cuda"}
