"""The reply in a judge's text: strict where the judge is exact, tolerant of its manners, never guessing a verdict.

Tolerated: a code fence, talk before or after the object, a reasoning block, trailing commas, bad escapes. Refused: two
objects that differ, talk on both sides (then the object is perhaps a quotation), a key given twice, NaN, extra keys.
The texts of the errors hold nothing of the answer except names that the reply's own form has.

If the question has a key, the answer is the object that carries it, at any position; all others are quotations.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from pydantic import ValidationError

from evaluators.answers.schemas import with_empty_reasons
from evaluators.asking.prompt_isolation import ANSWER_KEY
from evaluators.errors import JudgeReplyInvalid
from evaluators.judge import Answer, R, Token

LONGEST = 200_000
"""The longest answer, in characters, that is searched for a verdict."""

_LONGEST_REPAIR = 8_000
"""The longest object, in characters, that is repaired: the time to repair grows with the square of the length."""

_MOST_OBJECTS = 50
"""How often an answer may repeat one object and still count as one answer."""

_THOUGHT = "</think>"

_KEYED = re.compile(rf"\{{\s*+[\"']?{ANSWER_KEY}[\"']?\s*+:")
_SPACE = re.compile(r"\s*+")
_TALK = re.compile(r"```(?:json)?|\s+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ReplyObject:
    """The JSON object in an answer: its value, and where its text starts and ends. `exact` says it needed no repair."""

    value: dict[str, Any]
    start: int
    end: int
    exact: bool = True


def parse_reply(text: str, reply: type[R], key: str | None = None) -> R:
    """The reply that a judge's answer states. `key` is the question's key, if it has one.

    Raises:
        JudgeReplyInvalid: there is no reply, or it is not in the asked form. The message says what is wrong, and may be
        sent to the judge.
    """
    return _parsed(text, find_object(text, key), reply)


def parse_answer(
    text: str, reply: type[R], key: str | None = None, tokens: Sequence[Token] = (), *, alone: bool = False
) -> Answer[R]:
    """The answer that a judge's text and tokens state; without tokens if the text holds more than the answer.

    With `alone` the text may lack the reasons of the form; they are empty then.

    Raises:
        JudgeReplyInvalid: see `parse_reply`.
    """
    answer = find_object(text, key)
    parsed = _parsed(text, replace(answer, value=with_empty_reasons(answer.value, reply)) if alone else answer, reply)
    if key is None or not (text[: answer.start].strip() or text[answer.end :].strip()) or _is_alone(text):
        return Answer(parsed, text, tokens, alone=alone)
    return Answer(parsed, text[answer.start : answer.end], alone=alone)


def _is_alone(text: str) -> bool:
    """Whether the text's only object is found without a key."""
    try:
        find_object(text)
    except JudgeReplyInvalid:
        return False
    return True


def _parsed(text: str, answer: ReplyObject, reply: type[R]) -> R:
    try:
        parsed = reply.model_validate(answer.value)
    except ValidationError as error:
        raise JudgeReplyInvalid(_what_is_wrong(error, reply)) from None
    if not answer.exact:
        _refuse_repeated_keys(text[answer.start : answer.end], answer.value)
    return parsed


def find_object(text: str, key: str | None = None) -> ReplyObject:
    """The only JSON object of an answer, or the object that carries the question's key.

    Raises:
        JudgeReplyInvalid: there is no object, several objects differ, or an object has talk on both sides.
    """
    if len(text) > LONGEST:
        raise JudgeReplyInvalid(f"the answer is longer than {LONGEST} characters")
    start = end_of_reasoning(text)
    if key is not None:
        return _keyed(text, start, key)
    objects = _objects(text, start)
    if not objects:
        objects = [_repaired(text, start)]
    # Why not take the last object, as the answer after some thinking? A judge that quotes the judged text quotes its
    # objects too, before or after its own, and a quoted object may be a planted verdict.
    _refuse_differing(objects)
    first, last = objects[0], objects[-1]
    before, after = text[start : first.start], text[last.end :]
    if _TALK.sub("", before) and _TALK.sub("", after):
        raise JudgeReplyInvalid("the JSON object stands in the middle of other text")
    return last


def end_of_reasoning(text: str) -> int:
    """The start of the answer: after the last `</think>` outside of any object (inside one it is a quotation).

    0 if there is no reasoning.
    """
    start = at = 0
    effort = 4 * len(text)  # bounds useless decoding: nested braces are read again and again
    while (mark := text.find(_THOUGHT, at)) >= 0:
        brace = text.find("{", at, mark)
        if brace < 0 or effort < 0:
            start = at = mark + len(_THOUGHT)
            continue
        try:
            at = _DECODER.raw_decode(text, brace)[1]
        except json.JSONDecodeError as error:
            effort -= error.pos - brace
            at = brace + 1
        except (ValueError, RecursionError):
            effort -= len(text)
            at = brace + 1
    # An answer that begins with a broken object has no reasoning: a quotation may have broken it, and it is repaired.
    begins = not _TALK.sub("", text[: text.find("{")])
    return 0 if start and begins and text.find("{", start) < 0 and not _objects(text, 0) else start


