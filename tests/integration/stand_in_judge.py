"""The tests' judge: an OpenAI-compatible server without a model, which fills in any form of a reply by plain rules.

It looks at the schema of the reply that is asked for. A score is the share of the answer's words that the question, the
reference or the retrieved passages know, as in the demo's stand-in, and over the turns of a conversation. Equal
questions get equal answers.
"""

import hashlib
import math
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import orjson
from aiohttp import web

from collector.demo.judge import FINGERPRINT, MODEL, Spread, share, spread_around, words
from evaluators.asking.judge_input import iter_texts
from evaluators.asking.prompt_isolation import ANSWER_KEY
from evaluators.testing import required_answer_key, required_answer_keys
from evaluators.texts.draw import draw

Json = Any

_REFERENCES = ("expected_output", "context", "retrieval_context", "reference", "expected_outcome")
_ANSWERS = ("actual_output", "answer", "output", "content")
_QUESTIONS = ("input", "question", "query", "user")
_UNKNOWN = 0.5


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
    return words(" ".join(text for name in names if name in fields for text in iter_texts(fields[name])))


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
            request = " ".join(iter_texts(message.get("content")))
        elif role == "assistant":
            yield {**message, "input": request, "actual_output": " ".join(iter_texts(message.get("content")))}
        elif role is None and any(name in message for name in _ANSWERS):
            yield message


STEPS = (
    "Stand-in, no model: take the words of the question that say something.",
    "Stand-in, no model: see how many of them the answer takes up.",
    "Stand-in, no model: where there is a reference, see how much of the answer it knows.",
)

_FENCE = re.compile(r"<<<material [0-9a-f]+>>>\n(.*)\n<<<end of material", re.DOTALL)
_ANY_SCALE = (0.0, 10.0)
_BAD_WORDS = frozenset({"no", "not", "false", "fail", "failed", "different", "low", "bad", "irrelevant", "incorrect"})
_PASSAGES = frozenset({"context", "retrieval_context", "turns"})
_TEXT = {"type": "string"}
_DEFAULT: dict[str, Json] = {"properties": {"reason": _TEXT, "score": {"type": "integer", "minimum": 0, "maximum": 10}}}
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """A request: all of its text, the material to judge, the schema of the reply, and the key that it must repeat."""

    text: str
    material: Json
    schema: Mapping[str, Json]
    closeness: float
    answer_key: str | None = None
    entries: "Mapping[str, JudgeRequest]" = field(default_factory=dict[str, "JudgeRequest"])
    """The questions of a pack by their names in the answer, each with what it is about."""


_FIELDS_OF_EACH = "The fields of each question: "


def materials_of_pack(message: str, material: Mapping[str, Json]) -> dict[str, dict[str, Json]]:
    """The subject of each question of a pack, by its name: the fields of the material that the message gives it."""
    _, _, behind = message.partition(_FIELDS_OF_EACH)
    fields_of_each, end, _ = f"{behind} ".partition(". ")
    materials: dict[str, dict[str, Json]] = {}
    for part in fields_of_each.split("; ") if behind and end else ():
        name, _, fields = part.partition(": ")
        own = cast("Mapping[str, Json]", material.get(name) or {})
        named = [field.removeprefix(f"{name}.") for field in fields.split(", ")]
        materials[name] = {field: own[field] if field in own else material.get(field) for field in named}
    return materials


@dataclass(slots=True)
class _Reply:
    """A reply being written: its text, and where in it the scores stand."""

    text: str = ""
    scores: dict[tuple[int, int], Spread] = field(default_factory=dict[tuple[int, int], Spread])


def parse_request(request: Mapping[str, Json]) -> JudgeRequest:
    """Read a chat completion request.

    Raises:
        LookupError, TypeError, ValueError, AttributeError: it is none.
    """
    contents = [" ".join(iter_texts(message["content"])) for message in request["messages"]]
    fence = _FENCE.search(contents[-1])
    material = orjson.loads(fence[1]) if fence else {"content": contents[-1]}
    form: Json = request.get("response_format")
    schema: Json = form["json_schema"]["schema"] if form and form["type"] == "json_schema" else _DEFAULT
    answer_key = None if required_answer_keys(contents[-1]) else required_answer_key(contents[-1])
    if answer_key is not None and ANSWER_KEY not in schema["properties"]:
        schema = {**schema, "properties": {ANSWER_KEY: _TEXT, **schema["properties"]}}
    text = "\n".join(contents)
    keys = required_answer_keys(contents[1]) if len(contents) > 1 else {}
    entries = (
        {
            name: JudgeRequest(text, own, schema, closeness(own), keys.get(name))
            for name, own in materials_of_pack(contents[1], material).items()
        }
        if keys
        else {}
    )
    return JudgeRequest(text, material, schema, closeness(material), answer_key, entries)


