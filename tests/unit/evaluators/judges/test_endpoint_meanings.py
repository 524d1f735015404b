"""What endpoints answer, by server: refusals, ends and places of answers, frames. A new quirk is a row here."""

import orjson
import pytest

from evaluators.errors import JudgeDenied, JudgeRejected, JudgeReplyInvalid, JudgeUnavailable, NoCompletion
from evaluators.judges.answer_places import ending
from evaluators.judges.completions import completion_of
from evaluators.judges.error_mapping import HttpStatusError, meaning_of, retry_after, to_judge_error
from evaluators.judges.own_words import own_words


def refusal(status, body, headers=None):
    return HttpStatusError(status, headers or {}, body if isinstance(body, bytes) else orjson.dumps(body))


def error(message, **fields):
    return {"error": {"message": message, **fields}}


@pytest.mark.parametrize(
    ("server", "status", "body", "meaning"),
    [
        ("OpenAI", 403, error("You are not allowed to request logprobs from this model", type="invalid_request_error"), "unsupported"),
        ("OpenAI", 400, error("Unsupported parameter: 'max_tokens'", param="max_tokens", code="unsupported_parameter"), "unsupported"),
        ("OpenAI", 429, error("You exceeded your current quota", code="insufficient_quota"), "credit"),
        ("OpenAI", 429, error("Rate limit reached. Please try again in 320ms.", code="rate_limit_exceeded"), "rate limited"),
        ("OpenAI", 401, error("Incorrect API key provided: sk-ab***xyz", code="invalid_api_key"), "key"),
        ("Azure", 400, error("The response was filtered", code="content_filter"), "filtered"),
        ("Azure", 400, error("…", code="ResponsibleAIPolicyViolation"), "filtered"),
        ("Azure", 404, error("The API deployment does not exist", code="DeploymentNotFound"), "model or address"),
        ("Anthropic", 529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "transient"),
        ("Anthropic", 400, error("Your credit balance is too low", type="invalid_request_error"), "credit"),
        ("Anthropic", 400, error("prompt is too long: 210000 tokens > 200000 maximum", type="invalid_request_error"), "too long"),
        ("Bedrock", 400, {"message": "Too many tokens, please wait before trying again."}, "rate limited"),
        ("Bedrock", 400, error("Too many requests", type="ThrottlingException"), "rate limited"),
        ("Gemini", 429, [error("Quota. Please retry in 5.1s.", code=429, status="RESOURCE_EXHAUSTED")], "rate limited"),
        ("Gemini", 400, [error("API key not valid. Please pass a valid API key.", code=400, status="INVALID_ARGUMENT")], "key"),
        ("Gemini", 503, [error("The model is overloaded.", code=503, status="UNAVAILABLE")], "transient"),
        ("vLLM", 400, {"object": "error", "message": "Cannot request more than 5 logprobs.", "code": 400}, "unsupported"),
        ("vLLM", 400, {"object": "error", "message": "'max_tokens' is too large: 9000. This model's maximum context length is 8192"}, "too long"),
        ("vLLM", 400, {"object": "error", "message": "System role not supported", "type": "BadRequestError"}, "unsupported"),
        ("SGLang", 500, {"object": "error", "message": "Out of range float values", "code": 500}, "transient"),
        ("SGLang", 500, {"object": "error", "message": "Failed to compile grammar", "code": 500}, "unsupported"),
        ("llama.cpp", 400, error("the request exceeds the available context size", type="exceed_context_size_error", code=400), "too long"),
        ("llama.cpp", 501, error("This server does not support completions.", code=501), "unsupported"),
        ("Groq", 400, error("Failed to generate JSON", code="json_validate_failed"), "failed generation"),
        ("Groq", 498, error("Flex capacity exceeded"), "transient"),
        ("DashScope", 400, error("Input data may contain inappropriate content.", code="data_inspection_failed"), "filtered"),
        ("DashScope", 400, error("Access denied, your account is in arrears", code="Arrearage"), "credit"),
        ("DeepSeek", 400, error("Content Exists Risk", type="invalid_request_error", code="invalid_request_error"), "filtered"),
        ("DeepSeek", 402, error("Insufficient Balance"), "credit"),
        ("Zhipu", 400, error("系统检测到输入或生成内容可能包含不安全或敏感内容", code="1301"), "filtered"),
        ("Zhipu", 429, error("余额不足", code="1113"), "credit"),
        ("Moonshot", 400, error("The request was rejected because it was considered high risk", type="content_filter"), "filtered"),
        ("xAI", 403, error("Content violates usage guidelines."), "filtered"),
        ("OpenRouter", 404, error("No endpoints found that can handle the requested parameters.", code=404), "unsupported"),
        ("OpenRouter", 404, error("No endpoints found for nosuch/model.", code=404), "model or address"),
        ("OpenRouter", 403, error("Your chosen model requires moderation and your input was flagged", code=403), "filtered"),
        ("Mistral", 422, {"detail": [{"loc": ["body", "logprobs"], "msg": "Extra inputs are not permitted", "input": True}]}, "unsupported"),
        ("LiteLLM", 400, error("Budget has been exceeded!", type="budget_exceeded"), "credit"),
        ("Cloudflare", 424, error("failed dependency"), "transient"),
        ("Hugging Face", 424, error("upstream failed"), "transient"),
        ("a proxy", 302, b"", "address"),
        ("a proxy", 502, b"<html>Bad Gateway</html>", "transient"),
    ],
)  # fmt: skip
def test_refusals_by_server(server, status, body, meaning):
    assert meaning_of(refusal(status, body)) == meaning, server


