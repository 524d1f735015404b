"""A judge's verdict that stands in the judged text: the judge repeats a verdict that an attacker planted there.

Verdicts are compared by letters and digits in their order, without quotes, commas, brackets, white space, escapes,
fences and the case of letters; numbers are compared by value. The time is linear in the text's length.
"""

import html
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast
from urllib.parse import unquote

import orjson

from evaluators.asking.judge_input import iter_texts
from evaluators.asking.prompt_isolation import sanitize_json
from evaluators.attacks.injection_detection import decoded, normalize
from evaluators.cases import Json

_NUMBER = re.compile(r"\d++(?:\.\d++)?(?:e[-+]?\d{1,2}(?!\d))?")
_GAP = re.compile(r"[\W_]++")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_WHITE = {"n": " ", "r": " ", "t": " ", "b": " ", "f": " "}
_LAYERS = 6
"""How many nested escapes are removed."""
_LONG_REASON = 12
"""A reason of at least so many characters is an echo if one of its marks is anywhere in the text."""
_OWN_WORDS = 32
"""A reason of at least so many letters and digits is an echo by itself: a judge that only quotes adds its own words."""
_LONGEST_NUMBER, _LONGEST_WORD = 20, 20
_REASON_NAMES = ("reason", "explanation")
_VERDICT_NAMES = ("score", "rating", "verdict", "grade", "points", "label", "answer")


@dataclass(frozen=True, slots=True)
class _ReadableVerdict:
    """A reason, and the fields beside it that may be its verdict."""

    reason: str
    fields: Sequence[tuple[str, str | int | float]]
    words: Sequence[str]
    """The words of the reason; empty for a script without spaces."""

    @property
    def plain(self) -> str:
        """The letters and digits of the reason alone."""
        return _plain(self.reason)

    @property
    def marks(self) -> Sequence[tuple[str, str]]:
        """The names and values of the fields, as letters and digits alone."""
        return [(_plain(name), _plain(_readable(str(value)))) for name, value in self.fields]


def is_echo(reply: Json, material: Mapping[str, Json], readings: Callable[[], Iterable[str]] | None = None) -> bool:
    """Whether the shown material contains a verdict of a reply, with its reason. `readings` are the material's, if they
    are known.
    """
    verdicts = list(_verdicts(reply))
    if not verdicts:
        return False  # a list of the text's own statements may well stand in the text
    for readable in readings() if readings else readings_of(material):
        # Nearly every reason has a word that the text lacks. This check is quick; the rest takes ten times as long.
        possible = [verdict for verdict in verdicts if all(map(readable.__contains__, verdict.words))]
        if possible and _holds(_plain(readable), possible):
            return True
    return False


def _verdicts(value: Json) -> Iterator[_ReadableVerdict]:
    """The reason of each object in a reply, with the fields beside it; objects without either are left out."""
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Json]", value)
        beside = [
            (name, field)
            for name, field in fields.items()
            if isinstance(field, str | int | float) and name != "number" and not name.endswith(_REASON_NAMES)
        ]
        for name, field in fields.items():
            if beside and isinstance(field, str) and name.endswith(_REASON_NAMES):
                reason = _readable(field)
                words = _GAP.split(reason)
                yield _ReadableVerdict(reason, beside, () if max(map(len, words)) > _LONGEST_WORD else words)
        value = list(fields.values())
    if isinstance(value, Sequence) and not isinstance(value, str):
        for item in cast("Sequence[Json]", value):
            yield from _verdicts(item)


def _holds(reading: str, verdicts: Sequence[_ReadableVerdict]) -> bool:
    return any(_stands_in(reading, verdict.plain, verdict.marks) for verdict in verdicts)


def _stands_in(reading: str, reason: str, marks: Sequence[tuple[str, str]]) -> bool:
    """Whether a text contains a reason: the longest alone, others with a mark, the shortest with one beside it."""
    if len(reason) < _LONG_REASON:  # too short to tell by itself: its name and a mark must be right beside it
        return any(
            f"reason{reason}{name}{mark}" in reading or f"{name}{mark}reason{reason}" in reading for name, mark in marks
        )
    if len(reason) >= _OWN_WORDS:
        return reason in reading
    forms = (f"{field}{mark}" for name, mark in marks for field in (name, *_VERDICT_NAMES))
    return reason in reading and any(form in reading for form in forms)


def readings_of(material: Mapping[str, Json]) -> Iterator[str]:
    """The normalized texts of the material: its shown words, and the words that are encoded in it."""
    material = cast("Mapping[str, Json]", sanitize_json(material))
    yield _readable(orjson.dumps(material, default=str).decode())
    for text in iter_texts(material):
        yield from map(_readable, decoded(normalize(text)))


def _readable(text: str) -> str:
    """A text without escapes, entities and the case of letters."""
    for _ in range(_LAYERS):
        if "\\" not in text:
            break
        text = _ESCAPE.sub(_unescaped, text)
    if "%" in text:
        text = unquote(text)
    if "&" in text:
        text = html.unescape(text)
    return normalize(text).casefold()


def _plain(readable: str) -> str:
    """The letters and digits of a text alone; numbers in their shortest form."""
    return _GAP.sub("", _NUMBER.sub(_value, readable))


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else _WHITE.get(match[3], match[3])


def _value(match: re.Match[str]) -> str:
    """A number in its shortest form: 10 for 10.0, 1e1 and 010."""
    number = match[0]
    return number if len(number) > _LONGEST_NUMBER else f"{float(number):.15g}"
