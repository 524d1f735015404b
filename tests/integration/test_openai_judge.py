import asyncio
import gc
import math
import threading
from contextlib import asynccontextmanager
from types import SimpleNamespace

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from chat_server import completion, rating, refusal, serving
from openai import AsyncOpenAI

from evaluators import GEval, Limited, OpenAIJudge, evaluate_many
from evaluators.errors import (
    ENDPOINT_ERRORS,
    JudgeDenied,
    JudgeRejected,
    JudgeReplyInvalid,
    JudgeUnavailable,
    JudgeUnreachable,
    NoCompletion,
)
from evaluators.evaluation import evaluate, evaluate_sync
from evaluators.judge import Prompt
from evaluators.judges.client_connection import fast_http
from evaluators.judges.connection import Connection
from evaluators.scale import Scale
from evaluators.testing import a_moment, a_turn, required_answer_key, with_answer_key

REPLY = Scale(0, 10).reply
PROMPT = Prompt("You judge. Answer as JSON.", {"actual_output": "the judged answer"})


TRANSPORT = {"client": False}
ONLY_DIRECT = {"ssl_context", "proxy", "fresh_headers"}


@pytest.fixture(autouse=True, params=["direct", "client"])
def transport(request):
    """Every test of a judge runs over both transports: an answer is the same by either."""
    TRANSPORT["client"] = request.param == "client"
    yield
    TRANSPORT["client"] = False


@asynccontextmanager
async def judging(respond, **options):
    """A server on loopback, and a judge that asks it."""
    async with serving(respond) as server:
        options = {"base_url": server.base_url, "api_key": "key", "retries": 0} | options
        if TRANSPORT["client"] and not ONLY_DIRECT & set(options):
            address = {name: options.pop(name) for name in ("base_url", "api_key")}
            options["client"] = lambda: AsyncOpenAI(**address, http_client=fast_http())
        async with OpenAIJudge("judge-2", **options) as judge:
            yield server, judge


def judge_of(server):
    address = {"base_url": str(server.make_url("/v1")), "api_key": "k"}
    if TRANSPORT["client"]:
        return OpenAIJudge("m", client=lambda: AsyncOpenAI(**address, http_client=fast_http()), retries=0)
    return OpenAIJudge("m", **address, retries=0)


@asynccontextmanager
async def judging_by(handler):
    """A judge that asks a bare handler."""
    app = web.Application()
    app.router.add_post("/v1/chat/completions", handler)
    async with TestServer(app) as server, judge_of(server) as judge:
        yield judge


async def ask(respond, prompt=PROMPT, times=1, *, logprobs=False, samples=1, **options):
    """Ask a judge on loopback; the verdict, or the last of several, and the server."""
    async with judging(respond, **options) as (server, judge):
        for _ in range(times):
            verdict = await judge.ask(prompt, REPLY, logprobs=logprobs, samples=samples)
        server.features = judge.capabilities
        return verdict, server


async def failing(respond, kind, **options):
    with pytest.raises(kind) as caught:
        await ask(respond, **options)
    return caught.value


def test_a_judge_outlives_its_event_loop():
    """Scripts call `asyncio.run` more than once with one judge; nothing is left open, for a warning would fail this."""

    async def serve(respond):
        app = web.Application()
        app.router.add_post("/v1/chat/completions", respond)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return runner

    async def respond(request):
        message = (await request.json())["messages"][-1]["content"]
        return web.json_response(completion(with_answer_key(message, rating(9))))

    with _Thread() as elsewhere:
        runner = elsewhere.run(serve(respond))
        judge = OpenAIJudge("m", base_url=f"http://127.0.0.1:{runner.addresses[0][1]}/v1", api_key="k")
        evaluator = GEval(name="good", evaluation_steps=["Look."], evaluation_params=["actual_output"])
        limited = Limited(judge, concurrency=1)
        assert [evaluate_sync(evaluator, a_turn(), judge).outcome.value for _ in range(2)] == [0.9, 0.9]
        cases = [a_turn(turn_id=str(number)) for number in range(3)]
        for _ in range(2):
            made = asyncio.run(evaluate_many([evaluator], cases, limited))
            assert [each.score for each in made] == [0.9] * 3
        elsewhere.run(runner.cleanup())
        gc.collect()