def answer_to(question: JudgeRequest, *, sample: int = 0) -> tuple[str, Mapping[tuple[int, int], Spread]]:
    """The reply's text, and for the place (start, end) of each score in it what else could have stood there.

    Sample 0 is the most probable answer; others are drawn, the same ones each time.
    """
    reply = _Reply()
    _write(reply, question.schema, "", question, sample)
    return reply.text, reply.scores


def _write(reply: _Reply, schema: Mapping[str, Json], name: str, question: JudgeRequest, sample: int) -> None:
    schema = _resolved(schema, question.schema)
    if "properties" in schema:
        reply.text += "{"
        for index, (key, inner) in enumerate(cast("Mapping[str, Json]", schema["properties"]).items()):
            reply.text += f"{', ' if index else ''}{_dump(key)}: "
            _write(reply, inner, key, question.entries.get(key, question), sample)
        reply.text += "}"
    elif name == ANSWER_KEY:
        reply.text += _dump(question.answer_key)
    elif schema.get("type") in {"integer", "number"} and "enum" not in schema:
        _write_score(reply, schema, question, sample)
    elif schema.get("type") == "array":
        reply.text += _dump(list(_items(schema, name, question)))
    else:
        reply.text += _dump(_value(schema, question))


def _write_score(reply: _Reply, schema: Mapping[str, Json], question: JudgeRequest, sample: int) -> None:
    spread = spread_around(question.closeness, *_limits(schema))
    written = spread[0][0] if sample == 0 else _choose(spread, question.material, sample)
    start = len(reply.text)
    reply.text += written
    reply.scores[start, len(reply.text)] = spread


def _choose(spread: Spread, material: Json, sample: int) -> str:
    key = orjson.dumps([sample, material])  # not the text: its fence is new every time
    rest = draw(key, algorithm="sha256") * sum(chance for _, chance in spread)
    for written, chance in spread:
        rest -= chance
        if rest <= 0:
            return written
    return spread[-1][0]


def _items(schema: Mapping[str, Json], name: str, question: JudgeRequest) -> Iterator[Json]:
    inner = _resolved(schema.get("items") or _TEXT, question.schema)
    listed = list(_listed(question.material))
    if "step" in name:
        yield from STEPS
    elif "properties" in inner:
        for number, text in enumerate(listed):
            yield _object(inner, number, text, question)
    elif inner.get("type") == "string" and "enum" not in inner:
        yield from listed[:20]
    else:
        for text in listed:
            yield _value(inner, _about(question, text))


def _object(schema: Mapping[str, Json], number: int, text: str, question: JudgeRequest) -> dict[str, Json]:
    """One object of a list, about one text of the material."""
    about = _about(question, text)
    result: dict[str, Json] = {}
    for key, inner in cast("Mapping[str, Json]", schema["properties"]).items():
        rule = _resolved(inner, question.schema)
        if rule.get("type") == "integer" and key in {"index", "id", "number", "position"}:
            result[key] = number + int(rule.get("minimum") or 0)
        elif key in {"statement", "claim", "text", "sentence", "quote", "evidence"}:
            result[key] = text
        else:
            result[key] = _plain(rule, about)
    return result


def _plain(schema: Mapping[str, Json], question: JudgeRequest) -> Json:
    if schema.get("type") in {"integer", "number"} and "enum" not in schema:
        return int(spread_around(question.closeness, *_limits(schema))[0][0])
    if schema.get("type") == "array":
        return []
    if "properties" in schema:
        return {key: _plain(_resolved(inner, question.schema), question) for key, inner in schema["properties"].items()}
    return _value(schema, question)


def _value(schema: Mapping[str, Json], question: JudgeRequest) -> Json:
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return _chosen(schema["enum"], question.closeness)
    match schema.get("type"):
        case "boolean":
            return question.closeness >= 0.5
        case "null":
            return None
        case _:
            return f"Stand-in, no model: counting words, this comes to {question.closeness:.0%}."


def _chosen(choices: Sequence[Json], close: float) -> Json:
    """A number by its place; of words, the first that sounds good or bad."""
    if all(isinstance(choice, (int, float)) for choice in choices):
        return sorted(choices)[round(close * (len(choices) - 1))]
    bad = [choice for choice in choices if str(choice).lower() in _BAD_WORDS]
    good = [choice for choice in choices if choice not in bad]
    return (good or bad)[0] if close >= 0.5 else (bad or good)[0]


