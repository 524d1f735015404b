"""The promises of a plug-in that can be seen without running it; each breach is one sentence with its place."""

import inspect
from collections.abc import Iterator, Set as AbstractSet
from pathlib import Path
from typing import Any

from evaluators.asking.judge_input import is_missing
from evaluators.cases import Conversation, Turn
from evaluators.errors import BrokenPromise
from evaluators.evaluator import Evaluator

FAULTS = (Exception, SystemExit)
"""The faults of a plug-in's code: a library that it calls may end the program, as command lines do. Cancellations and
interrupts are none.
"""
_NEEDED = 'write needed_fields: ClassVar[frozenset[str]] = frozenset({"actual_output"})'
_WRITTEN = ("requires", "score_range", "lowest_if_trivial", "rounds", "label_names", "version")
"""Properties of a definition that a plug-in may calculate."""


def is_built_in(cls: type) -> bool:
    """Whether a class belongs to this package, whose tests check the promises."""
    return cls.__module__.startswith("evaluators.")


def place_of(thing: Any) -> str:
    """Folder, file and line of a class or a function, as messages say them; the name if no readable file has it."""
    try:
        file = Path(inspect.getsourcefile(inspect.unwrap(thing)) or "")
        return f"{file.parent.name}/{file.name}, line {inspect.getsourcelines(thing)[1]}"
    except (OSError, TypeError, SyntaxError):  # the file may have changed since its import
        return str(getattr(thing, "__qualname__", type(thing).__name__))


def call_breaches(owner: str, method: Any, call: str, *, is_async: bool = True) -> Iterator[str]:
    """A sentence if a method cannot be called in this way, like `ask(self, prompt, samples=1)`; `owner` is named in
    it.
    """
    name, _, arguments = call.rstrip(")").partition("(")
    words = [word for word in arguments.split(", ") if word != "*"]
    named = {word.partition("=")[0]: None for word in words if "=" in word}
    try:
        signature = inspect.signature(method)
        signature.bind(*(word for word in words if "=" not in word), **named)
        returns = str(signature.return_annotation)
        is_awaited = inspect.iscoroutinefunction(inspect.unwrap(method)) or "Awaitable" in returns
        wrong = "" if is_awaited == is_async else "is not asynchronous" if is_async else "is asynchronous"
    except TypeError as error:
        wrong = f"cannot be called as it will be ({error})"
    if wrong:
        yield f"{place_of(method)}: {owner}.{name} {wrong}; write {'async ' * is_async}def {call}"


def class_breaches(cls: type[Evaluator[Any]]) -> Iterator[str]:
    """Sentences on the parts that a class lacks to be an evaluator."""
    here = f"{place_of(cls)}: {cls.__name__}"
    if not isinstance(getattr(cls, "kind", None), str):
        yield f'{here} has no kind; write kind: ClassVar[str] = "{cls.__name__.lower()}"'
    if cls.requires is Evaluator.requires and not hasattr(cls, "needed_fields"):
        yield f"{here} does not say which fields it needs; {_NEEDED}"
    for name in sorted(getattr(cls, "__abstractmethods__", ())):
        yield f"{here} has no method {name}; write async def evaluate(self, case, judge)"
    yield from call_breaches(cls.__name__, cls.evaluate, "evaluate(self, case, judge)")


def definition_breaches(evaluator: Evaluator[Any]) -> Iterator[str]:
    """Sentences on properties that cannot be read, and on needed fields that no case has."""
    here = f"{place_of(type(evaluator))}: {type(evaluator).__name__}"
    empty = Turn() if evaluator.scope == "turn" else Conversation(turns=(Turn(),))
    for name in _WRITTEN:
        own = "needed_fields" if name == "requires" and type(evaluator).requires is Evaluator.requires else name
        try:
            written: Any = getattr(evaluator, name)
            if name == "requires" and not isinstance(written, AbstractSet):
                yield f"{here}.{own} is no set of names; {_NEEDED}"
            elif name == "requires" or (name == "lowest_if_trivial" and written is not None):
                names: Any = [written] if isinstance(written, str) else written  # pyright: ignore[reportUnknownVariableType]
                for field in names:  # pyright: ignore[reportUnknownVariableType]
                    is_missing(empty, field)  # pyright: ignore[reportUnknownArgumentType]
        except BrokenPromise as error:
            yield f"{here}.{own} {error}"
        except FAULTS as error:
            yield f"{here}.{own} cannot be read ({type(error).__name__}: {error})"