@pytest.mark.parametrize(
    ("meaning", "kind"),
    [
        (refusal(400, error("Content Exists Risk")), JudgeReplyInvalid),
        (refusal(400, error("prompt is too long")), JudgeRejected),
        (refusal(402, error("no")), JudgeDenied),
        (refusal(498, error("no")), JudgeUnavailable),
        (refusal(400, error("no")), JudgeRejected),
        (refusal(200, error("odd")), NoCompletion),
    ],
)
def test_each_meaning_has_its_error(meaning, kind):
    assert type(to_judge_error(meaning)) is kind


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ([{"error": {"message": "Quota", "details": [{"@type": "RetryInfo", "retryDelay": "5.1s"}]}}], 5.1),
        (error("Please try again in 5.32s."), 5.32),
        (error("Please try again in 320ms."), 0.32),
        (error("Please try again in 6m0s."), 360.0),
        (error("Please retry after 20 seconds"), 20.0),
        (error("Retry in 2 minutes"), 120.0),
        (error("Try again in 1h"), 3600.0),
        (error("Limit: 30 requests"), None),
    ],
)
def test_waits_in_the_body(body, seconds):
    assert retry_after(refusal(429, body)) == (pytest.approx(seconds) if seconds else None)


@pytest.mark.parametrize(
    ("reason", "meaning"),
    [
        *[(name, "length") for name in ("length", "MAX_TOKENS", "max_tokens", "model_length", "FinishReason.MAX_TOKENS", "maxTokens")],
        *[(name, "filtered") for name in ("content_filter", "content_filter: PROHIBITED_CONTENT", "SAFETY", "RECITATION", "content-filter", "sensitive")],
        *[(name, "failed") for name in ("error", "network_error", "insufficient_system_resource")],
        *[(name, None) for name in ("stop", "tool_calls", "end_turn", "eos", None, 3, "")],
    ],
)  # fmt: skip
def test_why_an_answer_ended_however_it_is_spelt(reason, meaning):
    assert ending(reason) == meaning


ANSWER = '{"answer_key": "0a1b2c3d", "reason": "so", "score": 8}'


@pytest.mark.parametrize(
    "message",
    [
        {"content": ANSWER},
        {"content": {"answer_key": "0a1b2c3d", "reason": "so", "score": 8}},
        {"content": [{"type": "output_text", "text": ANSWER}]},
        {"content": [{"text": ANSWER}]},
        {"content": [ANSWER]},
        {"content": [{"type": "thinking", "text": '{"score": 1}'}, {"type": "text", "text": ANSWER}]},
        {"content": None, "reasoning_content": ANSWER},
        {"content": "\n\n", "reasoning": "I think so. " + ANSWER},
        {"content": None, "tool_calls": [{"function": {"name": "json", "arguments": ANSWER}}]},
        {"content": "", "tool_calls": [{"function": {"arguments": orjson.loads(ANSWER)}}]},
        {"content": None, "function_call": {"name": "json", "arguments": ANSWER}},
        {"parsed": orjson.loads(ANSWER)},
    ],
)
def test_places_of_an_answer(message):
    choice = completion_of(orjson.dumps({"choices": [{"message": message}]})).choices[0]
    assert orjson.loads(choice.text[choice.text.index("{") :]) == orjson.loads(ANSWER)


def test_thoughts_without_the_key_are_no_answer():
    body = {"choices": [{"message": {"content": None, "reasoning_content": '{"score": 1}'}}]}
    assert completion_of(orjson.dumps(body)).choices[0].text == ""


WHOLE = orjson.dumps({"model": "m", "choices": [{"message": {"content": ANSWER}}], "usage": {"prompt_tokens": 5}})
CHUNKS = [
    {"model": "m", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ANSWER[:20]}}]},
    {"choices": [{"index": 0, "delta": {"content": ANSWER[20:]}, "finish_reason": "length"}]},
    {"choices": [], "usage": {"prompt_tokens": 5}},
]


@pytest.mark.parametrize(
    "body",
    [
        b"\xef\xbb\xbf" + WHOLE,
        WHOLE + b"\n\ndata: [DONE]\n\n",
        b"data: " + WHOLE + b"\n\n",
        b": keep-alive\n\n: keep-alive\n\ndata: " + WHOLE + b"\n\ndata: [DONE]\n",
        b"".join(b"data: " + orjson.dumps(chunk) + b"\r\n\r\n" for chunk in CHUNKS) + b"data: [DONE]\n\n",
        b"event: chunk\n" + b"\n".join(b"data:" + orjson.dumps(chunk) for chunk in CHUNKS),
        orjson.dumps({"result": orjson.loads(WHOLE), "success": True}),
    ],
)
def test_frames_of_an_answer(body):
    completion = completion_of(body)
    assert (completion.choices[0].text, completion.usage.input_tokens) == (ANSWER, 5)