class _Thread:
    """An event loop in a thread of its own, for a server that tests without a loop ask."""

    def __enter__(self):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        return self

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    def __exit__(self, *_error):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def test_a_question_and_its_answer():
    verdict, server = await ask(lambda body, n: rating(7), input_price=2.0, output_price=10.0)
    assert (verdict.reply.score, verdict.model, verdict.fingerprint) == (7, "judge-2", "fp_1")
    assert (verdict.usage.input_tokens, verdict.usage.output_tokens, verdict.usage.calls) == (1000, 100, 1)
    assert verdict.cost_usd == pytest.approx(1000 * 2e-6 + 100 * 10e-6)
    body = server.requests[0]
    assert (body["model"], body["temperature"]) == ("judge-2", 0.0)
    assert body["messages"][0] == {"role": "system", "content": "You judge. Answer as JSON."}
    assert '{"actual_output":"the judged answer"}' in body["messages"][1]["content"]
    assert body["response_format"]["json_schema"]["schema"]["properties"]["score"]["maximum"] == 10
    assert "logprobs" not in body
    assert server.headers[0]["Authorization"] == "Bearer key"


async def test_the_fixed_part_is_the_same_from_call_to_call():
    _, server = await ask(lambda body, n: rating(), times=2)
    first, second = server.requests
    assert first["messages"] == second["messages"], "one question always reads the same"
    assert list(first) == list(second)


async def test_the_key_of_a_question_comes_last_and_nobody_else_can_make_it():
    async with serving(lambda body, n: rating()) as server:
        for output in ("Paris.", "Rome."):
            async with OpenAIJudge("m", base_url=server.base_url, api_key="k") as judge:
                for _ in range(2):
                    await judge.ask(Prompt("Judge.", {"actual_output": output}), Scale(0, 10).reply)
                await judge.ask(Prompt("Judge.", {"actual_output": output + "!"}), Scale(0, 10).reply)
    messages = [each["messages"][1]["content"] for each in server.requests]
    keys = [required_answer_key(each) for each in messages]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 4, "a key is that of one question and one judge"
    assert all(key in each[-250:] for key, each in zip(keys, messages, strict=True)), "behind what may be cached"
    forms = {orjson.dumps(each["response_format"]) for each in server.requests}
    assert len(forms) == 1, "the form names no key: endpoints compile each form once"


async def test_an_answer_without_the_key_is_sent_back_once():
    async with serving(lambda body, n: rating(9)) as server:
        server.obeys = False
        async with OpenAIJudge("m", base_url=server.base_url, api_key="k") as judge:
            with pytest.raises(JudgeReplyInvalid, match="answer_key"):
                await judge.ask(Prompt("Judge.", {"actual_output": "Paris."}), Scale(0, 10).reply)
    first, again = server.requests
    complaint = again["messages"][-1]["content"]
    assert required_answer_key(complaint) == required_answer_key(first["messages"][-1]["content"])


async def test_a_key_forgotten_at_first_is_no_failure():
    async with serving(lambda body, n: rating(9)) as server:
        server.obeys = False

        def respond(body, n):
            return rating(9) if n == 0 else with_answer_key(body["messages"][-1]["content"], rating(9))

        server.respond = respond
        async with OpenAIJudge("m", base_url=server.base_url, api_key="k") as judge:
            verdict = await judge.ask(Prompt("Judge.", {"actual_output": "Paris."}), Scale(0, 10).reply)
    assert (verdict.reply.score, verdict.usage.calls) == (9, 2)


async def test_a_judge_too_weak_to_repeat_a_key_is_not_asked_for_one():
    async with serving(lambda body, n: rating(9)) as server:
        server.obeys = False
        async with OpenAIJudge("m", base_url=server.base_url, api_key="k", answer_key=False) as judge:
            verdict = await judge.ask(Prompt("Judge.", {"actual_output": "Paris."}), Scale(0, 10).reply)
    assert verdict.reply.score == 9
    assert "answer_key" not in orjson.dumps(server.requests[0]).decode()


