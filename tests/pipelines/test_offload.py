"""Weights of an offloaded component stay on the host; only their copy comes and goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import AutoencoderKLWan

from pipelines.offload import keep_on_host
from tests.pipelines.tiny_models import TINY


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
    keep_on_host([module, "no module"], mapped=False)
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
    keep_on_host([module], mapped=False)
    module.to("cuda:0").to("cpu")
    module.weight.data = module.weight.data * 2
    changed = module.weight.detach().clone()
    module.to("cuda:0").to("cpu")
    assert torch.equal(module.weight, changed)


def test_a_change_of_type_is_no_move() -> None:
    module = torch.nn.Linear(3, 2)
    keep_on_host([module], mapped=False)
    module.to(torch.bfloat16)
    assert module.weight.dtype == torch.bfloat16
    module.to(dtype=torch.float32)
    assert module.weight.dtype == torch.float32


def test_a_type_that_was_changed_away_from_home_stays_changed() -> None:
    """The copy on the device is then the only one that has it, and travels home itself."""
    module = Travelling()
    keep_on_host([module], mapped=False)
    module.to("cuda:0")
    module.weight.data = module.weight.data.double()
    module.to("cpu")
    assert (module.weight.dtype, module.bias.dtype) == (torch.float64, torch.float32)


def test_a_checkpoint_that_is_overwritten_changes_no_model(tmp_path: Path) -> None:
    """Libraries give pages of its file, which are read when they are wanted."""
    AutoencoderKLWan.from_pretrained(TINY / "t2v" / "vae").save_pretrained(tmp_path)
    (path,) = tmp_path.glob("*.safetensors")
    vae: Any = AutoencoderKLWan.from_pretrained(tmp_path)
    keep_on_host([vae], mapped=True)
    weight = vae.decoder.conv_in.weight
    before, size = weight.detach().clone(), path.stat().st_size
    with path.open("r+b") as file:
        file.write(bytes(size))
    assert torch.equal(weight, before)
    assert before.abs().max() > 0
