"""`evalstream init`: a few questions, and a commented configuration that `check` finds valid."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from collector.errors import ConfigError

JUDGE_PRICES = "usd_per_million_input_tokens, usd_per_million_output_tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class InitAnswers:
    """The answers to `init`'s questions.

    `traces` is `http`, or Kafka brokers as `kafka://host:port/topic`. `sample` is the share of conversations that are
    evaluated, in (0, 1]. `scores` is an OTLP endpoint for scores, or "" for /metrics alone.
    """

    traces: str
    judge: str
    base_url: str
    good: str
    sample: float
    scores: str


class InitQuestion(NamedTuple):
    """A question and its default answer."""

    text: str
    default: str


QUESTIONS: Mapping[str, InitQuestion] = {
    "traces": InitQuestion("Where do traces come from? (http: they are sent here; or kafka://host:port/topic)", "http"),
    "judge": InitQuestion("Which model judges?", "gpt-4.1-mini"),
    "base_url": InitQuestion("Which OpenAI-compatible endpoint serves it?", "https://api.openai.com/v1"),
    "good": InitQuestion(
        "What is a good answer, in a sentence?",
        "Does the actual output answer what the input asks, completely and to the point?",
    ),
    "sample": InitQuestion(
        "Which share of conversations is evaluated? (0.1 is a tenth of them, for a tenth of the cost)", "0.1"
    ),
    "scores": InitQuestion(
        "Which OTLP endpoint gets scores, besides /metrics? (like http://host:4318; empty for none)", ""
    ),
}


def answers_of(options: Mapping[str, str | None], ask: Callable[[str], str]) -> InitAnswers:
    """The answers by the questions' names; `ask` gives those that are None.

    Raises:
        ConfigError: the sample is not a share.
    """
    answers = {name: _answer(question, options[name], ask) for name, question in QUESTIONS.items()}
    return InitAnswers(
        traces=answers["traces"],
        judge=answers["judge"],
        base_url=answers["base_url"],
        good=answers["good"],
        sample=_share(answers["sample"]),
        scores=answers["scores"],
    )


def _answer(question: InitQuestion, answer: str | None, ask: Callable[[str], str]) -> str:
    return answer if answer is not None else ask(f"{question.text} [{question.default}]") or question.default


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0.0 < share <= 1.0:
        raise ConfigError(f"sample: {text!r} is not a share; write a number above 0 and up to 1, like 0.1 for a tenth")
    return share


def configuration(answers: InitAnswers) -> str:
    """The configuration as YAML with comments.

    Raises:
        ConfigError: the answer about traces is neither `http` nor `kafka://host:port/topic`.
    """
    return f"""\
# What evalstream evaluates, and how. To see the plan: evalstream check

judges:
  main:
    model: {_quoted(answers.judge)}
    base_url: {_quoted(answers.base_url)}     # any OpenAI-compatible endpoint
    api_key: ${{env:OPENAI_API_KEY:-none}}      # from the environment; never write a key here
    # cost is counted by list prices; of a model that has none, or at other prices, write
    # {JUDGE_PRICES}

evaluators:
  good_answer:
    kind: g_eval                             # more kinds: deploy/docs/evaluators.md
    criteria: {_quoted(answers.good)}
    evaluation_params: [input, actual_output]
    threshold: 0.6                           # scores are 0..1; this or more passes

monitors:
  everything:
    sample: {answers.sample:g}                              # share of conversations, chosen by a hash of their id
    # match: {{service: my-app}}               # only turns of this service.name
    evaluators: [good_answer]
    # alerts: {{targets: {{good_answer: 0.8}}}}    # the mean to keep; later `evalstream plan targets` proposes it

receive:
{_receive(answers.traces)}
export:
  prometheus: {{port: 9464}}                   # /metrics
{_export(answers.scores)}
page: {{port: 8321}}                           # http://127.0.0.1:8321/
"""


def _receive(traces: str) -> str:
    if traces == "http":
        return "  otlp_http: {port: 4318}                    # OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318\n"
    server, _, topic = traces.removeprefix("kafka://").partition("/")
    if not traces.startswith("kafka://") or not topic or ":" not in server:
        raise ConfigError(f"traces: {traces!r} is not a source of traces; write http or kafka://host:port/topic")
    return f"  kafka:\n    - bootstrap_servers: [{_quoted(server)}]\n      traces: [{_quoted(topic)}]\n"


def _export(scores: str) -> str:
    return f"  otlp: {{endpoint: {_quoted(scores)}}}   # scores back into the same traces\n" if scores else ""


def _quoted(text: str) -> str:
    """YAML's single-quoted form, which has no escapes but the quote itself; one line."""
    return "'" + " ".join(text.split()).replace("'", "''") + "'"