async def test_tokens_and_the_weighted_score():
    text = rating(8)
    head, tail = text.split("8")
    entries = [
        {"token": head, "logprob": 0.0, "top_logprobs": [{"token": head, "logprob": 0.0}]},
        {
            "token": "8",
            "logprob": math.log(0.6),
            "top_logprobs": [{"token": "8", "logprob": math.log(0.6)}, {"token": "7", "logprob": math.log(0.4)}],
        },
        {"token": tail, "logprob": 0.0, "top_logprobs": []},
    ]
    evaluator = GEval(name="g", evaluation_steps=["Look."], evaluation_params=["actual_output"])
    async with judging(lambda body, n: completion(text, logprobs={"content": entries})) as (server, judge):
        result = await evaluate(evaluator, a_turn(), judge, now=a_moment)
    assert (result.outcome.method, result.outcome.value) == ("logprobs", pytest.approx(0.76))
    assert (server.requests[0]["logprobs"], server.requests[0]["top_logprobs"]) == (True, 13)


async def test_options_reach_the_request():
    prompt = Prompt("Judge.", {"a": 1}, temperature=0.3, max_tokens=50)
    _, server = await ask(
        lambda body, n: rating(), prompt, headers={"x-team": "a"}, extra_body={"seed": 7, "reasoning_effort": "low"}
    )
    body = server.requests[0]
    assert (body["temperature"], body["max_tokens"], body["seed"], body["reasoning_effort"]) == (0.3, 50, 7, "low")
    assert server.headers[0]["x-team"] == "a"


async def test_cached_input_has_its_own_price():
    def respond(body, n):
        answer = completion(rating())
        answer["usage"]["prompt_tokens_details"] = {"cached_tokens": 900}
        return answer

    verdict, _ = await ask(respond, input_price=2.0, cached_input_price=0.5, output_price=10.0)
    assert verdict.cost_usd == pytest.approx((100 * 2 + 900 * 0.5 + 100 * 10) / 1e6)


# What an endpoint cannot do


def lacking(*words):
    """Refuses requests that hold any of the words, naming it."""

    def respond(body, n):
        for word in words:
            if word in str(body):
                return refusal(400, f"Unsupported value: {word} is not supported with this model", param=word)
        return rating()

    return respond


async def test_structured_output_is_learnt_once():
    verdict, server = await ask(lacking("json_schema"), times=3)
    assert verdict.reply.score == 7
    assert len(server.requests) == 4
    assert server.requests[-1]["response_format"] == {"type": "json_object"}


async def test_neither_kind_of_structured_output():
    _, server = await ask(lacking("json_schema", "json_object"), times=2)
    assert len(server.requests) == 4
    assert "response_format" not in server.requests[-1]


async def test_no_token_probabilities():
    _, server = await ask(lacking("logprobs"), times=2, logprobs=True)
    assert server.features.top_logprobs == 0
    assert "json_schema" in str(server.requests[-1])


async def test_fewer_alternatives():
    def respond(body, n):
        if body.get("top_logprobs", 0) > 5:
            return refusal(422, "top_logprobs must be less than or equal to 5")
        return rating()

    _, server = await ask(respond, times=2, logprobs=True)
    assert [body["top_logprobs"] for body in server.requests] == [13, 5, 5]


@pytest.mark.parametrize(
    ("scale", "configured", "asked"),
    [
        (Scale(0, 10), None, 13),
        (Scale(1, 8), None, 10),
        (Scale(0, 100), None, 20),
        (Scale(0, 10), 20, 20),
        (Scale(0, 10), 4, 4),
    ],
)
async def test_as_many_alternatives_as_the_form_has_use_for_unless_a_number_is_configured(scale, configured, asked):
    async with judging(lambda body, n: rating(), top_logprobs=configured) as (server, judge):
        await judge.ask(PROMPT, scale.reply, logprobs=True)
    assert server.requests[0]["top_logprobs"] == asked


