"""Keep the documents' tables equal to the code: `--check` (exit 1 where they differ) or `--write`.

A table lies between `<!-- table: NAME -->` and `<!-- end -->`; NAME is a key of `TABLES`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import getdoc
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin

import annotated_types
import yaml
from pydantic import AliasChoices, BaseModel
from pydantic.fields import FieldInfo

from encoding.formats import ALIASES, FORMATS
from encoding.options import CODECS
from server.answers import ModelCard, Video
from server.app import create_app
from server.auth.settings import KeySettings
from server.engine.base import JobErrorCode
from server.errors import ERROR_TABLE
from server.metrics import Metrics
from server.model_settings import ModelSettings
from server.schemas import VideoGenerationRequest
from server.sections import MIB
from server.settings import Settings, default_config, leaves, load
from server.webhooks.settings import WebhookSettings

ROOT = Path(__file__).resolve().parent.parent
PLACE = re.compile(r"(<!-- table: (?P<name>\w+) -->\n)(?P<rows>.*?)(<!-- end -->)", re.DOTALL)
METHODS = ("get", "post", "delete")

Row = tuple[str, ...]


def routes() -> Iterator[Row]:
    """Every route of the OpenAPI document, with the first line of its handler's docstring."""
    yield "route", "answer"
    for path, operations in create_app(load(default_config())).openapi()["paths"].items():
        for method in METHODS:
            if method in operations:
                yield f"`{method.upper()} {path}`", operations[method]["description"].splitlines()[0]


def fields() -> Iterator[Row]:
    """Every field of a request, with its other spellings."""
    yield "field", "type", "allowed", "meaning"
    types = VideoGenerationRequest.model_json_schema()["properties"]
    for name, field in VideoGenerationRequest.model_fields.items():
        yield spellings(name, field), wire_type(types[name]), allowed(field), field.description or ""


def settings() -> Iterator[Row]:
    """Every setting of the service."""
    return setting_rows(Settings)


def models() -> Iterator[Row]:
    """Every setting of one served model."""
    return setting_rows(ModelSettings)


def webhooks() -> Iterator[Row]:
    """Every setting of one webhook."""
    return setting_rows(WebhookSettings)


def keys() -> Iterator[Row]:
    """Every setting of one API key."""
    return setting_rows(KeySettings)


def setting_rows(model: type[BaseModel]) -> Iterator[Row]:
    yield "setting", "default", "allowed", "meaning"
    for name, field in leaves(model):
        yield f"`{name}`", default(name, field), allowed(field), field.description or ""


def formats() -> Iterator[Row]:
    """Every output format."""
    yield "format", "also", "content type", "suffix", "encoder", "sound", "can be streamed"
    for row in FORMATS.values():
        also = ", ".join(f"`{alias}`" for alias, name in ALIASES.items() if name == row.name)
        streamed = "yes" if row.streamable else "no"
        encoder = ", ".join(f"`{codec}`" for codec in row.codecs) or "none: raw frames"
        sound = f"`{row.audio_codec}`" if row.audio_codec is not None else "raw samples"
        yield f"`{row.name}`", also, f"`{row.media_type}`", f"`{row.suffix}`", encoder, sound, streamed


def encoders() -> Iterator[Row]:
    """Every video encoder, with what a request may set."""
    yield "encoder", "shortest side", "the service's choice", "options of a request"
    for name, codec in CODECS.items():
        defaults = " ".join(f"{option}={value}" for option, value in codec.defaults.items())
        allowed = "; ".join(f"`{option}`: {kind.allowed}" for option, kind in codec.options.items())
        yield f"`{name}`", str(codec.min_side), f"`{defaults}`", allowed


def video() -> Iterator[Row]:
    """Every key of the job object."""
    return keys_of(Video)


def model_card() -> Iterator[Row]:
    """Every key of a model in `GET /v1/models`."""
    return keys_of(ModelCard)


def keys_of(answer: type[BaseModel]) -> Iterator[Row]:
    """Every key of an answer."""
    yield "key", "type", "meaning"
    types = answer.model_json_schema(mode="serialization")["properties"]
    for name, field in answer.model_fields.items():
        yield f"`{name}`", wire_type(types[name]), field.description or ""


def errors() -> Iterator[Row]:
    """Every row of the one table from errors to answers."""
    yield "status", "code", "type", "when"
    for kind, row in sorted(ERROR_TABLE.items(), key=lambda item: item[1].status):
        when = (getdoc(kind) or "").partition("\n")[0].partition(";")[0].rstrip(".")
        yield str(row.status), f"`{row.code}`", f"`{row.type}`", when


def job_errors() -> Iterator[Row]:
    """Every code that a failed job can have."""
    yield "code", "the job failed because"
    for code in get_args(JobErrorCode):
        yield f"`{code}`", JOB_ERRORS[code]


JOB_ERRORS: Mapping[str, str] = MappingProxyType(
    {
        "cancelled": "it was cancelled, or the client that waited for it went away",
        "timeout": "it was not finished within the time that the operator allows",
        "out_of_memory": "the device had too little memory for it",
        "worker_crashed": "its worker process died",
        "server_restarted": "the server was stopped while it ran, and a client had been waiting for it",
        "invalid_reference": "a reference picture turned out to be of no use",
        "encoding_failed": "the frames could not be made into a file",
        "storage_failed": "the file could not be written",
        "internal_error": "of a bug; the log has the trace",
    }
)


