"""The stand-in judge's rules: how close an answer is to what it should be about, by counting words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

Json = Any

_WORD = re.compile(r"[^\W_]+")
_STEM = 4  # "returned" and "return" are the same word here; this is no linguistics
_SMALL = """
    a about all also an and any are as at be been but by can could did do does for from get had has have he
    her here his how i if in into is it its just long me more my no not of on or our please she should so some
    than that the their them then there these they this to up us very was we were what when where which who
    will with would yes you your
"""
_STOPWORDS = frozenset(_SMALL.split())
_REFERENCES = ("expected_output", "context", "retrieval_context", "reference", "expected_outcome")
_ANSWERS = ("actual_output", "answer", "output", "content")
_QUESTIONS = ("input", "question", "query", "user")
_UNKNOWN = 0.5


def words(text: str) -> frozenset[str]:
    """The words that say something, cut to their first letters, in lower case."""
    all_words = (word.lower() for word in _WORD.findall(text))
    return frozenset(word[:_STEM] for word in all_words if word not in _STOPWORDS)


def texts(value: Json) -> Iterator[str]:
    """All texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for field in cast("Mapping[str, Json]", value).values():
            yield from texts(field)
    elif isinstance(value, list):
        for item in cast("list[Json]", value):
            yield from texts(item)


def share(some_words: frozenset[str], known: frozenset[str]) -> float:
    """The share of words that are known; one half where there are none."""
    return len(some_words & known) / len(some_words) if some_words else _UNKNOWN


def closeness(material: Json) -> float:
    """The closeness of the answer in the material to its question and references, 0..1.

    For a question: the share of its words that the answer takes up. For references: the share of the answer's words
    that they contain. The mean of both where there are both, and over the turns of a conversation.
    """
    turns = list(_turns(material))
    if turns:
        return sum(map(closeness, turns)) / len(turns)
    if not isinstance(material, Mapping):
        return _UNKNOWN
    fields = cast("Mapping[str, Json]", material)
    answer = _words_of(fields, _ANSWERS)
    question, references = _words_of(fields, _QUESTIONS), _words_of(fields, _REFERENCES)
    if not answer:
        return 0.0 if any(name in fields for name in _ANSWERS) else _UNKNOWN
    parts = [share(question, answer)] if question else []
    parts += [share(answer, references)] if references else []
    return sum(parts) / len(parts) if parts else _UNKNOWN


def _words_of(fields: Mapping[str, Json], names: tuple[str, ...]) -> frozenset[str]:
    return words(" ".join(text for name in names if name in fields for text in texts(fields[name])))


def _turns(material: Json) -> Iterator[dict[str, Json]]:
    """The exchanges of a conversation: turns as they stand, or pairs of a user's and an assistant's message."""
    if not isinstance(material, Mapping):
        return
    fields = cast("Mapping[str, Json]", material)
    for name in ("turns", "conversation", "messages"):
        listed = fields.get(name)
        if isinstance(listed, list):
            yield from _exchanges([item for item in cast("list[Json]", listed) if isinstance(item, dict)])
            return


def _exchanges(listed: list[dict[str, Json]]) -> Iterator[dict[str, Json]]:
    request = ""
    for message in listed:
        role = message.get("role")
        if role == "user":
            request = " ".join(texts(message.get("content")))
        elif role == "assistant":
            yield {**message, "input": request, "actual_output": " ".join(texts(message.get("content")))}
        elif role is None and any(name in message for name in _ANSWERS):
            yield message