def _limits(schema: Mapping[str, Json]) -> tuple[float, float]:
    return float(schema.get("minimum", _ANY_SCALE[0])), float(schema.get("maximum", _ANY_SCALE[1]))


def _listed(material: Json) -> Iterator[str]:
    """The texts to comment on: the material's own list, else the sentences of its answer."""
    if isinstance(material, Mapping):
        fields = cast("Mapping[str, Json]", material)
        lists = sorted((key in _PASSAGES, key) for key, value in fields.items() if value and isinstance(value, list))
        if lists:
            yield from (" ".join(iter_texts(field)) for field in fields[lists[0][1]])
            return
        yield from _SENTENCE.split(" ".join(iter_texts(fields.get("actual_output", material))))
        return
    yield from _SENTENCE.split(" ".join(iter_texts(material)))


def _about(question: JudgeRequest, text: str) -> JudgeRequest:
    """The same question about one text: how much of it the rest of the material knows."""
    rest = words(" ".join(other for other in iter_texts(question.material) if other != text))
    return JudgeRequest(question.text, question.material, question.schema, share(words(text), rest))


def _resolved(schema: Mapping[str, Json], root: Mapping[str, Json]) -> Mapping[str, Json]:
    """Follow a reference, and take the first of several forms."""
    while True:
        if "$ref" in schema:
            schema = root["$defs"][str(schema["$ref"]).rpartition("/")[2]]
        elif schema.get("anyOf"):
            schema = schema["anyOf"][0]
        else:
            return schema


def _dump(value: Any) -> str:
    return orjson.dumps(value).decode()


class StandInJudge:
    """The server, and how often it was asked."""

    def __init__(self) -> None:
        self.calls = 0

    def application(self) -> web.Application:
        """An application with the two routes, to be served anywhere."""
        application = web.Application(client_max_size=32 * 1024**2)
        application.router.add_post("/v1/chat/completions", self._complete)
        application.router.add_get("/v1/models", _models)
        return application

    async def _complete(self, request: web.Request) -> web.Response:
        self.calls += 1
        return await self.answer(await request.read())

    async def answer(self, body: bytes) -> web.Response:
        """The response to a request for a completion."""
        try:
            return _json(200, completion(cast("dict[str, Json]", orjson.loads(body))))
        except (ValueError, TypeError, AttributeError, LookupError):
            message = "this is not a chat completion request"
            return _json(400, {"error": {"message": message, "type": "stand_in", "param": None, "code": None}})


def completion(request: Mapping[str, Json]) -> dict[str, Json]:
    """The answer to a chat completion request, with as many choices as it asks for.

    Raises:
        LookupError, TypeError, ValueError, AttributeError: it is no such request.
    """
    question = parse_request(request)
    choices = [_choice(request, question, index) for index in range(int(request.get("n") or 1))]
    digest = hashlib.sha256(question.text.encode(errors="replace")).hexdigest()
    return {
        "id": f"chatcmpl-{digest[:24]}",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "system_fingerprint": FINGERPRINT,
        "choices": choices,
        "usage": _usage(question.text, choices),
    }


def _choice(request: Mapping[str, Json], question: JudgeRequest, index: int) -> dict[str, Json]:
    text, scores = answer_to(question, sample=index)
    tokens = tokens_of(text, scores, int(request.get("top_logprobs") or 0)) if request.get("logprobs") else None
    return {
        "index": index,
        "message": {"role": "assistant", "content": text, "refusal": None},
        "finish_reason": "stop",
        "logprobs": {"content": tokens} if tokens else None,
    }


@asynccontextmanager
async def serve_judge(
    judge: StandInJudge | None = None, *, host: str = "127.0.0.1", port: int = 0
) -> AsyncGenerator[str]:
    """Serve a stand-in judge until left; gives its base URL, with /v1."""
    application = (judge or StandInJudge()).application()
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        yield f"http://{host}:{site.port}/v1"
    finally:
        await runner.cleanup()


async def _models(_request: web.Request) -> web.Response:
    model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "evalstream: a stand-in, no model"}
    return _json(200, {"object": "list", "data": [model]})


def _usage(text: str, choices: Sequence[Json]) -> dict[str, int]:
    """About four characters a token, as models count."""
    written = sum(len(choice["message"]["content"]) for choice in choices) // 4 + 1
    read = len(text) // 4 + 1
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _json(status: int, value: Json) -> web.Response:
    return web.Response(status=status, body=orjson.dumps(value), content_type="application/json")


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
