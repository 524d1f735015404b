"""The meanings of endpoints' answers: one row for each quirk of a server, read by `error_mapping.py` alone.

A refusal is looked up by its code, then by its words, then by its status. To add a server, add rows here and a recorded
answer to the tests.
"""

import re
from collections.abc import Container, Mapping
from typing import Literal, TypeAlias

Meaning: TypeAlias = Literal[
    "filtered", "too long", "failed generation", "rate limited", "transient", "unsupported",
    "key", "credit", "model or address", "address",
]  # fmt: skip
"""`filtered`, `too long` and `failed generation` concern one question; `rate limited` and `transient` may pass.
`unsupported` may concern a feature that the request uses; the others need an operator.
"""

STATUSES: Mapping[int, Meaning] = {
    **dict.fromkeys(range(300, 400), "address"),
    **dict.fromkeys((408, 409, 420, 424, 425, 430, 460, 498, 499), "transient"),
    **dict.fromkeys(range(500, 600), "transient"),
    400: "unsupported", 422: "unsupported", 501: "unsupported",
    401: "key", 402: "credit", 403: "key", 404: "model or address", 405: "address", 407: "key",
    410: "model or address", 413: "too long", 414: "too long", 429: "rate limited", 451: "filtered",
}  # fmt: skip

_CODES: tuple[tuple[Meaning, str], ...] = (
    # OpenAI, Azure; DashScope; Zhipu (1301), MiniMax (1026, 1027)
    ("filtered", "content_filter content_policy_violation responsibleaipolicyviolation"),
    ("filtered", "data_inspection_failed datainspectionfailed 1301 1026 1027"),
    # OpenAI; Anthropic
    ("too long", "context_length_exceeded string_above_max_length request_too_large"),
    # Groq
    ("failed generation", "json_validate_failed"),
    # OpenAI, Bedrock, Gemini, DashScope, Zhipu (1302)
    ("rate limited", "rate_limit_exceeded throttlingexception resource_exhausted throttling.allocationquota 1302"),
    # Anthropic, Bedrock, Gemini
    ("transient", "overloaded_error modeltimeoutexception unavailable"),
    # OpenAI; Anthropic, LiteLLM, DashScope, Zhipu (1113)
    ("credit", "insufficient_quota billing_hard_limit_reached billing_not_active"),
    ("credit", "billing_error budget_exceeded arrearage 1113"),
    # OpenAI, Anthropic, Gemini
    ("key", "invalid_api_key authentication_error permission_error permission_denied"),
    # OpenAI, also of decisions; Azure, Groq
    ("model or address", "model_not_found not_supported_error deploymentnotfound model_decommissioned"),
)
CODES: Mapping[str, Meaning] = {code: meaning for meaning, codes in _CODES for code in codes.split()}
"""The meaning of an error's own short name, in lower case."""

_CLIENT = range(400, 500)
_WORDED = (200, 400)
_ROWS: tuple[tuple[str, Container[int], Meaning], ...] = (
    # a filter: DeepSeek, DashScope, xAI, Bedrock, Gemini, moderations of routers
    (r"content exists risk|data_?inspection|inappropriate content|usage guidelines|guardrail", _CLIENT, "filtered"),
    (r"moderation|flagged|content[ _]?(policy|filter|management)|prohibited_content|safety", (403,), "filtered"),
    (r"content[ _](policy|filter|management)|prohibited_content|high risk|不安全或敏感", _CLIENT, "filtered"),
    # this question alone: vLLM, llama.cpp, SGLang, Anthropic, Gemini
    (r"context (length|window|size)|maximum context|input token count|(prompt|input|request) (is )?too (long|large)",
     (400, 413, 422, 500), "too long"),
    (r"failed to (generate|validate) json|does not match the expected schema", (400, 422), "failed generation"),
    # for now: Bedrock and gateways also throttle with other statuses
    (r"throttl|too many (requests|tokens)|rate.?limit|try again (later|in)|wait before|at capacity|overloaded",
     (200, 400, 403, 404, 422), "rate limited"),
    # faults that an operator has to mend
    (r"credit balance|insufficient (balance|credit|quota)|out of credit", (200, 400, 403, 429), "credit"),
    (r"api key not valid|api_key_invalid|invalid api key", _WORDED, "key"),
    (r"not a valid model|invalid model|model identifier is invalid|model .{0,80}does not exist", _WORDED,
     "model or address"),
    # a feature, by another status than 400: Azure and OpenAI (403), OpenRouter (404), SGLang (500)
    ((r"log_?probs|requested parameters|response_format|json_schema|structured output|tool_choice|grammar|max_"
     r"(completion_)?tokens|temperature"), (403, 404, 405, 415, 500), "unsupported"),
)  # fmt: skip
WORDS: tuple[tuple[re.Pattern[str], Container[int], Meaning], ...] = tuple(
    (re.compile(pattern), statuses, meaning) for pattern, statuses, meaning in _ROWS
)
"""Words of a refusal, in lower case, and the statuses with which they have this meaning."""

