"""Plug-ins by group and name: evaluators, dialects, exporters and redactors; what has no name as `module:Name`."""

import importlib
import sys
from collections.abc import Iterable
from functools import lru_cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Any, get_args

from collector.errors import ConfigError
from collector.plugins.folder import folders
from collector.plugins.shapes import EVALUATORS, REDACTORS, THINGS, breaches
from collector.wording import suggestion, unknown
from evaluators.cases import Scope
from evaluators.evaluator import Evaluator
from evaluators.promises import FAULTS, call_breaches, place_of

CONVERSATIONAL = "conversational_"
"""Begins the name of a kind that does for conversations what another one does for turns."""

_ASK = "ask(self, prompt, reply, *, logprobs=False, samples=1)"


def names(group: str) -> list[str]:
    """The names of all plug-ins of a group, sorted."""
    return sorted({point.name for point in _of(group)})


def installed_packages() -> dict[str, tuple[str, str]]:
    """The names and versions of the installed packages with evaluators, ours among them, by their modules.

    Not those of the folder `plugins`.
    """
    own = tuple(folder.package for folder in folders())
    homes = {point.module.partition(".")[0]: point.dist for point in _of(EVALUATORS)}
    return {module: (of.name, of.version) for module, of in homes.items() if of and not module.startswith(own)}


def load(group: str, name: str) -> Any:
    """Load one plug-in; nothing else of its group is imported.

    Raises:
        ConfigError: there is none of this name, or it cannot be imported.
    """
    points: list[EntryPoint] = [point for point in _of(group) if point.name == name]
    if not points:
        near = suggestion(name, names(group))
        own = "if your own, install it or write plugins: and its folder, and restart; else "
        remedy = near if near.startswith("did") else f"{own}{near}"
        raise ConfigError(f"unknown {THINGS.get(group, 'plug-in')} {name!r}; {remedy}")
    try:
        loaded = points[0].load()
    except FAULTS as error:
        raise ConfigError(f"the plug-in {name!r} ({points[0].value}) cannot be loaded: {error}") from error
    _refuse(breaches(group, loaded))
    return loaded


def evaluator_class(kind: str, scope: object = None) -> type[Evaluator[Any]]:
    """The evaluator of a kind: the name of an entry point, or `module:Class`.

    A `scope` chooses between two of one name: `prompt` of conversations is `conversational_prompt`.

    Raises:
        ConfigError: there is none, it is not an evaluator, or it scores something else.
    """
    has_both = f"{CONVERSATIONAL}{kind}" in names(EVALUATORS)
    if scope == "conversation" and has_both:
        kind = f"{CONVERSATIONAL}{kind}"
    loaded = _evaluator_class(kind)
    if scope not in (None, *get_args(Scope)):
        raise ConfigError(unknown("scope", str(scope), get_args(Scope) if has_both else [loaded.scope]))
    if scope not in (None, loaded.scope):
        raise ConfigError(f"{kind} scores a {loaded.scope}, so scope cannot be {scope!r}; remove the key scope")
    return loaded


def _evaluator_class(kind: str) -> type[Evaluator[Any]]:
    loaded: Any = _import(kind) if ":" in kind else load(EVALUATORS, kind)
    if not (isinstance(loaded, type) and issubclass(loaded, Evaluator)):
        raise ConfigError(f"{kind!r} is not an evaluator; write a class derived from evaluators.Evaluator")
    _refuse(breaches(EVALUATORS, loaded))
    return loaded  # pyright: ignore[reportUnknownVariableType]


def judge_class(reference: str) -> Any:
    """The class of a judge of somebody's own, named as `module:Class`.

    Raises:
        ConfigError: there is none, or what it makes cannot be asked.
    """
    loaded: Any = _import(reference)
    if not (isinstance(loaded, type) and callable(getattr(loaded, "ask", None))):
        raise ConfigError(f"{reference!r} is not a judge; write a class with `model` and `ask`, see evaluators.Judge")
    _refuse(call_breaches(loaded.__name__, getattr(loaded, "ask", None), _ASK))  # pyright: ignore[reportUnknownArgumentType]
    return loaded  # pyright: ignore[reportUnknownVariableType]


def redactor(name: str) -> Any:
    """The factory of a redactor: the name of an entry point, or `module:function`.

    Raises:
        ConfigError: there is none.
    """
    return _import(name) if ":" in name else load(REDACTORS, name)


def detector(name: str) -> Any:
    """The detector that a redactor's factory makes.

    Raises:
        ConfigError: there is no factory, or it makes none.
    """
    factory, made, why = redactor(name), None, "it returned none"
    try:
        made = factory()
    except FAULTS as error:
        why = f"{type(error).__name__}: {error}"
    if not callable(made):
        raise ConfigError(f"{place_of(factory)}: {name} must return a function of a text ({why})")
    return made


def _refuse(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        raise ConfigError(sentence)


def _of(group: str) -> EntryPoints:
    return _installed(group, tuple(sys.path), tuple(folder.package for folder in folders()))


@lru_cache(maxsize=8)
def _installed(group: str, _path: tuple[str, ...], _folders: tuple[str, ...]) -> EntryPoints:
    """A group's entry points on this path and in these folders.

    Finding them reads a file of each package there is: once is enough.
    """
    return entry_points(group=group)


def _import(reference: str) -> Any:
    module, _, name = reference.partition(":")
    full_name = next((own for folder in folders() if (own := folder.module(module))), module)
    try:
        return getattr(importlib.import_module(full_name), name)
    except (ImportError, AttributeError, SystemExit) as error:
        remedy = "write module:Class, of a file in the folder `plugins` or of an installed package"
        if module.partition(".")[0] in ("collector", "evaluators"):
            remedy = (
                f"{module.partition('.')[0]} is a package of evalstream's own; name the folder of yours as `plugins`"
            )
        raise ConfigError(f"{reference!r} cannot be imported ({error}); {remedy}") from error