def metrics() -> Iterator[Row]:
    """Every metric of the server's own."""
    yield "metric", "type", "labels", "what it counts or measures"
    for metric in Metrics().described():
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        yield f"`{metric.name}`", metric.kind, labels, metric.text


def alerts() -> Iterator[Row]:
    """Every alert of docs/alerts.yml."""
    yield "alert", "severity", "what it means", "what to do"
    for rule in yaml.safe_load((ROOT / "docs/alerts.yml").read_text())["groups"][0]["rules"]:
        said = rule["annotations"]
        yield f"`{rule['alert']}`", rule["labels"]["severity"], said["summary"], said["action"]


TABLES: Mapping[str, Callable[[], Iterable[Row]]] = MappingProxyType(
    {
        "routes": routes,
        "fields": fields,
        "settings": settings,
        "models": models,
        "webhooks": webhooks,
        "keys": keys,
        "formats": formats,
        "encoders": encoders,
        "video": video,
        "model_card": model_card,
        "errors": errors,
        "job_errors": job_errors,
        "metrics": metrics,
        "alerts": alerts,
    }
)
DOCUMENTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "README.md": ("routes", "fields", "settings", "models", "webhooks", "keys", "formats", "encoders"),
        "docs/operations.md": ("metrics", "alerts"),
        "docs/wire.md": ("routes", "video", "model_card", "errors", "job_errors"),
    }
)
"""Which tables a document has, each once."""


def spellings(name: str, field: FieldInfo) -> str:
    if not isinstance(field.validation_alias, AliasChoices):
        return f"`{name}`"
    others = [f"`{choice}`" for choice in field.validation_alias.choices if choice != name]
    return f"`{name}` [{', '.join(others)}]"


def wire_type(schema: Mapping[str, Any]) -> str:
    """A JSON schema in a few words; null is left out, since every field but the prompt may be absent."""
    if "anyOf" in schema:
        kinds = (wire_type(part) for part in schema["anyOf"] if part.get("type") != "null")
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("format") == "binary":
        return "file"
    return "object" if "$ref" in schema else str(schema.get("type", "any"))


def allowed(field: FieldInfo) -> str:
    if get_origin(field.annotation) is Literal:
        return " or ".join(f"`{choice}`" for choice in get_args(field.annotation))
    return ", ".join(bound for rule in field.metadata if (bound := bound_of(rule)) is not None)


def bound_of(rule: object) -> str | None:
    match rule:
        case annotated_types.Ge(ge=low):
            return f"≥ {low}"
        case annotated_types.Gt(gt=low):
            return f"> {low}"
        case annotated_types.Le(le=high):
            return f"≤ {high}"
        case annotated_types.MultipleOf(multiple_of=step):
            return f"multiple of {step}"
        case annotated_types.MaxLen(max_length=length):
            return f"≤ {length} characters"
        case _:
            return None


def default(name: str, field: FieldInfo) -> str:
    value = field.default
    if field.is_required():
        return "required"
    if value is None or value in ((), ""):
        return ""
    if name.endswith("_bytes") and value % MIB == 0:
        return f"{value // MIB} MiB"
    if isinstance(value, bool):
        return str(value).lower()
    return f"`{', '.join(map(str, value))}`" if isinstance(value, tuple) else f"`{value}`"


def markdown(rows: Iterable[Row]) -> str:
    header, *body = (tuple(cell.replace("|", "\\|") for cell in row) for row in rows)
    return "".join(f"| {' | '.join(row)} |\n" for row in (header, ("---",) * len(header), *body))


def renewed(text: str, names: Iterable[str]) -> str:
    """`text` with every table as the code has it.

    Raises:
        ValueError: the tables of the text are not `names`, each once.
    """
    named = [match["name"] for match in PLACE.finditer(text)]
    if sorted(named) != sorted(names):
        raise ValueError(f"the document has the tables {named}; it must have {list(names)}, each once")
    return PLACE.sub(lambda match: match[1] + markdown(TABLES[match["name"]]()) + match[4], text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    verb = parser.add_mutually_exclusive_group(required=True)
    verb.add_argument("--check", action="store_true", help="exit 1 where documents and code differ")
    verb.add_argument("--write", action="store_true", help="renew the tables")
    write = parser.parse_args().write
    stale = [name for name, tables in DOCUMENTS.items() if differs(ROOT / name, tables, write)]
    for name in stale:
        print(
            f"{name}: its tables differ from the code; run `python -m scripts.readme_tables --write`",
            file=sys.stderr,
        )
    return 1 if stale and not write else 0


def differs(document: Path, tables: Iterable[str], write: bool) -> bool:
    """Whether the document was not as the code has it; with `write` it is afterwards."""
    text = document.read_text()
    new = renewed(text, tables)
    if write:
        document.write_text(new)
    return not write and new != text


if __name__ == "__main__":
    sys.exit(main())