async def test_the_other_name_of_the_length_limit():
    def respond(body, n):
        if "max_tokens" in body:
            return refusal(
                400, "'max_tokens' is not supported. Use 'max_completion_tokens' instead.", param="max_tokens"
            )
        return rating()

    _, server = await ask(respond, max_tokens=99)
    assert server.requests[-1]["max_completion_tokens"] == 99


async def test_a_key_that_is_refused_is_not_printed(caplog):
    """A short key, and one of letters alone, stood in the error and in the log. The keys of a client are its own."""
    key = "" if TRANSPORT["client"] else "abcd"
    said = f"Incorrect API key provided: {key}. The token 'wxyz' is unknown"
    async with judging(
        lambda body, n: refusal(401, said), api_key=key or "key", headers={"X-Token": "Bearer wxyz"}
    ) as (_, judge):
        with pytest.raises(JudgeDenied, match=r"The token '\[…\]' is unknown") as error:
            await judge.ask(PROMPT, REPLY)
    for text in (str(error.value), caplog.text):
        assert "Incorrect API key provided" in text
        assert "abcd" not in text
        assert "wxyz" not in text


async def test_the_value_of_a_header_that_is_to_be_corrected_is_printed():
    """The error named no version: "anthropic-version: […] is not a valid version"."""
    said = "anthropic-version: 2023-06-01 is not a valid version; the key of Cookie id=wxyz-7 is unknown"
    headers = {"anthropic-version": "2023-06-01", "Cookie": "id=wxyz-7", "x-portkey-api-key": "qrst-8-key"}
    async with judging(lambda body, n: refusal(400, f"{said} to qrst-8-key"), headers=headers) as (_, judge):
        with pytest.raises(JudgeRejected, match="version: 2023-06-01 is not a valid") as error:
            await judge.ask(PROMPT, REPLY)
    assert "wxyz" not in str(error.value)
    assert "qrst" not in str(error.value)


async def test_a_refusal_without_a_reason_is_probed():
    def respond(body, n):
        return refusal(400, "Bad request") if "response_format" in body or "logprobs" in body else rating()

    verdict, server = await ask(respond, times=2, logprobs=True)
    assert verdict.reply.score == 7
    assert (server.features.format, server.features.top_logprobs) == ("text", 0)


async def test_after_a_success_a_refusal_is_about_the_question():
    async with judging(lambda body, n: rating() if n == 0 else refusal(400, "too long")) as (server, judge):
        await judge.ask(PROMPT, REPLY)
        with pytest.raises(JudgeRejected):
            await judge.ask(PROMPT, REPLY)
        assert (len(server.requests), judge.capabilities.format) == (2, "json_schema")


async def test_where_nothing_helps_nothing_is_learnt():
    async with judging(lambda body, n: refusal(400, "no such thing")) as (_, judge):
        with pytest.raises(JudgeRejected):
            await judge.ask(PROMPT, REPLY, logprobs=True)
        assert (judge.capabilities.format, judge.capabilities.top_logprobs) == ("json_schema", 20)


async def test_questions_that_are_all_refused_at_once_each_get_the_refusal() -> None:
    """They undo each other's lessons: what one learnt, another that ends resets."""
    async with judging(lambda body, n: refusal(400, "no such thing")) as (_, judge):
        asked = await asyncio.gather(
            *(judge.ask(PROMPT, REPLY, logprobs=True) for _ in range(40)), return_exceptions=True
        )
    assert {type(each) for each in asked} == {JudgeRejected}


# Samples


async def test_samples_in_one_request():
    verdict, server = await ask(lambda body, n: completion(*[rating(k) for k in range(body["n"])]), samples=4)
    assert [answer.reply.score for answer in verdict.answers] == [0, 1, 2, 3]
    assert (len(server.requests), server.requests[0]["temperature"]) == (1, 1.0)


