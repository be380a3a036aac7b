"""Keep the README's tables equal to the code: `--check` (exit 1 where they differ) or `--write`.

A table lies between `<!-- table: NAME -->` and `<!-- end -->`; NAME is a key of `TABLES`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin

import annotated_types
from pydantic import AliasChoices, BaseModel
from pydantic.fields import FieldInfo

from encoding.formats import ALIASES, FORMATS
from server.app import create_app
from server.schemas import VideoGenerationRequest
from server.settings import MIB, ModelSettings, Settings, default_config, leaves, load

README = Path(__file__).resolve().parent.parent / "README.md"
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


def setting_rows(model: type[BaseModel]) -> Iterator[Row]:
    yield "setting", "default", "allowed", "meaning"
    for name, field in leaves(model):
        yield f"`{name}`", default(name, field), allowed(field), field.description or ""


def formats() -> Iterator[Row]:
    """Every output format."""
    yield "format", "also", "content type", "suffix", "encoder", "can be streamed"
    for row in FORMATS.values():
        also = ", ".join(f"`{alias}`" for alias, name in ALIASES.items() if name == row.name)
        streamed = "yes" if row.streamable else "no"
        encoder = "none: raw frames" if row.codec is None else f"`{row.codec}`"
        yield f"`{row.name}`", also, f"`{row.media_type}`", f"`{row.suffix}`", encoder, streamed


TABLES: Mapping[str, Callable[[], Iterable[Row]]] = MappingProxyType(
    {"routes": routes, "fields": fields, "settings": settings, "models": models, "formats": formats}
)


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
    if value is None or value == ():
        return ""
    if name.endswith("_bytes") and value % MIB == 0:
        return f"{value // MIB} MiB"
    if isinstance(value, bool):
        return str(value).lower()
    return f"`{', '.join(value)}`" if isinstance(value, tuple) else f"`{value}`"


def markdown(rows: Iterable[Row]) -> str:
    header, *body = (tuple(cell.replace("|", "\\|") for cell in row) for row in rows)
    return "".join(f"| {' | '.join(row)} |\n" for row in (header, ("---",) * len(header), *body))


def renewed(text: str) -> str:
    """`text` with every table as the code has it.

    Raises:
        ValueError: a table that the code has is missing from the text, or the other way round.
    """
    named = [match["name"] for match in PLACE.finditer(text)]
    if sorted(named) != sorted(TABLES):
        raise ValueError(f"the README has the tables {named}; it must have {list(TABLES)}, each once")
    return PLACE.sub(lambda match: match[1] + markdown(TABLES[match["name"]]()) + match[4], text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    verb = parser.add_mutually_exclusive_group(required=True)
    verb.add_argument("--check", action="store_true", help="exit 1 where README and code differ")
    verb.add_argument("--write", action="store_true", help="renew the tables")
    write = parser.parse_args().write
    text = README.read_text()
    new = renewed(text)
    if write:
        README.write_text(new)
    elif new != text:
        print(
            "README.md: its tables differ from the code; run scripts/readme_tables.py --write",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
