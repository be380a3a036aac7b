"""The command line: serve, generate, check."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from server import logs, serving
from server.settings import SettingsError, default_config, leaves, load
from server.start import StartError

SHORT = {"host": "server.host", "port": "server.port", "data-dir": "data_dir"}
"""Flags that most commands lines have, and the settings that they mean."""
LISTS = ("models", "webhooks", "auth.keys")
"""Lists of sections: no flag can say them, and some are secret, which a command line is not."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status is 0, or 1 with the reason on standard error."""
    options = vars(_parser().parse_args(arguments))
    command = options.pop("command")
    try:
        settings = load(options.pop("config"), _nested(options))
        logs.configure(settings.log.format, settings.log.level)
        status: int = asyncio.run(command(settings, options))
        return status
    except (SettingsError, StartError) as error:
        print(f"reelserve: {error}", file=sys.stderr)  # noqa: T201 - a command's last word
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="reelserve", description="OpenAI-compatible video generation server"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    serve = _command(commands, "serve", serving.serve, "serve the configured models over HTTP")
    generate = _command(commands, "generate", serving.generate, "make one video without a server")
    _command(
        commands, "check", serving.check, "load what the configuration names and say what would be served"
    )
    generate.add_argument("prompt", help="what the video shows")
    generate.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="where it goes")
    generate.add_argument(
        "-p", "--param", action="append", default=[], metavar="NAME=VALUE", help="a request field, repeatable"
    )
    serve.epilog = "A setting can also be given as REELSERVE_SECTION__NAME in the environment."
    return parser


def _command(commands: Any, name: str, run: Any, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(command=run)
    parser.add_argument("--config", type=Path, default=default_config(), help="YAML file (%(default)s)")
    for dotted, field in leaves():
        if dotted in LISTS:
            continue
        short = [f"--{flag}" for flag, meant in SHORT.items() if meant == dotted]
        parser.add_argument(
            f"--{dotted}",
            *short,
            dest=f"setting:{dotted}",
            metavar="VALUE",
            default=argparse.SUPPRESS,
            help=(field.description or "").replace("%", "%%"),
        )
    return parser


def _nested(options: dict[str, Any]) -> dict[str, Any]:
    """Take the settings out of `options`, nested as `Settings` is."""
    nested: dict[str, Any] = {}
    for key in [key for key in options if key.startswith("setting:")]:
        *sections, name = key.removeprefix("setting:").split(".")
        place = nested
        for section in sections:
            place = place.setdefault(section, {})
        place[name] = _value(".".join((*sections, name)), options.pop(key))
    return nested


def _value(dotted: str, text: str) -> Any:
    """Lists are given with commas; every other value is read by its setting's own type."""
    return text.split(",") if isinstance(_default(dotted), tuple) else text


def _default(dotted: str) -> Any:
    return dict(leaves())[dotted].get_default()


if __name__ == "__main__":
    sys.exit(main())
