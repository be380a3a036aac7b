"""Weights of an offloaded component stay on the host; only their copy comes and goes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pipelines.offload import keep_on_host


class Travelling(torch.nn.Linear):
    """Copies its weights whenever it is moved, as between two devices; `moves` says where to."""

    def __init__(self) -> None:
        super().__init__(3, 2)
        self.moves: list[str] = []
        self.away: set[int] = set()

    def to(self, *args: Any, **named: Any) -> Travelling:
        target = str(named.get("device", args[0] if args else None))
        self.moves.append(target)
        for weight in self.parameters():
            if (target != "cpu") != (weight.data_ptr() in self.away):
                weight.data = weight.data.clone()
                (self.away.add if target != "cpu" else self.away.discard)(weight.data_ptr())
        return self


def places(module: torch.nn.Module) -> list[int]:
    return [weight.data_ptr() for weight in module.parameters()]


@pytest.mark.parametrize("there", ["cuda:0", torch.device("cuda:0"), 0])
def test_the_way_back_copies_nothing(there: object) -> None:
    """The very memory of before, twice; on the device it is another."""
    module = Travelling()
    home, weights = places(module), module.weight.detach().clone()
    keep_on_host([module, "no module"])
    for _ in range(2):
        assert module.to(there) is module
        assert not set(places(module)) & set(home)
        assert torch.equal(module.weight, weights)
        module.to(device="cpu")
        assert places(module) == home
    assert module.moves == [str(there), "cpu"] * 2


def test_what_is_changed_on_the_host_stays_changed() -> None:
    """A decoder lays its weights anew after they were loaded."""
    module = Travelling()
    keep_on_host([module])
    module.to("cuda:0").to("cpu")
    module.weight.data = module.weight.data * 2
    changed = module.weight.detach().clone()
    module.to("cuda:0").to("cpu")
    assert torch.equal(module.weight, changed)


def test_a_change_of_type_is_no_move() -> None:
    module = torch.nn.Linear(3, 2)
    keep_on_host([module])
    module.to(torch.bfloat16)
    assert module.weight.dtype == torch.bfloat16
    module.to(dtype=torch.float32)
    assert module.weight.dtype == torch.float32
