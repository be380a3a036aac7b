"""One training loop for all: resumable, bounded in time, with averaged weights and a log."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn

SHARD_BYTES = 15 * 2**20
"""Largest file of a state: machines that lend their time send back small files only."""

Losses = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Plan:
    """How long and how fast. The rate rises over `warmup` steps and falls as a cosine to a twentieth."""

    steps: int
    rate: float
    until: int | None = None
    """The step to stop at for now; None: the last one."""
    warmup: int = 100
    average: float = 0.999
    """Weight of the past in the averaged weights, once there is one."""
    clip: float = 1.0
    """Largest norm of the gradient."""
    minutes: float | None = None
    """The run stops after this long, and goes on when it is started again; None: at its end."""
    log_every: int = 20

    @property
    def end(self) -> int:
        """The step that a run stops at."""
        return self.steps if self.until is None else min(self.until, self.steps)

    def rate_at(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        rise = min(1.0, (step + 1) / self.warmup)
        return self.rate * rise * (0.05 + 0.95 * (1 + math.cos(math.pi * min(1.0, step / self.steps))) / 2)


def train(folder: Path, modules: Mapping[str, nn.Module], losses: Callable[[int], Losses], plan: Plan) -> int:
    """Train `modules` on `losses(step)`, of which `loss` is minimized, and return the number of steps done.

    `folder` holds the state: what is there is gone on with, what is reached is written, every ten minutes and
    when it stops; of a run at its last step only the averaged weights. The log is `log.jsonl` there, one
    object a line.
    """
    state = _State(folder, modules)
    step = state.load()
    parameters = list(state.parameters.values())
    started = saved = time.monotonic()
    _log(folder, {"event": "start", "step": step, "device": str(parameters[0].device), **asdict(plan)})
    sums: dict[str, float] = {}
    while step < plan.end:
        now = time.monotonic()
        if plan.minutes is not None and now - started > plan.minutes * 60:
            break
        if now - saved > 600:
            state.save(step)
            saved = now
        state.optimizer.param_groups[0]["lr"] = plan.rate_at(step)
        found = losses(step)
        state.optimizer.zero_grad(set_to_none=True)
        found["loss"].backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(parameters, plan.clip)
        state.optimizer.step()
        step += 1
        state.average(min(plan.average, step / (step + 10)))
        if step % plan.log_every == 0:
            sums = {name: float(value.detach()) for name, value in found.items()}
            seconds = round(time.monotonic() - started, 1)
            _log(folder, {"step": step, "seconds": seconds, **{k: round(v, 5) for k, v in sums.items()}})
    state.save(step, whole=step < plan.steps)
    _log(folder, {"event": "stop", "step": step, "seconds": round(time.monotonic() - started, 1)})
    return step


def steps_done(folder: Path) -> int:
    """How far the run of a folder is; 0 where there is none."""
    index = folder / "state.json"
    return int(json.loads(index.read_text())["step"]) if index.exists() else 0


def average_of(folder: Path) -> tuple[dict[str, torch.Tensor], int]:
    """The averaged weights of a run by `module.parameter`, and the steps that they have seen.

    Raises:
        FileNotFoundError: `folder` holds no run.
    """
    tensors, step = _read(folder)
    prefix = "average "
    return {
        name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)
    }, step


def averaged(folder: Path, modules: Mapping[str, nn.Module]) -> int:
    """Load the averaged weights of a run into `modules`; see `average_of`."""
    tensors, step = average_of(folder)
    with torch.no_grad():
        for name, parameter in _named(modules).items():
            parameter.copy_(tensors[name])
    return step


class _State:
    """The weights, their average and the optimizer's moments, and the files that hold them."""

    def __init__(self, folder: Path, modules: Mapping[str, nn.Module]) -> None:
        self._folder = folder
        everything = _named(modules)
        self.parameters = {name: value for name, value in everything.items() if value.requires_grad}
        self._frozen = {name: value for name, value in everything.items() if not value.requires_grad}
        self.optimizer = torch.optim.AdamW(
            list(self.parameters.values()), lr=0.0, betas=(0.9, 0.98), weight_decay=0.0, foreach=True
        )
        self._average = {name: value.detach().clone() for name, value in self.parameters.items()}

    def average(self, past: float) -> None:
        """Move the average towards the weights."""
        with torch.no_grad():
            torch._foreach_lerp_(list(self._average.values()), list(self.parameters.values()), 1 - past)

    def load(self) -> int:
        """The step that the folder's state is at; 0 when there is none."""
        try:
            tensors, step = _read(self._folder)
        except FileNotFoundError:
            return 0
        with torch.no_grad():
            for name, parameter in self._frozen.items():
                parameter.copy_(tensors[f"average {name}"])
            for name, parameter in self.parameters.items():
                parameter.copy_(tensors.get(f"weight {name}", tensors[f"average {name}"]))
                self._average[name].copy_(tensors[f"average {name}"])
                if f"first {name}" not in tensors:  # it was at its end, and is to go on after all
                    continue
                self.optimizer.state[parameter] = {
                    "step": torch.tensor(float(step)),
                    "exp_avg": tensors[f"first {name}"].to(parameter),
                    "exp_avg_sq": tensors[f"second {name}"].to(parameter),
                }
        return step

    def save(self, step: int, *, whole: bool = True) -> None:
        """Write everything beside what is there, then let the index name it: a kill leaves the older one."""
        tensors = {f"average {name}": value.detach().cpu() for name, value in self._frozen.items()}
        for name, parameter in self.parameters.items():
            tensors[f"average {name}"] = self._average[name].cpu()
            if not whole:
                continue
            moments = self.optimizer.state.get(parameter)
            tensors[f"weight {name}"] = parameter.detach().cpu().contiguous()
            for key, moment in (("first", "exp_avg"), ("second", "exp_avg_sq")):
                value = torch.zeros_like(parameter) if moments is None else moments[moment]
                tensors[f"{key} {name}"] = value.detach().cpu().contiguous()
        self._folder.mkdir(parents=True, exist_ok=True)
        names: list[str] = []
        for number, shard in enumerate(_shards(tensors)):
            names.append(f"state-{step}-{number}.safetensors")
            save_file(shard, self._folder / names[-1])
        index = self._folder / "state.json"
        index.with_suffix(".part").write_text(json.dumps({"step": step, "files": names}))
        index.with_suffix(".part").replace(index)
        for file in self._folder.glob("state-*.safetensors"):
            if file.name not in names:
                file.unlink()


def _named(modules: Mapping[str, nn.Module]) -> dict[str, nn.Parameter]:
    return {
        f"{module}.{name}": parameter
        for module, model in modules.items()
        for name, parameter in model.named_parameters()
    }


def _shards(tensors: dict[str, torch.Tensor]) -> list[dict[str, torch.Tensor]]:
    shards: list[dict[str, torch.Tensor]] = [{}]
    size = 0
    for name, tensor in tensors.items():
        if shards[-1] and size + tensor.nbytes > SHARD_BYTES:
            shards.append({})
            size = 0
        shards[-1][name] = tensor
        size += tensor.nbytes
    return shards


def _read(folder: Path) -> tuple[dict[str, torch.Tensor], int]:
    index = json.loads((folder / "state.json").read_text())
    tensors: dict[str, torch.Tensor] = {}
    for name in index["files"]:
        tensors |= load_file(folder / name)
    return tensors, int(index["step"])


def _log(folder: Path, entry: dict[str, object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log.jsonl").open("a") as file:
        file.write(json.dumps(entry) + "\n")
