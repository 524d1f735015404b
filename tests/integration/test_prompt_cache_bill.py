"""Providers that bill by cached prefix: what an evaluation costs is what their bill says, in every wire format."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from chat_server import completion, rating, serving
from judge_server import decided, judge_server, message, response
from test_judge_settings import NoStore, configured

from collector.judging.open_judges import open_judges
from evaluators.evaluation import Result, evaluate
from evaluators.results import Usage
from evaluators.testing import a_turn, with_answer_key
from evaluators.turn.g_eval import GEval

FRESH, CACHED, WRITTEN, OUTPUT = 3.0, 0.3, 3.75, 15.0
"""The provider's list prices, US dollars per million tokens."""
BLOCK = 64
"""Characters that a cache holds or does not hold together; four of them are a token."""


@dataclass
class Provider:
    """A prompt cache by blocks of a prefix, and the bill. It charges for writing only if `charges_writes`."""

    charges_writes: bool
    known: set[str] = field(default_factory=set[str])
    usd: float = 0.0
    reads: int = 0
    writes: int = 0

    def bill(self, text: str, output: int) -> tuple[int, int, int]:
        """Tokens that are read from the cache, written into it, and neither."""
        prefixes = [text[: end + BLOCK] for end in range(0, len(text) - BLOCK, BLOCK)]
        held = sum(prefix in self.known for prefix in prefixes) * BLOCK // 4
        self.known |= set(prefixes)
        total = len(text) // 4
        written = len(prefixes) * BLOCK // 4 - held if self.charges_writes else 0
        fresh = total - held - written
        self.usd += (held * CACHED + written * WRITTEN + fresh * FRESH + output * OUTPUT) / 1e6
        self.reads += held
        self.writes += written
        return held, written, fresh


def texts(*messages: dict[str, Any]) -> str:
    return "".join(
        each["content"] if isinstance(each["content"], str) else each["content"][0]["text"] for each in messages
    )


def chat(provider: Provider) -> Callable[[dict[str, Any], int], Any]:
    def respond(body: dict[str, Any], _number: int) -> Any:
        schema = orjson.dumps(body["response_format"].get("json_schema", "")).decode()  # it stands before all messages
        held, _, fresh = provider.bill(schema + texts(*body["messages"]), 30)
        details = {"cached_tokens": held}
        usage = {"prompt_tokens": held + fresh, "completion_tokens": 30, "prompt_tokens_details": details}
        return completion(with_answer_key(texts(body["messages"][-1]), rating())) | {"usage": usage}

    return respond


def responses(provider: Provider) -> Callable[[dict[str, Any], int], Any]:
    def respond(body: dict[str, Any], _number: int) -> Any:
        held, written, fresh = provider.bill(texts(*body["input"]), 30)
        details = {"cached_tokens": held, "cache_write_tokens": written}
        return response(body) | {
            "usage": {"input_tokens": held + written + fresh, "input_tokens_details": details, "output_tokens": 30}
        }

    return respond


def messages(provider: Provider) -> Callable[[dict[str, Any], int], Any]:
    def respond(body: dict[str, Any], _number: int) -> Any:
        held, written, fresh = provider.bill(body["system"][0]["text"] + texts(*body["messages"]), 30)
        usage = {"cache_read_input_tokens": held, "cache_creation_input_tokens": written, "input_tokens": fresh}
        return message(body) | {"usage": usage | {"output_tokens": 30}}

    return respond


def decisions(provider: Provider) -> Callable[[dict[str, Any], int], Any]:
    def respond(body: dict[str, Any], _number: int) -> Any:
        held, written, fresh = provider.bill(texts(*body["input"]) + orjson.dumps(body["questions"]).decode(), 0)
        details = {"cached_tokens": held, "cache_write_tokens": written}
        return decided(body) | {
            "usage": {"input_tokens": held + written + fresh, "input_tokens_details": details, "output_tokens": 0}
        }

    return respond


APIS = {"chat": chat, "responses": responses, "anthropic": messages, "decisions": decisions}