@pytest.mark.parametrize("how", ["ignores", "refuses"])
async def test_samples_in_several_requests(how):
    def respond(body, n):
        return refusal(400, "n > 1 is not supported") if how == "refuses" and "n" in body else rating(n)

    verdict, server = await ask(respond, samples=4, times=2)
    assert len(verdict.answers) == 4
    assert verdict.usage.calls == 4
    assert "n" not in server.requests[-1]


async def test_samples_that_do_not_parse_are_left_out():
    verdict, _ = await ask(lambda body, n: completion("prose", rating(4), rating(6)), samples=3)
    assert [answer.reply.score for answer in verdict.answers] == [4, 6]


# Failures


@pytest.mark.parametrize("status", [500, 502, 503, 529, 408, 409])
async def test_unavailable(status):
    error = await failing(lambda body, n: refusal(status, retry_after="3"), JudgeUnavailable)
    assert (error.type, error.retry_after) == ("judge_unavailable", 3.0)


async def test_rate_limited():
    error = await failing(lambda body, n: refusal(429, code="rate_limit", retry_after_ms="1500"), JudgeUnavailable)
    assert (error.type, error.retry_after) == ("judge_rate_limited", 1.5)
    assert "429 (rate_limit)" in str(error)


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_rejected(status):
    error = await failing(lambda body, n: refusal(status, "the judged answer is bad"), JudgeRejected)
    assert error.type == "judge_rejected"
    assert "judged answer" not in str(error)


@pytest.mark.parametrize(
    ("status", "code", "message", "remedy"),
    [
        (401, None, "the judged answer is bad", "key"),
        (403, None, "the judged answer is bad", "key"),
        (407, None, "", "key"),
        (402, None, "", "credit"),
        (429, "insufficient_quota", "", "credit"),
        (429, "billing_hard_limit_reached", "", "credit"),
        (400, None, "Your credit balance is too low", "credit"),
        (400, None, "API key not valid. Please pass a valid API key.", "key"),
        (404, "model_not_found", "", "model or address"),
        (404, None, "<html>", "model or address"),
        (405, None, "", "address"),
        (307, None, "", "address"),
    ],
)
async def test_denied_whatever_the_question(status, code, message, remedy):
    error = await failing(lambda body, n: refusal(status, message, code=code), JudgeDenied)
    assert (error.type, error.remedy) == ("judge_denied", remedy)
    assert "judged answer" not in str(error)


@pytest.mark.parametrize(
    ("status", "code", "message", "kind"),
    [
        (400, "context_length_exceeded", "", JudgeRejected),
        (403, "context_length_exceeded", "", JudgeRejected),
        (403, None, "your input was flagged", JudgeReplyInvalid),
        (404, "content_filter", "", JudgeReplyInvalid),
    ],
)
async def test_what_concerns_one_question_is_not_laid_to_the_endpoint(status, code, message, kind):
    error = await failing(lambda body, n: refusal(status, message, code=code), kind)
    assert not isinstance(error, ENDPOINT_ERRORS)


@pytest.mark.parametrize(
    ("inside", "kind", "type_"),
    [
        ({"message": "busy"}, NoCompletion, "judge_no_completion"),
        ({"message": "no", "code": 401}, JudgeDenied, "judge_denied"),
        ({"message": "no", "code": "insufficient_quota"}, JudgeDenied, "judge_denied"),
        ({"message": "later", "code": "429"}, JudgeUnavailable, "judge_rate_limited"),
        ({"message": "down", "status": 503}, JudgeUnavailable, "judge_unavailable"),
        ({"message": "long", "code": "context_length_exceeded"}, JudgeRejected, "judge_rejected"),
        ({"message": "no", "code": "content_filter"}, JudgeReplyInvalid, "judge_refused"),
    ],
)
async def test_an_error_inside_a_response_of_status_200_means_what_its_code_says(inside, kind, type_):
    error = await failing(lambda body, n: {"error": inside}, kind)
    assert error.type == type_


