"""Parts of messages: numbers with their nouns, suggestions for unknown names, and what a value must be."""

from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime
from math import ceil, floor, log10
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_LIKENESS = 60.0  # percent of two names' characters, in order; below it a suggestion would be a guess

_CHOICE = 10  # the most names that a sentence lists, or one more

_SLIP = 80.0  # percent; above it a name is another one's misspelling

_OF_DATACLASSES = ("dataclass_type", "dataclass_exact_type")
_TYPES = {
    kind: words
    for words, kinds in {
        "a string": ("string_type",),
        "the path of a file": ("path_type",),
        "a whole number": ("int_type", "int_parsing", "int_from_float"),
        "a number": ("float_type", "float_parsing"),
        "a finite number": ("finite_number",),
        "true or false": ("bool_type", "bool_parsing"),
        "an array": ("tuple_type", "list_type"),
        "an object": ("dict_type", "mapping_type", "model_type", "model_attributes_type", *_OF_DATACLASSES),
    }.items()
    for kind in kinds
}
_LIMITS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}


def as_utc(seconds: float) -> str:
    """A time (s since the epoch) as in 2026-11-20T09:00:00.000Z."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def minute_in_utc(seconds: float) -> str:
    """A time in seconds since the epoch, to the minute, as people read it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def plural(count: int, noun: str, several: str | None = None) -> str:
    """A count with its noun: `1 call`, `1,200 calls`. `several` is a plural that does not end in -s."""
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"


def listed(names: Iterable[str]) -> str:
    """Names as `a`, `a and b`, or `a, b and c`."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def usd(amount: float) -> str:
    """An amount to the cent, below a dollar to the third digit: `12.30 USD`, `0.235 USD`, `0.50 USD`, `0.0022 USD`."""
    if not 0.0 < amount < 1.0:
        return f"{amount:,.2f} USD"
    return f"{f'{amount:.{2 - floor(log10(amount))}f}'.removesuffix('0')} USD"


def cost_text(amount: float | None, unpriced: int) -> str:
    """A cost for a table: a part of it where `unpriced` evaluations have none, and – where none is known."""
    return "–" if amount is None else f"{'at least ' if unpriced else ''}{usd(amount)}"


def figure(value: float) -> str:
    """A number to read: `14,400`, `62.5`, `0.31`."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def percent(share: float, digits: int = 0) -> str:
    """A share, with up to two more digits where 0% or 100% would say that it is none or all: 216 of 217 are 99.5%."""
    texts = [f"{share:.{digits + more}%}" for more in range(3)]
    return next((text for text in texts if float(text[:-1]) not in (0.0, 100.0)), texts[0])


def at_least(bound: float, digits: int = 2) -> str:
    """A lower bound, rounded down: past its value it would be false. The tolerance is for floating point."""
    return f"{floor(bound * 10**digits + 1e-7) / 10**digits:.{digits}f}"


def at_most(bound: float, digits: int = 2) -> str:
    """An upper bound, rounded up."""
    return f"{ceil(bound * 10**digits - 1e-7) / 10**digits:.{digits}f}"


def hours(value: float) -> str:
    """A time in the unit that suits it: `5 min`, `4.1 h`, `336 h`."""
    return f"{max(1, round(60 * value))} min" if value < 1 else f"{value:.{int(value < 48)}f} h"


def lowered(text: str) -> str:
    """A sentence as it stands after a colon; `PEM file` and `URL` stay."""
    return text if text[1:2].isupper() else f"{text[:1].lower()}{text[1:]}"


def unknown(thing: str, name: str, known: Iterable[str]) -> str:
    """Says that a name does not exist, and what to write instead: `unknown judge 'smal'; did you mean 'small'?`."""
    return f"unknown {thing} {name!r}; {suggestion(name, known)}"


def unknowns(where: str, thing: str, names: Iterable[str], known: Collection[str]) -> Iterator[str]:
    """A sentence for each name that is not known, at `where`."""
    return (f"{where}: {unknown(thing, name, known)}" for name in names if name not in known)


def not_of_monitor(where: str, named: Iterable[str], names: Collection[str], known: Iterable[str]) -> Iterator[str]:
    """A sentence for each named evaluator that is not among a monitor's `names`.

    A misspelt name of the monitor has its own sentence. It is no advice, and what it may stand for is no mistake.
    """
    defined = set(known)
    right = [name for name in names if name in defined]
    misspelt = [name for name in names if name not in defined]
    for name in named if right else ():
        if name not in names and not is_like(name, misspelt):
            yield f"{where}: {name!r} is not an evaluator of this monitor; {suggestion(name, right)}"


def suggestion(name: str, known: Iterable[str]) -> str:
    """The known name most like this one; else all of them, or the nearest if they are many."""
    from rapidfuzz import fuzz, process  # only where there is a mistake: it takes as long to import as `--help` to run

    names = list(known)
    nearest = process.extractOne(name, names, scorer=fuzz.ratio, processor=str.casefold, score_cutoff=_LIKENESS)
    if nearest is not None:
        return f"did you mean {nearest[0]!r}?"
    if (more := max(0, len(names) - _CHOICE)) > 1:
        names = [near[0] for near in process.extract(name, names, scorer=fuzz.WRatio, limit=_CHOICE)]
    return f"choose from {', '.join(names)}{f' or {more} more' if more > 1 else ''}" if names else "none is defined"


def is_like(name: str, known: Iterable[str]) -> bool:
    """Whether a name is a known one but for a slip."""
    from rapidfuzz import fuzz, process

    return process.extractOne(name, list(known), scorer=fuzz.ratio, score_cutoff=_SLIP) is not None


def requirement(detail: "ErrorDetails") -> str | None:
    """The requirement on a value, from its validation error; None if the error's own message says it."""
    kind, context = detail["type"], detail.get("ctx", {})
    if kind in _TYPES:
        return f"must be {_TYPES[kind]}"
    if kind in _LIMITS:
        words, key = _LIMITS[kind]
        return f"must be {words} {context[key]}"
    if kind.startswith(("datetime_", "timezone_")):
        return "must be an ISO 8601 time"
    if kind in ("literal_error", "enum"):
        return f"must be {context['expected']}"
    if kind == "string_too_short":
        return "must not be empty" if context["min_length"] == 1 else f"must have {context['min_length']} characters"
    if kind == "string_too_long":
        return f"must have at most {plural(context['max_length'], 'character')}"
    if kind == "too_short":
        return f"must have at least {plural(context['min_length'], 'item')}"
    return f"must have at most {plural(context['max_length'], 'item')}" if kind == "too_long" else None
