"""Prompt templates as files: reviewed text, hashed into an evaluator's version.

A template is plain text with `{{name}}` placeholders. They are filled in one pass with our own and the configuration's
text, never with judged text: that is sent apart, as material inside a fence.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from importlib.resources import files

from evaluators.errors import BrokenPromise

PLACEHOLDER = re.compile(r"\{\{\s*((?:(?:inputs|outputs)\.)?\w+)\s*\}\}")


@cache
def load(name: str) -> str:
    """The text of a template of this package, like `g_eval.txt`; any other text, as in a plug-in, is the template
    itself.
    """
    try:
        return files(__name__).joinpath(name).read_text(encoding="utf-8") if name.endswith(".txt") else name
    except OSError:
        raise BrokenPromise(f"names the prompt {name!r}, which evalstream has not; write the prompt's text") from None


def fill(template: str, values: Mapping[str, str]) -> str:
    """Put values in place of the placeholders, each once, in one pass: the text of a value is never read as a
    placeholder.

    Raises:
        KeyError: the template has a placeholder that `values` has not.
    """
    pieces = list(_pieces(template))
    pieces[1::2] = [values[name] for name in pieces[1::2]]
    return "".join(pieces)


@lru_cache(maxsize=1000)
def _pieces(template: str) -> tuple[str, ...]:
    """Text and names of placeholders, alternately."""
    return tuple(PLACEHOLDER.split(template))


def placeholders(template: str) -> frozenset[str]:
    """The names of the placeholders in a template."""
    return frozenset(PLACEHOLDER.findall(template))


def check_placeholders(prompt: str | None, *, required: Iterable[str], known: Iterable[str]) -> None:
    """Refuse a prompt that lacks a placeholder, or has one that nothing fills.

    Raises:
        ValueError: it does, and which.
    """
    if prompt is None:
        return
    names = placeholders(prompt)
    if lacking := sorted(set(required) - names):
        raise ValueError(f"the prompt lacks {_written(lacking)}")
    if unknown := sorted(names - set(known)):
        raise ValueError(f"the prompt has unknown {_written(unknown)}; known are {_written(known)}")


def _written(names: Iterable[str]) -> str:
    return ", ".join(f"{{{{{name}}}}}" for name in names)
