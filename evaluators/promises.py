"""The promises of a plug-in's class that can be seen without running it, each breach as one sentence with its place."""

import inspect
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, cast

from evaluators.asking.judge_input import is_missing
from evaluators.cases import Conversation, Turn
from evaluators.errors import BrokenPromise
from evaluators.evaluator import Evaluator
from evaluators.results import Failure, Outcome, Score, Skipped

_EVALUATE = "evaluate(self, case, judge)"
_NEEDED = 'write needed_fields: ClassVar[frozenset[str]] = frozenset({"actual_output"})'
_WRITTEN = ("requires", "score_range", "lowest_if_trivial", "rounds", "label_names", "version")
"""Properties of a definition that a plug-in may calculate."""
_PARTS = (
    ("explanation", str | None, "a Score whose explanation is no text"),
    ("label", str | None, "a Score whose label is no text"),
    ("details", Mapping, "a Score whose details are no mapping"),
)


def is_built_in(cls: type) -> bool:
    """Whether a class is one of this package: tests hold its promises."""
    return cls.__module__.startswith("evaluators.")


def place_of(thing: Any) -> str:
    """Folder, file and line of a class or a function, as messages say them; its name where no file has it."""
    try:
        file = Path(inspect.getsourcefile(inspect.unwrap(thing)) or "")
        return f"{file.parent.name}/{file.name}, line {inspect.getsourcelines(thing)[1]}"
    except (OSError, TypeError):
        return str(getattr(thing, "__qualname__", type(thing).__name__))


def method_breaches(cls: type, signature: str) -> Iterator[str]:
    """A sentence if a class lacks an asynchronous method that can be called so, like `ask(self, prompt)`."""
    name, _, arguments = signature.rstrip(")").partition("(")
    method: Any = getattr(cls, name, None)
    remedy = f"write async def {signature}"
    if not callable(method) or getattr(method, "__isabstractmethod__", False):
        yield f"{place_of(cls)}: {cls.__name__} has no method {name}; {remedy}"
    elif not inspect.iscoroutinefunction(inspect.unwrap(method)) and not _says_awaitable(method):
        yield f"{place_of(method)}: {cls.__name__}.{name} is not asynchronous; {remedy}"
    else:
        words = [word.strip() for word in arguments.split(",")]
        named = {word.partition("=")[0]: None for word in words if "=" in word}
        try:
            inspect.signature(method).bind(*(word for word in words if "=" not in word and word != "*"), **named)
        except TypeError as error:
            yield f"{place_of(method)}: {cls.__name__}.{name} cannot be called as it will be ({error}); {remedy}"


def _says_awaitable(method: Any) -> bool:
    """Whether a plain function is annotated to return what can be awaited: it may pass on another one's."""
    returned = str(getattr(method, "__annotations__", {}).get("return", ""))
    return "Awaitable" in returned or "Coroutine" in returned


def class_breaches(cls: type[Evaluator[Any]]) -> Iterator[str]:
    """Sentences on what a class lacks to be an evaluator."""
    if not isinstance(getattr(cls, "kind", None), str):
        yield f'{place_of(cls)}: {cls.__name__} has no kind; write kind: ClassVar[str] = "{cls.__name__.lower()}"'
    if cls.requires is Evaluator.requires and not hasattr(cls, "needed_fields"):
        yield f"{place_of(cls)}: {cls.__name__} does not say which fields it needs; {_NEEDED}"
    yield from method_breaches(cls, _EVALUATE)
    others = sorted(getattr(cls, "__abstractmethods__", frozenset[str]()) - {"evaluate"})
    yield from (f"{place_of(cls)}: {cls.__name__} has no {name}, which its base class demands" for name in others)


def definition_breaches(evaluator: Evaluator[Any]) -> Iterator[str]:
    """Sentences on properties that cannot be read, and on needed fields that no case has."""
    cls = type(evaluator)
    for name in _WRITTEN:
        try:
            written: Any = getattr(evaluator, name)
        except Exception as error:  # noqa: BLE001 - code of a plug-in
            yield f"{place_of(cls)}: {cls.__name__}.{name} cannot be read ({type(error).__name__}: {error})"
            continue
        if name == "requires":
            yield from _breaches_of_needs(cls, name, written)
        elif name == "lowest_if_trivial" and written is not None:
            yield from _breaches_of_needs(cls, name, {written})


def _breaches_of_needs(cls: type[Evaluator[Any]], property_name: str, needs: object) -> Iterator[str]:
    if not isinstance(needs, AbstractSet):
        yield f"{place_of(cls)}: {cls.__name__}.{property_name} is no set of names; {_NEEDED}"
        return
    empty = Turn() if cls.scope == "turn" else Conversation(turns=(Turn(),))
    for name in needs:  # pyright: ignore[reportUnknownVariableType]
        try:
            is_missing(empty, str(name))  # pyright: ignore[reportUnknownArgumentType]
        except BrokenPromise as error:
            yield f"{place_of(cls)}: {cls.__name__}.{property_name} {error}"


def checked(evaluator: Evaluator[Any], returned: object) -> Outcome:
    """Return the result of `evaluate` if it is an outcome. Texts are not repeated: they may be judged.

    Raises:
        BrokenPromise: it is something else, or a score with parts of other types.
    """
    breach = None
    if isinstance(returned, Score):
        breach = next((text for name, types, text in _PARTS if not isinstance(getattr(returned, name), types)), None)
    elif not isinstance(returned, Skipped | Failure):
        plain = isinstance(returned, int | float) or returned is None
        breach = f"{returned if plain else f'a {type(returned).__name__}'}; return Score(value=…), from 0 to 1"
    if breach is not None:
        place = place_of(type(evaluator).evaluate)
        raise BrokenPromise(f"{place}: {type(evaluator).__name__}.evaluate returned {breach}")
    return cast("Outcome", returned)