def entry_spans(text: str) -> dict[str, tuple[int, int]]:
    """The positions of the values in an answer's one object, by name; only values that are objects have one.

    Raises:
        JudgeReplyInvalid: see `find_object`; or the object needs repair, so that nothing in it has a certain place.
    """
    answer = find_object(text)
    if not answer.exact:
        raise JudgeReplyInvalid("the answer is not valid JSON")
    spans: dict[str, tuple[int, int]] = {}
    at = answer.start + 1
    while 0 <= (at := text.find('"', at)) < answer.end:
        name, at = _DECODER.raw_decode(text, at)
        start = _SPACE.match(text, text.index(":", at) + 1)
        assert start is not None
        value, at = _DECODER.raw_decode(text, start.end())
        if isinstance(value, dict):
            spans[name] = start.end(), at
    return spans


def object_end(text: str, start: int) -> int | None:
    """The end of the object that begins at `start`; None if it is broken."""
    try:
        return _DECODER.raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        return None


def _keyed(text: str, start: int, key: str) -> ReplyObject:
    """The object that carries the key, without the key."""
    starts = [match.start() for match in _KEYED.finditer(text, start)]
    if len(starts) > _MOST_OBJECTS:
        raise JudgeReplyInvalid("the answer holds more than one JSON object")
    objects = list(map(partial(_object_at, text), starts)) or _objects(text, start) or [_repaired(text, start)]
    keyed = [reply_object for reply_object in objects if reply_object.value.get(ANSWER_KEY) == key]
    if not keyed:
        raise JudgeReplyInvalid(f'the object does not begin with the "{ANSWER_KEY}" of this question')
    _refuse_differing(keyed)
    answer = keyed[-1]
    own = dict(answer.value)
    del own[ANSWER_KEY]
    return replace(answer, value=own)


def _object_at(text: str, start: int) -> ReplyObject:
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return _repaired(text, start)
    return ReplyObject(cast("dict[str, Any]", value), start, end)


def _refuse_differing(objects: Sequence[ReplyObject]) -> None:
    for other in objects[1:]:
        if other.value != objects[0].value:
            raise JudgeReplyInvalid("the answer holds more than one JSON object")


def _objects(text: str, start: int) -> Sequence[ReplyObject]:
    """All objects on the text's top level; none if the first is broken."""
    objects: list[ReplyObject] = []
    while (start := text.find("{", start)) >= 0:
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            if objects:
                raise JudgeReplyInvalid("the answer holds more than one JSON object") from None
            return []
        if len(objects) == _MOST_OBJECTS:
            raise JudgeReplyInvalid("the answer holds more than one JSON object")
        objects.append(ReplyObject(cast("dict[str, Any]", value), start, end))
        start = end
    return objects


def _repaired(text: str, start: int) -> ReplyObject:
    """The object from the first to the last brace, read by a library that knows what models do to JSON."""
    import json_repair

    # Only undecodable text is repaired: repairing everything would let two keys of one name, or a verdict inside a
    # broken quotation, pass for a clean answer.
    start = text.find("{", start)
    end = text.rfind("}") + 1
    if start < 0:
        raise JudgeReplyInvalid("the answer holds no JSON object")
    if end <= start:
        raise JudgeReplyInvalid("the JSON object in the answer does not end")
    if end - start > _LONGEST_REPAIR:
        raise JudgeReplyInvalid("the answer is not valid JSON")
    try:
        value = cast("Any", json_repair.loads(text[start:end], skip_json_loads=True))
    except (ValueError, RecursionError, IndexError):
        value = None
    if not isinstance(value, dict):
        raise JudgeReplyInvalid("the answer is not valid JSON")
    return ReplyObject(cast("dict[str, Any]", value), start, end, exact=False)


def _refuse_repeated_keys(text: str, value: dict[str, Any]) -> None:
    """Refuse repeated keys: if quotes are broken, a quoted verdict inside a reason may look like a key."""
    for key in value:
        if len(re.findall(rf"[\"']{re.escape(key)}[\"']\s*:", text)) > 1:
            raise JudgeReplyInvalid("the answer is not valid JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key is given twice")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant, strict=False)


def _what_is_wrong(error: ValidationError, reply: type[R]) -> str:
    """The fault, like `score: must be less than or equal to 10`: the place in the form's names, never in the judge's
    words.
    """
    schema = reply.model_json_schema()
    known, keys = _names(schema), ", ".join(schema.get("properties", ()))
    parts: dict[str, None] = {}
    for mistake in error.errors(include_url=False, include_input=False)[:5]:
        place = ".".join(str(part) if isinstance(part, int) or part in known else "?" for part in mistake["loc"])
        _, should, rule = mistake["msg"].partition(" should ")
        words = f"must {rule}" if should else mistake["type"].replace("_", " ")
        extra = mistake["type"] == "extra_forbidden"
        expected = f" (asked: {keys})" if len(mistake["loc"]) == 1 else ""
        parts[f"a key is not asked for{expected}" if extra else f"{place or 'the object'}: {words}"] = None
    return "the answer is not in the asked form: " + "; ".join(parts)


def _names(schema: Any) -> set[str]:
    """Every property name that a JSON Schema declares, on any level."""
    if isinstance(schema, dict):
        node = cast("dict[str, Any]", schema)
        properties = node.get("properties")
        own = set(cast("dict[str, Any]", properties)) if isinstance(properties, dict) else set[str]()
        return own.union(*(_names(item) for item in node.values()))
    if isinstance(schema, list):
        return set[str]().union(*(_names(item) for item in cast("list[Any]", schema)))
    return set()
