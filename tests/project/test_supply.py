"""What could run code that came as data."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHIPPED = [
    path
    for name in ("server", "pipelines", "encoding", "benchmarks", "scripts")
    for path in (ROOT / name).rglob("*.py")
]
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "telnetlib", "xmlrpc"}
NAMES = {"eval", "exec", "compile", "__import__"}
CALLS = {
    "yaml.load",
    "yaml.unsafe_load",
    "yaml.full_load",
    "os.system",
    "os.popen",
    "subprocess.getoutput",
    "subprocess.getstatusoutput",
    "asyncio.create_subprocess_shell",
    "torch.hub.load",
    "pandas.read_pickle",
    "numpy.fromregex",
}


def problems(source: str) -> Iterator[str]:
    """What a module does that could run data as code."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names):
                yield from (name.name for name in names if name.name.partition(".")[0] in MODULES)
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in MODULES:
                yield module
            case ast.Call(func=ast.Name(name)) if name in NAMES:
                yield name
            case ast.Call():
                yield from _of_call(node)


def _of_call(call: ast.Call) -> Iterator[str]:
    name = ast.unparse(call.func)
    given = {word.arg: ast.unparse(word.value) for word in call.keywords if word.arg is not None}
    if name in CALLS:
        yield name
    if name == "torch.load" and given.get("weights_only") != "True":
        yield "torch.load without weights_only"
    if given.get("trust_remote_code", "False") != "False":
        yield "trust_remote_code"
    if given.get("shell", "False") != "False":
        yield "shell"
    if given.get("allow_pickle", "False") != "False":
        yield "allow_pickle"
    if given.get("use_safetensors", "True") != "True":
        yield "use_safetensors"


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "torch.load(path, weights_only=flag)",
        "AutoModel.from_pretrained(path, trust_remote_code=True)",
        "yaml.load(text)",
        "eval(text)",
        "subprocess.run(text, shell=True)",
        "numpy.load(path, allow_pickle=True)",
        "os.system(text)",
    ],
)
def test_it_is_found(source: str) -> None:
    """So that finding nothing means something."""
    assert list(problems(source))


def test_no_data_is_run_as_code() -> None:
    """Tensors are read by safetensors or with `weights_only`; no model brings code of its own; no shell."""
    found = {path.relative_to(ROOT): list(problems(path.read_text())) for path in SHIPPED}
    assert {path: names for path, names in found.items() if names} == {}
    assert len(found) > 100


def test_every_version_is_pinned() -> None:
    """What is installed is what was tested; the exact ones are in the lock, one each."""
    lines = [
        line for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.startswith("#")
    ]
    assert all("==" in line for line in lines)
    names = [line.partition("==")[0].lower() for line in lines]
    assert len(set(names)) == len(names)
