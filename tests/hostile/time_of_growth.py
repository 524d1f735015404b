"""CPU time as a text grows: pieces that make a pattern work, derived from the pattern itself, and how to measure."""

from __future__ import annotations

import gc
import random
import re
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple

_parser: Any = import_module("re._parser")

SHORT, LONG = 10_000, 400_000
"""Characters between which CPU per character must not grow."""

TOLERANCE = 1.5
"""What neighbours on the same core and its caches make of a time that does not grow; what is quadratic grows 40 times."""
TRIES = 8
FLOOR = 0.03e-6
"""Seconds per character below which a growth is noise: caches that a long text does not fit into."""

PIECES = (
    "\n", " ", "\t", "\r\n", "a", "1", "é", "\u200b", "\x00", "\\", '"', "'", "`", "{", "[", "(", "<", ">", "}", "]",
    "{'", '{"', '[{"a":', "{'a': ", '"a", ', "\\\\", '\\"', "\\n", "a ", "1 ", "1-", "0 1", "a.", "a1@b.co ", "@", "://", "- ",
    "# ", "* ", "** ", "---\n", "\n\n", " \n", "\na", "<context>", "</context>", "<context>\n", "Context:\n", "Question: ",
    "context ", "user: ", "\nuser: a", "text: ", ", text: ", "name='a' ", "id='a' ", "args={", "args={}", "response={",
    "None", "Nonea", "status='a' result=", "<a at 0x1", "<a.b: 'c'>", "a=", " a=[", "data:image/png;base64,", "QUJD", "=",
    "eyJhbGciOi", "sk-aaaaaaaa", "pwd=", "key is ", "+1 1", "00 1", "1.", "::", "...", "…", "“", "```", "```json\n", "<|", "[INST",
    "system:", "score", '"score": 1, ', "<<<", "ignore ", "give ", "dear ", "</think>", "{}", "[]", '{"a":1}', "a_b(",
)  # fmt: skip
"""What a stranger would repeat."""


class Growth(NamedTuple):
    """Seconds per character of a short text and of a long one."""

    short: float
    long: float

    @property
    def is_linear(self) -> bool:
        return self.long <= TOLERANCE * self.short + FLOOR


def texts_for(pattern: re.Pattern[Any], samples: int) -> list[tuple[str, str, str]]:
    """Texts that make a pattern work, as beginning, piece to repeat, and end; the same ones at every run."""
    chance = random.Random(repr(pattern.pattern))
    tree = _parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    texts: dict[tuple[str, str, str], None] = {}
    for _ in range(samples):
        whole = _sample(tree, chance)
        for piece in (whole, whole[:-1], whole[: len(whole) // 2], whole[:1]):
            texts["", piece, "\x01"] = None
        for before, body in _repeats(tree, "", chance):
            texts[before, body, "\x01"] = None
            texts["", before + body * 3, ""] = None
    return [each for each in texts if each[1]]


def grow(text: tuple[str, str, str], length: int) -> str:
    """A text of about `length` characters."""
    before, piece, after = text
    return before + piece * max(1, length // len(piece)) + after


def seconds(work: Callable[[], object], *, runs: int = 1) -> float:
    """CPU seconds of the fastest run."""
    best = float("inf")
    gc.disable()  # as timeit does: when it runs depends on everything else
    try:
        for _ in range(runs):
            started = time.thread_time()
            work()
            best = min(best, time.thread_time() - started)
    finally:
        gc.enable()
    return best


def measure(work: Callable[[str], object], text: tuple[str, str, str], long: int = LONG) -> Growth:
    """How CPU per character grows from `SHORT` to `long`; by steps, so that what is quadratic is known before it hangs."""
    short = min(_per_character(work, grow(text, SHORT), runs=3), _per_character(work, grow(text, 2 * SHORT), runs=2))
    growth = Growth(short, short)
    length = 4 * SHORT
    while True:
        length = min(length, long)
        growth = Growth(short, _per_character(work, grow(text, length), runs=1))
        for _ in range(TRIES):  # the machine is not ours alone
            if growth.is_linear:
                break
            short = max(short, _per_character(work, grow(text, SHORT), runs=1))  # as busy as it is now
            growth = Growth(short, min(growth.long, _per_character(work, grow(text, length), runs=1)))
        if length == long or not growth.is_linear:
            return growth
        length *= 4


def _per_character(work: Callable[[str], object], text: str, *, runs: int) -> float:
    return seconds(lambda: work(text), runs=runs) / len(text)


def _sample(nodes: Any, chance: random.Random) -> str:
    return "".join(_one(str(kind), value, chance) for kind, value in nodes)


def _one(kind: str, value: Any, chance: random.Random) -> str:
    match kind:
        case "LITERAL":
            return chr(value)
        case "NOT_LITERAL":
            return chance.choice([each for each in "a1 \n-" if ord(each) != value])
        case "ANY":
            return chance.choice("a1 -")
        case "IN":
            return _member(value, chance)
        case "BRANCH":
            return _sample(chance.choice(value[1]), chance)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, most, body = value
            count = min(int(most), int(least) + chance.randint(0, 2))
            return "".join(_sample(body, chance) for _ in range(min(count, 300)))
        case "SUBPATTERN":
            return _sample(value[3], chance)
        case "ATOMIC_GROUP":
            return _sample(value, chance)
        case "ASSERT":
            return _sample(value[1], chance) if value[0] == 1 and chance.random() < 0.5 else ""
        case _:
            return ""


_CATEGORIES = {"DIGIT": "1", "NOT_DIGIT": "a ", "WORD": "a1_", "NOT_WORD": " -", "SPACE": " \n\t", "NOT_SPACE": "a1-"}


def _member(items: Any, chance: random.Random) -> str:
    kinds = [(str(kind), value) for kind, value in items]
    if kinds[0][0] == "NEGATE":
        refused = re.compile("|".join(_escaped(kind, value) for kind, value in kinds[1:]))
        return chance.choice([each for each in "a1 \n-<{'\"(.:é\x01" if not refused.fullmatch(each)] or ["a"])
    kind, value = chance.choice(kinds)
    if kind == "RANGE":
        return chr(chance.choice((value[0], value[1])))
    if kind == "CATEGORY":
        return chance.choice(_CATEGORIES[str(value).removeprefix("CATEGORY_")])
    return chr(value)


def _escaped(kind: str, value: Any) -> str:
    if kind == "RANGE":
        return f"[{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}]"
    if kind == "CATEGORY":
        name = str(value).removeprefix("CATEGORY_")
        letter = name.removeprefix("NOT_")[0].lower()
        return "\\" + (letter.upper() if name.startswith("NOT_") else letter)
    return re.escape(chr(value))


def _repeats(nodes: Any, before: str, chance: random.Random) -> Iterator[tuple[str, str]]:
    """Every repetition in a pattern that has no small limit: what stands before it, and a sample of what it repeats."""
    for kind, value in nodes:
        match str(kind):
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                if int(value[1]) > 4:
                    yield before, _sample(value[2], chance)
                yield from _repeats(value[2], before, chance)
            case "SUBPATTERN":
                yield from _repeats(value[3], before, chance)
            case "ATOMIC_GROUP":
                yield from _repeats(value, before, chance)
            case "ASSERT" | "ASSERT_NOT":
                yield from _repeats(value[1], before, chance)
            case "BRANCH":
                for each in value[1]:
                    yield from _repeats(each, before, chance)
            case _:
                pass
        before += _one(str(kind), value, chance)