async def test_redirects_are_not_followed():
    async with serving(lambda body, n: rating()) as other:
        location = f"{other.base_url}/chat/completions"
        await failing(lambda body, n: web.Response(status=307, headers={"Location": location}), JudgeRejected)
        assert other.requests == []


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://127.0.0.1:9/v1", "connection refused"),
        ("http://localhost:9/v1", "connection refused"),
        ("http://nobody.invalid/v1", "its host's name cannot be looked up"),
    ],
)
async def test_nobody_there(url, why):
    async with OpenAIJudge("m", base_url=url, api_key="k") as judge:
        with pytest.raises(JudgeUnreachable) as caught:
            await judge.ask(PROMPT, REPLY)
    assert caught.value.type == "judge_unavailable"
    assert str(caught.value) == f"no connection to the judge: {why}"


async def test_no_tls_there():
    async with (
        serving(lambda body, n: rating()) as server,
        OpenAIJudge("m", base_url=server.base_url.replace("http:", "https:"), api_key="k") as judge,
    ):
        with pytest.raises(JudgeUnreachable, match="TLS failed"):
            await judge.ask(PROMPT, REPLY)


async def test_certificates_that_are_not_there(monkeypatch, tmp_path):
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    error = await failing(lambda body, n: rating(), JudgeUnavailable)
    assert str(error).startswith("no connection to the judge: ")
    assert str(error).endswith("No such file or directory")


async def test_many_first_questions_make_one_connection(monkeypatch):
    made = []
    TRANSPORT["client"] = False  # a client makes connections as it needs them

    class Counted(Connection):
        def __init__(self, *given):
            made.append(self)
            super().__init__(*given)

    monkeypatch.setattr("evaluators.judges.endpoint.Connection", Counted)
    async with judging(lambda body, n: rating()) as (server, judge):
        await asyncio.gather(*(judge.ask(PROMPT, REPLY) for _ in range(8)))
    assert (len(made), len(server.requests)) == (1, 8)


async def test_the_connection_breaks():
    async def half(request):
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"choices": ')
        request.transport.close()
        return response

    async with judging_by(half) as judge:
        with pytest.raises(JudgeUnavailable) as caught:
            await judge.ask(PROMPT, REPLY)
    assert caught.value.type == "judge_unavailable"


async def test_no_answer_in_time():
    async def never():
        await asyncio.Event().wait()

    error = await failing(lambda body, n: never(), JudgeUnavailable, timeout=0.05)
    assert error.type == "judge_timeout"


async def test_the_deadline_is_for_the_whole_question_and_what_was_paid_is_known():
    async def second_never(n):
        if n:
            await asyncio.Event().wait()
        return "prose"

    error = await failing(lambda body, n: second_never(n), JudgeUnavailable, timeout=1.5)
    assert (error.type, error.usage.calls, error.usage.input_tokens) == ("judge_timeout", 1, 1000)


# Answers that are none


@pytest.mark.parametrize(
    ("answer", "type_"),
    [
        ("just prose", "judge_reply_invalid"),
        ("", "judge_reply_invalid"),
        ('{"reason": "x", "score": 11}', "judge_reply_invalid"),
        ('{"reason": "x", "score": NaN}', "judge_reply_invalid"),
        ('{"reason": "x", "score": 5, "extra": 1}', "judge_reply_invalid"),
        ("x" * 2**20, "judge_reply_invalid"),
        (completion('{"reason": "cut', finish_reason="length"), "judge_reply_truncated"),
        (completion("", message={"content": None, "refusal": "I cannot"}), "judge_refused"),
        (completion("", finish_reason="content_filter"), "judge_refused"),
    ],
    ids=range(9),
)
async def test_no_verdict(answer, type_):
    error = await failing(lambda body, n: answer, JudgeReplyInvalid)
    assert error.type == type_


@pytest.mark.parametrize("body", [b"<html>", b"", b"[]", b'{"choices": []}', b'{"choices": [{"message": "\xff"}]}'])
async def test_no_completion(body):
    error = await failing(lambda _, n: body, NoCompletion)
    assert error.type == "judge_no_completion"


async def test_a_content_filter_that_refuses_the_question():
    error = await failing(lambda body, n: refusal(400, "filtered", code="content_filter"), JudgeReplyInvalid)
    assert error.type == "judge_refused"


