"""A stand-in for a judge, so that the demo needs no key: an OpenAI-compatible server without a model.

It answers the questions of `g_eval`. A score is the share of the question's words that the answer takes up, and of the
answer's words that the retrieved passages know: crude, but it falls when an answer turns to something else. Token
probabilities are spread around the score, as a model's would be. Equal questions get equal answers. It says in the
model's name, in the fingerprint and in every reason that it is a stand-in.
"""

import hashlib
import math
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson
from aiohttp import web

from collector.admission.listener import Address, serving
from evaluators.asking.judge_input import iter_texts
from evaluators.asking.prompt_isolation import ANSWER_KEY
from evaluators.testing import required_answer_key

MODEL = "stand-in-judge (no model)"
FINGERPRINT = "fp_stand_in_no_model"

Spread = Sequence[tuple[str, float]]
"""The alternatives of a token with their probabilities, the most probable first."""

_WORD = re.compile(r"[^\W_]+")
_STEM = 4  # "returned" and "return" are the same word here; this is no linguistics
_SMALL = """
    a about all also an and any are as at be been but by can could did do does for from get had has have he
    her here his how i if in into is it its just long me more my no not of on or our please she should so some
    than that the their them then there these they this to up us very was we were what when where which who
    will with would yes you your
"""
_STOPWORDS = frozenset(_SMALL.split())
_UNKNOWN = 0.5
_FENCE = re.compile(r"<<<material [0-9a-f]+>>>\n(.*)\n<<<end of material", re.DOTALL)
_STEPS = (
    "Stand-in, no model: take the words of the question that say something.",
    "Stand-in, no model: see how many of them the answer takes up.",
    "Stand-in, no model: where there is a reference, see how much of the answer it knows.",
)
_SCORE = '"score":'


def words(value: Any) -> frozenset[str]:
    """The words of a text, or of texts in a value, that say something, cut to their first letters, in lower case."""
    all_words = (word.lower() for word in _WORD.findall(" ".join(iter_texts(value))))
    return frozenset(word[:_STEM] for word in all_words if word not in _STOPWORDS)


def share(some_words: frozenset[str], known: frozenset[str]) -> float:
    """The share of words that are known; one half where there are none."""
    return len(some_words & known) / len(some_words) if some_words else _UNKNOWN


def closeness(turn: Mapping[str, Any]) -> float:
    """The closeness of a turn's answer to its question and passages, 0..1; the mean where there are both."""
    answer, question, passages = (words(turn.get(name)) for name in ("actual_output", "input", "retrieval_context"))
    parts = [share(question, answer)] if question else []
    parts += [share(answer, passages)] if passages else []
    return sum(parts) / len(parts) if parts else _UNKNOWN


def spread_around(closeness_: float, lowest: float, highest: float) -> Spread:
    """At most twenty whole numbers around the place of `closeness_` on the scale, probable as a model's would be.

    Their mean is that place, as nearly as the scale's ends allow; the last two hundredths lie elsewhere.
    """
    centre = lowest + (0.05 + 0.9 * closeness_) * (highest - lowest)
    width = max(0.35, 0.05 * (highest - lowest))
    weights = {
        str(value): math.exp(-0.5 * ((value - centre) / width) ** 2)
        for value in range(math.ceil(lowest), math.floor(highest) + 1)
    }
    likely = sorted(weights.items(), key=lambda item: -item[1])[:19]
    total = sum(weight for _, weight in likely)
    return [(text, 0.98 * weight / total) for text, weight in likely if weight / total > 1e-8]


def completion(request: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a chat completion request of `g_eval`.

    Raises:
        LookupError, TypeError, ValueError, AttributeError: it is no such request.
    """
    contents = [" ".join(iter_texts(message["content"])) for message in request["messages"]]
    fence = _FENCE.search(contents[-1])
    close = closeness(orjson.loads(fence[1])) if fence else _UNKNOWN
    key = required_answer_key(contents[-1])
    reply: dict[str, Any] = {} if key is None else {ANSWER_KEY: key}
    spread: Spread = ()
    for name, form in request["response_format"]["json_schema"]["schema"]["properties"].items():
        if name == "score":
            spread = spread_around(close, form["minimum"], form["maximum"])
            reply[name] = int(spread[0][0])
        elif name == "steps":
            reply[name] = _STEPS
        elif form.get("type") == "boolean":
            reply[name] = close >= _UNKNOWN
        elif name != ANSWER_KEY:
            reply[name] = f"Stand-in, no model: counting words, this comes to {close:.0%}."
    text, everything = orjson.dumps(reply).decode(), "\n".join(contents)
    read, written = len(everything) // 4 + 1, len(text) // 4 + 1  # about four characters a token, as models count
    return {
        "id": f"chatcmpl-{hashlib.sha256(everything.encode(errors='replace')).hexdigest()[:24]}",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "system_fingerprint": FINGERPRINT,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text, "refusal": None},
                "finish_reason": "stop",
                "logprobs": {"content": _tokens(text, spread)} if request.get("logprobs") and spread else None,
            }
        ],
        "usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written},
    }


def _tokens(text: str, spread: Spread) -> list[dict[str, Any]]:
    """The text in three tokens: the score with its alternatives, and what surrounds it, which is almost certain."""
    head, _, tail = text.partition(_SCORE)
    alternatives = ([(head + _SCORE, 0.999)], spread, [(tail.removeprefix(spread[0][0]), 0.999)])
    return [{**_token(*tops[0]), "top_logprobs": [_token(*top) for top in tops]} for tops in alternatives]


def _token(text: str, chance: float) -> dict[str, Any]:
    return {"token": text, "logprob": math.log(chance), "bytes": list(text.encode())}


async def _complete(request: web.Request) -> web.Response:
    try:
        status, answer = 200, completion(orjson.loads(await request.read()))
    except (ValueError, TypeError, AttributeError, LookupError):
        status, answer = 400, {"error": {"message": "this is not a question of g_eval", "type": "stand_in"}}
    return web.Response(status=status, body=orjson.dumps(answer), content_type="application/json")


@asynccontextmanager
async def serve_judge() -> AsyncGenerator[str]:
    """Serve the stand-in until left; gives its base URL, with /v1."""
    application = web.Application(client_max_size=32 * 1024**2)
    application.router.add_post("/v1/chat/completions", _complete)
    address = Address("judge", "127.0.0.1", 0)
    async with serving(application, address=address, max_connections=1000, idle_timeout=75.0, stop_grace=0.5) as port:
        yield f"http://127.0.0.1:{port}/v1"
