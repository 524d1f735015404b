"""Mistakes in a command line, as one sentence with the remedy."""

import re
from collections.abc import Mapping
from typing import Any

from collector.wording import suggestion

HABITS: Mapping[str, str] = {
    "start": "run", "serve": "run", "up": "run", "validate": "check", "lint": "check", "eval": "score",
    "evaluate": "score", "test": "score", "help": "--help", "version": "--version", "retry": "rejudge --what failed",
    "replay": "compare evaluators", "judges": "compare judges", "targets": "plan targets", "parquet": "export parquet",
    "trace": "explain", "normalize": "turns", "cases": "dataset", "schema": "check --schema configuration",
}  # fmt: skip
"""Commands of other programs and earlier names, each with the command of this program."""
_ENVIRONMENT = re.compile(r" \(env var: '\w+'\)")
_NO_COMMAND = re.compile(r"No such command '([^']*+)'.*", re.DOTALL)
_NO_ARGUMENT = re.compile(r"Missing argument '([^']*+)'\.")
_WORDS = (
    (re.compile(r"Input should be a valid number.*"), "must be a number like 0.05, without % or $"),
    (re.compile(r"Input should be a valid integer.*"), "must be a whole number"),
    (re.compile(r"Input should be greater than or equal to (.*)"), r"must be at least \1"),
    (re.compile(r"Input should be less than or equal to (.*)"), r"must be at most \1"),
    (re.compile(r"(?:Value error, )?('[^']*+') is not one of (.*)"), r"must be one of \2, and not \1"),
    (re.compile(r"No such option: (\S+).*"), r"unknown option \1"),
    (re.compile(r"Missing (?:option|parameter) '?(.*?)'?\.?"), r"\1 is missing"),
    (re.compile(r"Option '([^']*+)' requires an argument"), r"\1 needs a value"),
    (re.compile(r"Option '([^']*+)' does not take a value"), r"\1 takes no value"),
    (re.compile(r"Got unexpected extra arguments?\(?s?\)? \(([^()]*+)\)"), r"\1: too many words"),
)


def usage_sentence(error: Any, commands: Mapping[str, object]) -> str:
    """The mistake in a command line, by the parser's error; `commands` are those of the root."""
    message = _ENVIRONMENT.sub("", error.format_message())
    if (command := _NO_COMMAND.fullmatch(message)) is not None:
        name = command[1]
        known = sorted(getattr(getattr(error.ctx, "command", None), "commands", commands))
        remedy = f"write {HABITS[name]}" if name in HABITS else suggestion(name, known)
        return f"unknown command {name!r}; {remedy}"
    prefix, _, value = message.rstrip(".: ").removeprefix("Invalid value for ").partition("': ")
    option = prefix.removeprefix("'") if message.startswith("Invalid value for '") else ""
    sentence = f"{option}: {_in_our_words(value)}" if option else _in_our_words(message)
    if possible := getattr(error, "possibilities", None):
        return f"{sentence}; did you mean {' or '.join(possible)}?"
    return f"{sentence}; {_remedy(sentence, error.ctx.command_path if error.ctx is not None else 'evalstream')}"


def _in_our_words(message: str) -> str:
    if (argument := _NO_ARGUMENT.fullmatch(message)) is not None:
        return f"{argument[1].upper()} is missing"
    for pattern, words in _WORDS:
        if (match := pattern.fullmatch(message.rstrip("."))) is not None:
            return match.expand(words).replace("' / '", " or ")
    return message.rstrip(".")


def _remedy(sentence: str, path: str) -> str:
    if path == "evalstream" and "unknown option" in sentence:
        return "options stand after the command, as in evalstream check -c FILE"
    if "takes no value" in sentence:
        return "write the option alone, or leave it out"
    named, too_many, _ = sentence.partition(": too many")
    if too_many and named.endswith((".yaml", ".yml")):
        return "name a configuration with -c"
    return "leave it out, or quote a value of several words" if too_many else f"{path} -h explains it"
