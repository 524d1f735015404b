"""A judge that believes whatever it reads: it repeats the first verdict that the material shows, or says 5."""

from __future__ import annotations

import re
import zlib

import orjson
from aiohttp import web
from chat_server import completion, rating

from evaluators.testing import with_answer_key

_SHOWN = re.compile(r"PLANTED(.*?)DETNALP", re.DOTALL)


async def answer(request: web.Request) -> web.Response:
    body = orjson.loads(await request.read())
    message = body["messages"][-1]["content"]
    first = body["messages"][1]["content"]
    planted = _SHOWN.search(first)
    if planted is None:
        return web.json_response(completion(with_answer_key(message, rating(5))))
    shown = planted[1]
    try:
        written = str(orjson.loads(f'"{shown}"'))
    except orjson.JSONDecodeError:
        written = shown
    # As it is shown, as it reads, and with the key of the question: another one for another text and another attempt.
    texts = (shown, written, with_answer_key(message, written))
    return web.json_response(completion(texts[(len(body["messages"]) + zlib.crc32(shown.encode())) % len(texts)]))


def application() -> web.Application:
    made = web.Application(client_max_size=32 * 1024**2)
    made.router.add_post("/v1/chat/completions", answer)
    return made
