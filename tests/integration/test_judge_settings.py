"""What the configuration says of a judge's endpoint, seen from the endpoint."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from chat_server import ChatServer, completion, rating, refusal, serving
from configurations import checked
from judge_server import judge_server
from test_access import make_certificates

from collector.config.configured import Config
from collector.config.loading import check
from collector.config.settings import DECIDING, JudgeSettings
from collector.errors import ConfigError
from collector.judging.layers import without_answer_cache
from collector.judging.open_judges import open_judges
from collector.judging.outage_reporter import endpoint_of
from collector.service.plan_builder import build_plan, build_unasked_plan, evaluator_version_in
from evaluators.errors import JudgeError
from evaluators.evaluation import evaluate
from evaluators.judge import Judge, Prompt
from evaluators.judges.divided import DividedJudge
from evaluators.questions import QuestionGroup, ScoreQuestion, score_levels
from evaluators.results import Score
from evaluators.scale import Scale
from evaluators.testing import a_turn, with_answer_key

REPLY = Scale(0, 10).reply
PROMPT = Prompt("You judge. Answer as JSON.", {"actual_output": "the judged answer"})
PAGE = Path(__file__).parents[2] / "deploy" / "docs" / "judges.md"
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
EVERY = [settings for block in BLOCKS for settings in yaml.safe_load(block).get("judges", {}).values()]
EXAMPLES = [each for each in EVERY if not {"api", "kind", "client_options"} & set(each)]
OTHER_APIS = [each for each in EVERY if "api" in each]


class NoStore:
    async def load(self, key: str) -> str | None:
        raise AssertionError(key)

    async def save(self, key: str, text: str) -> str:
        raise AssertionError(key, text)


def configured(settings: dict[str, Any]) -> Config:
    return checked({"polite": {"kind": "judged_refusal", "judge": "main"}}, judges={"main": {"model": "m", **settings}})


@asynccontextmanager
async def closing(server: TestServer) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        await server.close()


@asynccontextmanager
async def judging(**settings: Any) -> AsyncGenerator[Judge]:
    async with open_judges(configured(settings), NoStore()) as judges:
        yield judges["main"]


_FILES = frozenset({"tls", "proxy", "api_key_file", "header_files"})
"""Settings that name what is not here."""


@pytest.mark.parametrize("client", ["direct", "openai"])
@pytest.mark.parametrize("settings", EXAMPLES, ids=[each["model"] for each in EXAMPLES])
async def test_endpoints_of_the_page_get_what_they_want(settings: dict[str, Any], client: str) -> None:
    settings = {name: value for name, value in settings.items() if name not in _FILES}
    async with (
        serving(lambda body, n: rating()) as server,
        judging(**settings | {"base_url": server.base_url, "client": client}) as judge,
    ):
        verdict = await judge.ask(PROMPT, REPLY)
    [request], [headers] = server.requests, server.headers
    assert request["model"] == settings["model"]
    parameters = {name: settings[name] for name in ("seed", "reasoning_effort", "service_tier") if name in settings}
    assert request == request | parameters | settings.get("extra_body", {})
    assert headers == headers | settings.get("headers", {})
    assert headers["Authorization"] == f"Bearer {settings.get('api_key', 'none')}"
    assert verdict.cost_usd == (0.00045 if "service_tier" in settings else None)


@pytest.mark.parametrize("settings", OTHER_APIS, ids=[each["api"] for each in OTHER_APIS])
async def test_endpoints_of_other_formats_get_what_they_want(settings: dict[str, Any]) -> None:
    group = QuestionGroup("Judge it.", (ScoreQuestion(("score",), "Which?", score_levels(Scale(0, 10))),))
    async with judge_server() as server, judging(**settings | {"base_url": server.base_url}) as judge:
        verdict = await judge.ask(replace(PROMPT, groups=(group,)), REPLY)
    [request], [headers] = server.requests, server.headers
    assert request["model"] == settings["model"]
    assert settings.get("api_key", "none") in {headers.get("x-api-key"), headers.get("Authorization", "")[7:]}
    assert bool(verdict.answers[0].decisions) == (settings["api"] in DECIDING)
    assert (verdict.cost_usd is not None) == ("usd_per_million_input_tokens" in settings)


def two_judges(judge: object, definition: dict[str, Any], **settings: Any) -> dict[str, Any]:
    return {
        "judges": {
            "mini": {"model": "writer", "base_url": "http://127.0.0.1:9/v1"},
            "luna": {"model": "decider", "api": "systemone", "base_url": "http://127.0.0.1:9/v1", **settings},
        },
        "evaluators": {"each": {**definition, "judge": judge}},
        "monitors": {"all": {"evaluators": ["each"]}},
    }


BOTH = {"extract": "mini", "decide": "luna"}


async def test_one_judge_writes_and_another_decides() -> None:
    async with judge_server() as deciding, serving(lambda body, n: '{"items": ["a claim"]}') as writing:
        values = two_judges(BOTH, {"kind": "toxicity"}, base_url=deciding.base_url)
        values["judges"]["mini"]["base_url"] = writing.base_url
        config = check(values, "here")
        async with open_judges(config, NoStore()) as judges:
            plan = build_plan(config, judges)
            judge = judges["luna+mini"]
            assert isinstance(without_answer_cache(judge), DividedJudge)
            outcome = (await evaluate(config.evaluators["each"].evaluator, a_turn(), judge)).outcome
    assert isinstance(outcome, Score)
    assert outcome.value == pytest.approx(1 / 6)
    assert outcome.details["items"][0]["item"] == "a claim"
    assert (len(writing.requests), len(deciding.requests)) == (1, 1)
    [assignment] = plan.monitors[0].assignments
    assert assignment.judge.model == "decider (systemone 2) after writer"
    assert assignment.version == evaluator_version_in(config, "each"), "what is asked is what was said"
    assert build_unasked_plan(config).monitors[0].assignments[0].version == assignment.version


@pytest.mark.parametrize(
    ("judge", "definition", "mistake"),
    [
        ("luna", {"kind": "toxicity"}, "evaluators.each.judge: luna decides and cannot write, which this evaluator needs; write judge: {extract: mini, decide: luna}"),
        ("luna", {"kind": "g_eval", "criteria": "x", "evaluation_params": ["input"]}, "luna decides and cannot write"),
        (BOTH, {"kind": "frustration"}, "evaluators.each.judge: nothing has to be written for this evaluator; write judge: luna"),
        ({"extract": "luna", "decide": "mini"}, {"kind": "toxicity"}, "judge.extract: luna decides and cannot write; name a judge that writes"),
        ({"extract": "mini"}, {"kind": "toxicity"}, "evaluators.each.judge: give the name of a judge, or two as {extract: …, decide: …}"),
        ({"extract": "mini", "decide": "lune"}, {"kind": "toxicity"}, "evaluators.each.judge.decide: unknown judge 'lune'; did you mean 'luna'?"),
        ({"extract": "mini", "decide": "mini"}, {"kind": "toxicity"}, "evaluators.each.judge: extract and decide are the same judge"),
    ],
    ids=["alone", "criteria", "needless", "turned", "half", "unknown", "same"],
)  # fmt: skip
def test_two_judges_are_checked(judge: object, definition: dict[str, Any], mistake: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(mistake)):
        check(two_judges(judge, definition), "here")


@pytest.mark.parametrize(
    ("settings", "mistake"),
    [
        ({"api": "systemone"}, "base_url: is missing; System One endpoints have no common address"),
        ({"api": "decisions", "temperature": 0.5}, "temperature: means nothing with api: decisions; remove the key"),
        ({"api": "anthropic", "seed": 1}, "seed: means nothing with api: anthropic; remove the key"),
        ({"api": "decisions", "extra_body": {"questions": []}}, "questions is what evalstream itself writes"),
        ({"api": "responses", "kind": "a:B"}, "api: is for endpoints that write (kind: openai); remove the key"),
        ({"api": "decision"}, "judges.main.api"),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else "",
)
def test_a_format_is_checked(settings: dict[str, Any], mistake: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(mistake)):
        configured(settings)


def test_a_format_has_its_vendors_address_and_a_price_of_input_alone() -> None:
    claude = JudgeSettings.model_validate({"model": "m", "api": "anthropic"})
    assert claude.base_url == "https://api.anthropic.com/v1"
    luna = JudgeSettings.model_validate({"model": "m", "api": "decisions", "usd_per_million_input_tokens": 0.1})
    assert (luna.priced, luna.prices) == (True, (0.1, 0.0))
    assert not JudgeSettings.model_validate({"model": "m", "usd_per_million_input_tokens": 0.1}).priced


def test_formats_at_one_address_share_no_breaker() -> None:
    chat, decisions = (JudgeSettings.model_validate({"model": "m", "api": api}) for api in ("chat", "decisions"))
    assert endpoint_of(chat) != endpoint_of(decisions)


async def test_a_key_in_a_file_has_interval_as_the_format_wants_it(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("secret-1")
    async with (
        judge_server() as server,
        judging(api="anthropic", base_url=server.base_url, api_key_file=str(key)) as judge,
    ):
        await judge.ask(PROMPT, REPLY)
    assert server.headers[0]["x-api-key"] == "secret-1"
    assert "Authorization" not in server.headers[0]


async def test_a_refused_parameter_is_left_out_from_then() -> None:
    def respond(body: dict[str, Any], number: int) -> Any:
        return refusal(400, "Unrecognized request argument supplied: seed") if "seed" in body else rating()

    async with serving(respond) as server, judging(base_url=server.base_url, seed=7, reasoning_effort="low") as judge:
        for _ in range(2):
            await judge.ask(PROMPT, REPLY)
    assert ["seed" in each for each in server.requests] == [True, False, False]
    assert all(each["reasoning_effort"] == "low" for each in server.requests)


async def test_what_the_prompt_cache_had_has_its_own_price() -> None:
    def respond(body: dict[str, Any], number: int) -> Any:
        answer = completion(rating())
        return answer | {"usage": answer["usage"] | {"prompt_tokens_details": {"cached_tokens": 800}}}

    prices = {"input": 1.0, "output": 2.0, "cached_input": 0.1}
    settings = {f"usd_per_million_{name}_tokens": price for name, price in prices.items()}
    async with serving(respond) as server, judging(base_url=server.base_url, **settings) as judge:
        verdict = await judge.ask(PROMPT, REPLY)
    assert verdict.cost_usd == pytest.approx((200 * 1.0 + 800 * 0.1 + 100 * 2.0) / 1e6)


async def test_an_endpoint_that_wants_our_certificate_and_has_one_of_our_authority(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tmp_path / "ours-ca.pem"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(tmp_path / "ours.pem", tmp_path / "ours.key")
    chat = ChatServer(lambda body, n: rating())
    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat.handle)
    tls = {"ca": "ours-ca.pem", "certificate": "ours.pem", "key": "ours.key"}
    ours = {name: str(tmp_path / file) for name, file in tls.items()}
    server = TestServer(app, scheme="https")
    await server.start_server(ssl=context)
    async with closing(server):
        url = str(server.make_url("/v1"))
        async with judging(base_url=url, tls=ours) as judge:
            assert (await judge.ask(PROMPT, REPLY)).answers
        async with judging(base_url=url) as judge:
            with pytest.raises(JudgeError, match="TLS failed"):
                await judge.ask(PROMPT, REPLY)
    assert len(chat.requests) == 1


async def test_through_a_proxy() -> None:
    asked: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        asked.append(head.split(b"\r\n")[0])
        length = re.search(rb"(?i)content-length: (\d+)", head)
        assert length is not None
        body = orjson.loads(await reader.readexactly(int(length[1])))
        answer = orjson.dumps(completion(with_answer_key(body["messages"][-1]["content"], rating())))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(answer), answer))
        writer.close()

    listening = await asyncio.start_server(proxy, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with listening, judging(base_url="http://judge.example/v1", proxy=f"http://127.0.0.1:{port}") as judge:
        await judge.ask(PROMPT, REPLY)
    [line] = asked
    assert line == b"POST http://judge.example/v1/chat/completions HTTP/1.1"


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (
            {"extra_body": {"temperature": 1}},
            "temperature is what evalstream itself writes; write it as the judge's key",
        ),
        ({"extra_body": {"stream": True}}, "stream is what evalstream itself writes; leave it out"),
        ({"proxy": "proxy:3128"}, "is not the URL of an HTTP proxy; write it like http://host:3128"),
        ({"headers": {"a b": "x"}}, "headers"),
        ({"tls": {"certificate": "c.pem"}}, "certificate and key belong together"),
    ],
)
def test_mistakes_have_a_sentence(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(complaint)):
        configured(settings)


async def test_files_that_are_no_certificates_end_the_start(tmp_path: Path) -> None:
    (tmp_path / "prose.pem").write_text("not a certificate")
    for file, why in (
        (tmp_path / "none.pem", "No such file"),
        (tmp_path / "prose.pem", "give a PEM file of certificates"),
    ):
        with pytest.raises(ConfigError, match=re.escape(str(file)) + f".*{why}"):
            async with judging(tls={"ca": str(file)}):
                pass


def test_secrets_are_not_shown() -> None:
    settings = configured({"headers": {"api-key": "s3cret"}, "proxy": "http://me:s3cret@proxy:3128"}).settings
    assert "s3cret" not in repr(settings) + settings.model_dump_json()