FEATURES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (feature, re.compile(pattern))
    for feature, pattern in (
        ("limit", r"max_(completion_)?tokens"),
        ("top_logprobs", r"top_logprobs|more than \d+ log_?probs|log_?probs.{0,60}(at most|maximum|less than|between)"),
        ("logprobs", r"log_?probs"),
        ("system", (r"roles? must alternate|(\bsystem\b|\bdeveloper\b).{0,40}\b(roles?|messages?|instructions?)\b"
                   r"|\brole\b.{0,60}\bsystem\b")),
        ("format", (r"response_format|json_schema|json_object|structured|schema|grammar|guided|output_config"
                   r"|output_format|tool_choice|text\.format")),
        ("temperature", r"temperature"),
        ("multiple_choices", r"(^|[\s'\"`])n([\s'\"`=,.:]|$)|best_of|multiple (choices|completions)"),
    )
)  # fmt: skip
"""The features that a refusal may complain of, with its words, in lower case; the first counts."""
BOUNDS = re.compile(r"maxlength|maxitems|minitems|repetition")
"""Words of a refusal of schemas that bound texts and lists."""

CUT_OFF = frozenset(
    {"length", "maxtokens", "modellength", "maxoutputtokens", "maxlength", "tokenlimit", "modelcontextwindowexceeded"}
)
FILTERED = frozenset(
    {"contentfilter", "contentfiltered", "safety", "recitation", "prohibitedcontent", "blocklist", "spii", "refusal",
     "sensitive", "guardrailintervened", "moderation", "flagged", "imagesafety"}
)  # fmt: skip
FAILED = frozenset(
    {"error", "networkerror", "insufficientsystemresource", "abort", "aborted", "malformedfunctioncall", "systemerror"}
)
"""Reasons why an answer ended, without `_` and in lower case: at its length limit, by a filter, by a fault."""

THOUGHTS = ("thinking", "reasoning", "redacted_thinking", "thought", "reasoning_text", "summary_text")
"""Types of an answer's parts that are not the answer."""
REASONING = ("reasoning_content", "reasoning")
"""Places in a message where servers with a parser of reasoning leave an answer."""

WAIT_HEADERS: Mapping[str, float] = {"retry-after-ms": 0.001, "x-ms-retry-after-ms": 0.001, "retry-after": 1.0}
"""Headers that name a wait, and the seconds of their unit."""
REMAINING_HEADER = "x-ratelimit-remaining"
"""The header that says how much of a limit is left."""
RESET_HEADER = "x-ratelimit-reset"
"""The header that says in how many seconds the limit is full again; waited for if nothing is left."""
WAIT_WORDS = re.compile(
    r"(?:try again|retry|retrydelay|wait|reset)[^.\d]{0,40}?"
    r"((?:\d{1,9}(?:\.\d{1,9})?\s?(?:ms|millis\w*|s|secs?|seconds?|m|mins?|minutes?|h|hours?|d|days?)\b\s?){1,9}"
    r"|(?:\d{1,9}(?:\.\d{1,9})?(?:ms|[smhd])){1,9})"
)