async def test_a_response_without_end():
    async def endless(request):
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b" " * 2**20)
        except ConnectionError:
            pass
        return response

    async with judging_by(endless) as judge:
        with pytest.raises(NoCompletion, match="larger than"):
            await judge.ask(PROMPT, REPLY)


async def test_a_broken_answer_is_sent_back_once():
    verdict, server = await ask(lambda body, n: '{"reason": "x", "score": 70}' if n == 0 else rating(7))
    assert (verdict.reply.score, verdict.usage.calls) == (7, 2)
    roles = [message["role"] for message in server.requests[1]["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
    assert "must be less than or equal to 10" in server.requests[1]["messages"][-1]["content"]


async def test_a_huge_broken_answer_is_not_sent_back_whole():
    _, server = await ask(lambda body, n: "x" * 100_000 if n == 0 else rating(7))
    assert len(server.requests[1]["messages"][2]["content"]) < 3000


async def test_a_broken_answer_is_not_sent_back_twice():
    async with judging(lambda body, n: "prose", input_price=1, output_price=1) as (server, judge):
        with pytest.raises(JudgeReplyInvalid) as caught:
            await judge.ask(PROMPT, REPLY)
    assert len(server.requests) == 2
    assert (caught.value.usage.calls, caught.value.cost_usd) == (2, pytest.approx(2200 / 1e6))


async def test_what_was_cut_off_is_not_sent_back_but_asked_for_once_more():
    async with judging(lambda body, n: completion("{", finish_reason="length")) as (server, judge):
        with pytest.raises(JudgeReplyInvalid):
            await judge.ask(PROMPT, REPLY)
    assert [len(each["messages"]) for each in server.requests] == [2, 2]


async def test_a_large_body_comes_whole():
    async with serving(lambda _body, _n: completion("x" * 300_000)) as chat:
        connection = Connection(chat.base_url, "/chat/completions", {})
        try:
            response = await connection.post(orjson.dumps({"messages": [{"role": "user", "content": "Go."}]}))
        finally:
            await connection.aclose()
    assert len(response.content) > 300_000


async def test_a_connection_sends_headers_of_now_and_reads_what_is_compressed_all_the_same():
    seen = []

    async def answer(request):
        seen.append([(name.lower(), value) for name, value in request.headers.items()])
        response = web.Response(body=b'{"ok": true}')
        response.enable_compression(web.ContentCoding.gzip)
        return response

    app, keys = web.Application(), iter("12")
    app.router.add_post("/v1/judge", answer)
    async with TestServer(app) as server:
        url = str(server.make_url("/v1"))
        connection = Connection(
            url, "/judge", {"AUTHORIZATION": "old"}, None, None, lambda: {"Authorization": next(keys)}
        )
        try:
            bodies = [(await connection.post(b"{}")).content for _ in range(2)]
        finally:
            await connection.aclose()
    assert bodies == [b'{"ok": true}'] * 2
    assert [[value for name, value in each if name == "authorization"] for each in seen] == [["1"], ["2"]]
    assert ("content-type", "application/json") in seen[0]


@pytest.mark.parametrize("status", [408, 429, 500, 503])
async def test_a_passing_refusal_is_asked_again_by_default(status, monkeypatch):
    monkeypatch.setattr("evaluators.judges.endpoint.random", SimpleNamespace(uniform=lambda low, high: low))
    verdict, server = await ask(lambda body, n: rating(8) if n > 1 else refusal(status, Retry_After="0"), retries=2)
    assert (verdict.reply.score, len(server.requests)) == (8, 3)
    async with judging(lambda body, n: refusal(status, Retry_After="0"), retries=1) as (server, judge):
        with pytest.raises(JudgeUnavailable):
            await judge.ask(PROMPT, REPLY)
        assert len(server.requests) == 2


async def test_a_refusal_for_good_is_not_asked_again():
    async with judging(lambda body, n: refusal(401, "no"), retries=2) as (server, judge):
        with pytest.raises(JudgeDenied):
            await judge.ask(PROMPT, REPLY)
        assert len(server.requests) == 1
