"""`evalstream init`: a few questions, and a commented configuration that `check` finds valid."""

import math
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import NamedTuple

from collector.errors import ConfigError
from evaluators.prompts import fill


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


def answers_of(options: Mapping[str, str | None], ask: Callable[[str], str]) -> Mapping[str, str]:
    """The answers by the questions' names; `ask` gives those that are None."""
    return {name: _answer(question, options[name], ask) for name, question in QUESTIONS.items()}


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


def configuration(answers: Mapping[str, str]) -> str:
    """The configuration of answers by the questions' names, as YAML with comments.

    Raises:
        ConfigError: the answer about traces is neither `http` nor `kafka://host:port/topic`, or the sample is no share.
    """
    scores = answers["scores"]
    values = {
        **{key: _quoted(answers[key]) for key in ("judge", "base_url", "good")},
        "sample": f"{_share(answers['sample']):g}",
        "receive": _receive(answers["traces"]),
        "export": f"  otlp: {{endpoint: {_quoted(scores)}}}   # scores back into the same traces\n" if scores else "",
    }
    return fill(files("collector.commands").joinpath("init.yaml").read_text(encoding="utf-8"), values)


def _receive(traces: str) -> str:
    if traces == "http":
        return "  otlp_http: {port: 4318}                    # OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318\n"
    server, _, topic = traces.removeprefix("kafka://").partition("/")
    if not traces.startswith("kafka://") or not topic or ":" not in server:
        raise ConfigError(f"traces: {traces!r} is not a source of traces; write http or kafka://host:port/topic")
    return f"  kafka:\n    - bootstrap_servers: [{_quoted(server)}]\n      traces: [{_quoted(topic)}]\n"


def _quoted(text: str) -> str:
    """YAML's single-quoted form, which has no escapes but the quote itself; one line."""
    return "'" + " ".join(text.split()).replace("'", "''") + "'"