async def bills(api: str, provider: Provider, **prices: float) -> list[Result]:
    """Two evaluators over three turns, each turn twice."""
    served = serving(chat(provider)) if api == "chat" else judge_server(APIS[api](provider))
    settings = {"api": api, "usd_per_million_input_tokens": FRESH, "usd_per_million_output_tokens": OUTPUT, **prices}
    made: list[Result] = []
    async with served as server:
        config = configured({**settings, "base_url": server.base_url})
        async with open_judges(config, NoStore()) as judges:
            for number in (0, 1, 2, 0, 1, 2):
                turn = a_turn(actual_output=f"{number} is the number of an answer that goes on. " * 20)
                for steps in ("Look at the answer with care.", "Say how polite the answer is."):
                    evaluator = GEval(name="g", evaluation_steps=(steps,), evaluation_params=("actual_output",))
                    made.append(await evaluate(evaluator, turn, judges["main"]))
    return made


@pytest.mark.parametrize("api", APIS)
async def test_cost_is_the_bill_to_the_cent(api: str) -> None:
    provider = Provider(charges_writes=api != "chat")
    prices = {"usd_per_million_cached_input_tokens": CACHED}
    if api != "anthropic":  # there it is 1.25 times the price of an input token, unless something else is written
        prices["usd_per_million_cache_write_tokens"] = WRITTEN
    made = await bills(api, provider, **prices)
    assert all(each.outcome.__class__.__name__ == "Score" for each in made)
    assert sum(each.cost_usd or 0.0 for each in made) == pytest.approx(provider.usd, abs=1e-12)
    usage = sum((each.usage or Usage() for each in made), Usage())
    assert usage.cached_input_tokens == provider.reads > 0
    assert (usage.cache_write_tokens or 0) == provider.writes


async def test_without_a_price_for_it_what_is_cached_costs_as_any_input() -> None:
    provider = Provider(charges_writes=False)
    made = await bills("chat", provider)
    usage = sum((each.usage or Usage() for each in made), Usage())
    assert sum(each.cost_usd or 0.0 for each in made) == pytest.approx(
        (usage.input_tokens * FRESH + usage.output_tokens * OUTPUT) / 1e6
    )


async def bill_of_questions_at_once(api: str, *, subject_first: bool) -> tuple[Provider, list[Result]]:
    """Five evaluators of one long turn, all at once, by a provider that knows a prompt once it is answered."""
    provider = Provider(charges_writes=api != "chat")
    plain = APIS[api](provider)

    async def respond(body: dict[str, Any], number: int) -> Any:
        known = set(provider.known)
        answer = plain(body, number)
        known, provider.known = provider.known, known  # in the cache when it is answered
        await asyncio.sleep(0.05)
        provider.known |= known
        return answer

    prices = {"usd_per_million_cached_input_tokens": CACHED, "usd_per_million_cache_write_tokens": WRITTEN}
    settings = {"api": api, "usd_per_million_input_tokens": FRESH, "usd_per_million_output_tokens": OUTPUT, **prices}
    async with provider_server(api, respond) as base_url:
        config = configured({**settings, "base_url": base_url, "subject_first": subject_first})
        async with open_judges(config, NoStore()) as judges:
            turn = a_turn(input="How do I return it? " * 60, actual_output="Send it back within a month. " * 150)
            params = ("actual_output", "input"), ("input", "actual_output")
            evaluators = [
                GEval(name=f"g{n}", evaluation_steps=(f"Look at point {n}.",), evaluation_params=params[n % 2])
                for n in range(5)
            ]
            made = await asyncio.gather(*(evaluate(each, turn, judges["main"]) for each in evaluators))
    assert sum(each.cost_usd or 0.0 for each in made) == pytest.approx(provider.usd, abs=1e-12)
    return provider, list(made)


@asynccontextmanager
async def provider_server(api: str, respond: Callable[[dict[str, Any], int], Any]) -> AsyncGenerator[str]:
    """An endpoint of an API whose requests are looked at as they came."""
    number = count()

    async def handle(request: web.Request) -> web.Response:
        return web.json_response(await respond(await request.json(), next(number)))

    app = web.Application()
    paths = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "anthropic": "/v1/messages"}
    app.router.add_post(paths[api], handle)
    async with TestServer(app) as server:
        yield str(server.make_url("/v1"))


async def test_with_the_subject_first_it_is_paid_in_full_once() -> None:
    usual, before = await bill_of_questions_at_once("chat", subject_first=False)
    shared, after = await bill_of_questions_at_once("chat", subject_first=True)
    assert usual.reads == 0
    assert shared.reads / (sum(each.usage.input_tokens for each in after if each.usage)) > 0.6
    assert shared.usd < 0.6 * usual.usd
    assert [each.outcome.__class__.__name__ for each in before + after] == ["Score"] * 10
