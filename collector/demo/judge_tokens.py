"""Token probabilities of a text, in the form of the chat completions API."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

_TOKEN = re.compile(r"\s?\w+|\s?[^\w\s]|\s+")
_CERTAIN = 0.999
_ELSEWHERE = ("null", 0.0005)


def tokens_of(
    text: str, scores: Mapping[tuple[int, int], Sequence[tuple[str, float]]], alternatives: int
) -> list[dict[str, Any]]:
    """The text as tokens, almost certain but for the scores, whose place in the text (start, end) is given.

    Each token comes with at most `alternatives` alternatives.
    """
    starts = {start: spread for (start, _), spread in scores.items()}
    result: list[dict[str, Any]] = []
    for match in _TOKEN.finditer(text):
        token = match.group()
        blank = token[: len(token) - len(token.lstrip())]
        spread = starts.get(match.start() + len(blank))
        weighed = [(blank + each, chance) for each, chance in spread] if spread else [(token, _CERTAIN), _ELSEWHERE]
        chances = dict(reversed(weighed))  # the first of two equal ones counts
        tops = [_token(each, chance) for each, chance in weighed[:alternatives]]
        result.append({**_token(token, chances[token]), "top_logprobs": tops})
    return result


def _token(text: str, chance: float) -> dict[str, Any]:
    return {"token": text, "logprob": math.log(chance), "bytes": list(text.encode())}
