"""Ratings in plain text, as judges gave them before structured output: for recorded answers and labels.

The answers of evalstream's judges go to `evaluators.answers.reply_parser` instead, which accepts only the form that was
asked for.
"""

import re
from collections.abc import Iterable

from evaluators.scale import Scale

_LEADING = re.compile(
    r"\W*?(?P<number>[-+]?\d{1,15}(?:\.\d{1,15})?)(?:\s{0,9}/\s{0,9}(?P<of>\d{1,15}))?(?=[\s,:;)*_\"'-]|\.(?!\d)|$)"
)
_MARKS = r"[\s*_\"'`]*+"


def plain_rating(text: str, scale: Scale, labels: Iterable[str] = ("rating", "score")) -> int | None:
    """The whole number that a text states as its rating; None where it states none, or none on the scale.

    A text states a rating where it begins with a number, like `4 - good` or `**4/5**`, or where a label and a colon
    stand before one, like `Rating: 4`, if all such places agree. A decimal number on a scale of whole ones is none, nor
    is a number of another scale, like 4/10 on 1 to 5.
    """
    names = "|".join(re.escape(label) for label in labels)
    labelled = re.compile(rf"\b(?:{names}){_MARKS}[:=]{_MARKS}(?:(?={_LEADING.pattern}))", re.IGNORECASE)
    numbers = {_number(match, scale) for match in labelled.finditer(text)}
    if not numbers and (match := _LEADING.match(text)) is not None:
        numbers = {_number(match, scale)}
    return numbers.pop() if len(numbers) == 1 else None


def _number(match: re.Match[str], scale: Scale) -> int | None:
    number, highest = float(match["number"]), match["of"]
    if not number.is_integer() or not scale.lowest <= number <= scale.highest:
        return None
    return None if highest is not None and int(highest) != scale.highest else int(number)
