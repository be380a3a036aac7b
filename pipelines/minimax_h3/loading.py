"""A checkpoint of MiniMax-H3 → diffusers' modular pipeline, with the components that its tasks need."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from diffusers import ComponentsManager, MiniMaxH3Blocks, ModularPipeline

from pipelines.base import ModelConfig
from pipelines.dummy import brought_home, build_empty
from pipelines.errors import LoadFailed
from pipelines.minimax_h3.processor import load_processor
from pipelines.offload import keep_on_host

CONDITIONER = "text_encoder"
"""diffusers' name of the component that reads prompts and pictures."""

TASKS = ("t2va", "fl2va", "ref2va")
"""diffusers' names: from text; from a first or last picture; from references, by another transformer."""

RESERVE = "12GB"
"""What offloading leaves free on the device for the work itself, as diffusers advises for a card of 80 GB."""


def load(config: ModelConfig, device: torch.device) -> tuple[Any, tuple[str, ...]]:
    """The pipeline on `device`, and the tasks that it can do.

    Raises:
        LoadFailed: a task that there is none of.
        OSError, ValueError, KeyError, AttributeError, RuntimeError, ImportError: what cannot be loaded.
    """
    tasks = config.tasks or TASKS
    if unknown := set(tasks) - set(TASKS):
        raise LoadFailed(f"model {config.id}: tasks: {', '.join(unknown)}: there are {', '.join(TASKS)}")
    manager = ComponentsManager() if config.offload == "model" and device.type == "cuda" else None
    pipe = ModularPipeline.from_pretrained(config.path, components_manager=manager)
    if not isinstance(pipe.blocks, MiniMaxH3Blocks):
        raise LoadFailed(
            f"model {config.id}: {config.path} holds {type(pipe.blocks).__name__}; "
            "kind minimax-h3 serves MiniMaxH3Blocks"
        )
    with known_warnings():
        for name in _needed(pipe, tasks):
            pipe.register_components(**{name: _component(pipe, name, config, device)})
            if name == CONDITIONER:
                _shorten(pipe, config.id)
                _keep_one_state(pipe)
    if manager is not None:
        keep_on_host(pipe.components.values(), mapped=config.load_format != "dummy")
        manager.enable_auto_cpu_offload(device=device, memory_reserve_margin=RESERVE)
    else:
        pipe.to(device)
    return pipe, tuple(task for task in TASKS if task in tasks)


def _needed(pipe: Any, tasks: tuple[str, ...]) -> Iterator[str]:
    """The components of the tasks that lie in the checkpoint, the tokenizer before the processor.

    The conditioner is the first: what it never needs is let go before there is anything beside it.
    """
    blocks = (pipe.blocks.get_workflow(task) for task in tasks)
    names = dict.fromkeys(spec.name for each in blocks for spec in each.expected_components)
    for name in sorted(names, key=lambda name: (name != CONDITIONER, name == "processor")):
        if pipe.get_component_spec(name).default_creation_method == "from_pretrained":
            yield name


def _component(pipe: Any, name: str, config: ModelConfig, device: torch.device) -> Any:
    spec, dtype = pipe.get_component_spec(name), getattr(torch, config.dtype)
    source = spec.pretrained_model_name_or_path or config.path
    if name == "processor":
        return load_processor(source, spec.subfolder, pipe.tokenizer)
    if config.load_format == "dummy" and issubclass(spec.type_hint, torch.nn.Module):
        # Drawn on the device, for the host would take minutes; offloaded components start on the host.
        made = build_empty(Path(config.path) / name, spec.type_hint, dtype, device)
        return brought_home(made) if config.offload == "model" else made
    component = spec.load(dtype=dtype)
    return component.eval().requires_grad_(False) if isinstance(component, torch.nn.Module) else component


def _shorten(pipe: Any, model: str) -> None:
    """Let go of what the conditioner never needs: the layers behind the one that is read, and its words.

    The blocks insist on one layer more than they read: the last one's output would be normalised.
    """
    conditioner, kept = pipe.text_encoder, pipe.text_encoder_layer + 1
    text = conditioner.model.language_model
    if len(text.layers) < kept:
        raise LoadFailed(
            f"model {model}: {CONDITIONER}: {len(text.layers)} layers are not enough; "
            f"{kept} are needed, for what comes out of number {kept - 1}"
        )
    text.layers = text.layers[:kept]
    for config in (conditioner.config.text_config, text.config):
        config.num_hidden_layers = kept
    conditioner.lm_head = torch.nn.Identity()


def _keep_one_state(pipe: Any) -> None:
    """Have the conditioner keep the one state that is read, of the 52 that the blocks ask for.

    Each has a row of hidden size for every token. transformers takes the numbers of the wanted ones where the
    blocks say True, and puts None for the others.
    """
    layer = pipe.text_encoder_layer

    def choose(
        _module: torch.nn.Module, given: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return given, named | {"output_hidden_states": [layer]}

    pipe.text_encoder.model.register_forward_pre_hook(choose, with_kwargs=True)


@contextmanager
def known_warnings() -> Iterator[None]:
    """The audio VAE is made with a function of torch's that torch calls old."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*weight_norm.*", FutureWarning)
        yield
