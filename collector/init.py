"""`evalstream init`: a few questions, and a commented configuration that `check` calls right."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from collector.errors import ConfigError

JUDGE_PRICES = "usd_per_million_input_tokens, usd_per_million_output_tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What `init` asks.

    `traces` is `http`, or Kafka brokers as `kafka://host:port/topic`. `sample` is the share of conversations judged:
    what it may cost. `scores` is where scores go besides /metrics: an OTLP endpoint, or "" for nowhere.
    """

    traces: str
    judge: str
    base_url: str
    good: str
    sample: float
    scores: str


class Question(NamedTuple):
    """A question, and the answer that stands where none is given."""

    text: str
    default: str


QUESTIONS: Mapping[str, Question] = {
    "traces": Question("Where are the traces? (http: they will be sent here; or kafka://host:port/topic)", "http"),
    "judge": Question("Which model judges?", "gpt-4.1-mini"),
    "base_url": Question("At which OpenAI-compatible endpoint?", "https://api.openai.com/v1"),
    "good": Question(
        "What is a good answer, in a sentence?",
        "Does the actual output answer what the input asks, completely and to the point?",
    ),
    "sample": Question(
        "Which share of the conversations may be judged? (0.1 is a tenth, and a tenth of the cost)", "0.1"
    ),
    "scores": Question(
        "Where do scores go besides /metrics? (an OTLP endpoint like http://host:4318; empty for nowhere)", ""
    ),
}


def answers_of(given: Mapping[str, str | None], ask: Callable[[str], str]) -> Answers:
    """The answers that are given by the questions' names; where one is None, what is asked for.

    Raises:
        ConfigError: the sample is no share.
    """
    said = {name: _answer(each, given[name], ask) for name, each in QUESTIONS.items()}
    return Answers(
        traces=said["traces"],
        judge=said["judge"],
        base_url=said["base_url"],
        good=said["good"],
        sample=_share(said["sample"]),
        scores=said["scores"],
    )


def _answer(question: Question, given: str | None, ask: Callable[[str], str]) -> str:
    return given if given is not None else ask(f"{question.text} [{question.default}]") or question.default


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0.0 < share <= 1.0:
        raise ConfigError(f"sample: {text!r} is no share; write a number above 0 up to 1, like 0.1 for a tenth")
    return share


def configuration(answers: Answers) -> str:
    """The configuration as YAML with comments.

    Raises:
        ConfigError: the answer about traces is neither `http` nor `kafka://host:port/topic`.
    """
    return f"""\
# What evalstream watches and how it judges. See what it means: evalstream check

judges:
  main:
    model: {_quoted(answers.judge)}
    base_url: {_quoted(answers.base_url)}     # any OpenAI-compatible endpoint
    api_key: ${{env:OPENAI_API_KEY:-none}}      # from the environment; never write a key here
    # {JUDGE_PRICES}: with these, cost is counted

evaluators:
  good_answer:
    kind: g_eval                             # more kinds: README, "Evaluators"
    criteria: {_quoted(answers.good)}
    evaluation_params: [input, actual_output]
    threshold: 0.6                           # scores are 0..1; at or above it passes

monitors:
  everything:
    sample: {answers.sample:g}                              # share of conversations, chosen by a hash of their id
    # match: {{service: my-app}}               # only turns of this service.name
    evaluators: [good_answer]

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
        raise ConfigError(f"traces: {traces!r} is no place for traces; write http, or kafka://host:port/topic")
    return f"  kafka:\n    - bootstrap_servers: [{_quoted(server)}]\n      traces: [{_quoted(topic)}]\n"


def _export(scores: str) -> str:
    return f"  otlp: {{endpoint: {_quoted(scores)}}}   # scores back into the same traces\n" if scores else ""


def _quoted(text: str) -> str:
    """YAML's single-quoted form, which has no escapes but the quote itself; one line."""
    return "'" + " ".join(text.split()).replace("'", "''") + "'"