def test_numbers_that_are_none_cost_their_alternative_alone():
    logprobs = (
        '{"content": [{"token": "NaN", "logprob": -0.1, "top_logprobs": [{"token": "8", "logprob": -0.1}, '
        '{"token": "9", "logprob": -Infinity}, {"token": "7", "logprob": NaN}]}]}'
    )
    body = '{"choices": [{"message": {"content": "-Infinity, \\"NaN\\""}, "logprobs": %s}]}'.replace("%s", logprobs)
    choice = completion_of(body.encode()).choices[0]
    assert choice.text == '-Infinity, "NaN"'
    assert choice.tokens[0].alternatives == (("8", -0.1), ("9", -9999.0), ("7", -9999.0))
    assert choice.tokens[0].text == "NaN"


@pytest.mark.parametrize(
    ("choice", "meaning"),
    [
        ({"error": {"message": "Provider returned error", "code": 502}, "finish_reason": "error"}, "transient"),
        ({"error": {"code": 429}}, "rate limited"),
        ({"finish_reason": "error", "message": {"content": "half"}}, "transient"),
    ],
)
def test_an_error_inside_a_choice(choice, meaning):
    with pytest.raises(HttpStatusError) as caught:
        completion_of(orjson.dumps({"choices": [choice]}))
    assert meaning_of(caught.value) == meaning
    good = {"message": {"content": ANSWER}}
    assert [kept.text for kept in completion_of(orjson.dumps({"choices": [choice, good]})).choices] == [ANSWER]


QUESTION = 'The user wrote: {"input": "My card 4711 0815 is blocked, says Jane Doe.\\nCredit balance logprobs"}'


@pytest.mark.parametrize(
    ("spoken", "words"),
    [
        ("enable_thinking must be set to false for non-streaming calls",) * 2,
        ("wrong: my card 4711 0815 is blocked, says Jane Doe", "wrong: […]"),
        ("value 'Jane Doe' is not allowed", "value […] is not allowed"),
        ("blocked by policy for Jane", "blocked by policy for […]"),
        ("Incorrect API key provided: sk-abc***wxyz.", "Incorrect API key provided: […]"),
        ("rejected: \\u004dy card 4711\\n0815", "rejected: […]"),
        ("<html>" + "x" * 500, None),
    ],
)
def test_an_endpoints_own_words_without_the_questions(spoken, words):
    message = str(to_judge_error(refusal(400, error(spoken)), QUESTION))
    if words is not None:
        assert message == f"the judge answered HTTP 400: {words}"
    assert len(message) < 300


@pytest.mark.parametrize(
    ("key", "spoken", "words"),
    [
        ("good", "Incorrect API key provided: good. A good key is longer", "Incorrect API key provided: […]. A good key is longer"),
        ("good", "the token 'good' has expired", "the token '[…]' has expired"),
        ("good", "Bearer good is unknown; no good goods", "Bearer […] is unknown; no good goods"),
        ("team-key-7", "no access for team-key-7", "no access for […]"),
        ("a/b+c7/=", "no access for a/b+c7/=", "no access for […]"),
        ("...", "Bearer ... is unknown", "Bearer ... is unknown"),
        ("r2", "model r2 is unknown to key r2", "model r2 is unknown to key […]"),
        ("", "no key: . No key", "no key: . No key"),
    ],
)  # fmt: skip
def test_a_key_that_an_endpoint_quotes_is_left_out(key, spoken, words):
    """Keys were known by their form alone: a key of four letters was printed."""
    assert own_words(spoken, QUESTION, [key]) == words


def test_quoted_text_means_nothing():
    quoting = error("invalid message: Credit balance logprobs, says the user")
    asked = "Is it true? Credit balance logprobs, says the user"
    assert meaning_of(refusal(400, quoting)) == "credit"
    assert meaning_of(refusal(400, quoting), asked) == "unsupported"
    assert "balance" not in own_words(quoting["error"]["message"], asked)


def test_a_short_word_that_stands_within_one_of_the_question_is_no_quote():
    assert own_words("Incorrect API key provided", "Which capital is rapidly growing?") == "Incorrect API key provided"
    assert own_words("no such user: Schmid", "Call Schmidt") == "no such user: […]"
    assert own_words("ID is API", "Is the API up?") == "ID is […]"


def test_a_sentences_first_word_is_no_quote_where_the_question_writes_it_small():
    """A server's "The server had an error" arrived as "[…] server had an error"."""
    question = "The judge reads the answer of Anna. Does the error go to anna?"
    assert (
        own_words("The server had an error. The cause is unknown", question)
        == "The server had an error. The cause is unknown"
    )
    assert own_words("HTTP: Error", question) == "HTTP: Error"
    assert own_words("unknown user Anna", question) == "unknown user […]", "within a sentence a capital is a name's"
    assert own_words("Anna is unknown", "Call Anna") == "[…] is unknown"
    assert own_words("ANSWER", question) == "[…]"
