"""The reference of commands and options, made from the command line itself."""

# ruff: noqa: INP001 - scripts beside the pages that they write

import inspect
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from collector.cli import app

INTRODUCTION = """\
# Commands

`evalstream COMMAND --help` prints the same as this page.

Exit status: 0 done, 1 the work failed, 2 the command or its configuration is wrong. Data goes to stdout, messages go
to stderr. Many commands share these options. `--config`, `-c` names the configuration file (`evalstream.yaml`).
`--json` prints JSON. `--from` and `--to` (exclusive; now by default) are times like 2026-11-20T09:00 (UTC), or
durations before now like 24h. `--monitor` restricts a command to one monitor, `--evaluator` (repeatable) to certain
evaluators, unless the command's help says otherwise. `--max-usd` ends a command before judge costs exceed this amount.
`NO_COLOR` turns colours off. `evalstream --install-completion` sets up your shell's completion.
"""
EVERYWHERE = {
    "The configuration file.",
    "Print JSON.",
    "Start: a time like 2026-11-20T09:00 (UTC), or a duration before now like 24h.",
    "End (exclusive), written in the same way; now by default.",
    "Only this monitor.",
    "Only this evaluator; repeatable.",
    "Stop before judge costs exceed this.",
}
"""The help of the options that the introduction explains."""


def document() -> str:
    """The whole reference as Markdown."""
    return "\n".join([INTRODUCTION, *_commands("evalstream", typer.main.get_command(app))])


def _commands(path: str, command: Any) -> Iterator[str]:
    """A command with its options, or everything below a group."""
    if isinstance(command, TyperGroup):
        for name in sorted(command.commands):
            yield from _commands(f"{path} {name}", command.commands[name])
    elif isinstance(command, TyperCommand):
        arguments = [_argument(each) for each in command.params if isinstance(each, TyperArgument)]
        yield f"## {path}\n"
        yield f"{inspect.cleandoc(command.help or '')}\n"
        common = [f"[{each.opts[0]}]" for each in command.params if getattr(each, "help", None) in EVERYWHERE]
        options = [each for each in command.params if isinstance(each, TyperOption) and not each.hidden]
        own = [_item(option) for option in options if option.help not in EVERYWHERE]
        if common or arguments:
            yield f"Usage: `{' '.join([path, *common, *arguments])}`\n"
        if own:
            yield "\n".join(own) + "\n"


def _argument(argument: TyperArgument) -> str:
    name = (argument.metavar or argument.name or "").upper()
    repeated = f"{name}…" if argument.nargs == -1 else name
    return repeated if argument.required else f"[{repeated}]"


def _item(option: TyperOption) -> str:
    """An option with its default and its meaning."""
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    default = (
        "required"
        if option.required
        else ""
        if option.default in (None, False, ()) or callable(option.default)
        else f"`{option.default}`"
    )
    return f"- {names}{f' ({default})' * bool(default)}: {option.help or ''}"
