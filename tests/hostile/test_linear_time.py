"""No text makes a pattern, or what is built on patterns, slow: CPU per character does not grow with the text."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from typing import Any

import orjson
import pattern_index as index
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from time_of_growth import LONG, PIECES, SHORT, grow, measure, seconds, texts_for

from collector.assemble.rag_prompt import mentions_context, split_prompt
from collector.dialects import decode
from collector.dialects.dialect import Dialect
from collector.dialects.free_form import parse_answer, parse_question
from collector.dialects.messages import parse_messages, parse_tool_calls
from collector.dialects.parts import parse_arguments
from collector.dialects.registry import Dialects
from collector.otlp.decode import outlined
from collector.otlp.span import Span, SpanEvent
from collector.redact.otlp_request import RequestRedaction
from collector.redact.patterns import configured, find
from collector.redact.redactor import Redactor
from evaluators.answers.expected_score import find_value_span
from evaluators.answers.quote_check import contains_quote, unsupported_quotes
from evaluators.answers.reply_parser import find_object
from evaluators.answers.trivial_answer import is_trivial_answer
from evaluators.asking.prompt_isolation import wrap_untrusted
from evaluators.asking.transcript import TranscriptSettings, build_transcript
from evaluators.attacks.attack_detection import detect_attack
from evaluators.attacks.injection_detection import detect
from evaluators.attacks.verdict_echo import is_echo
from evaluators.cases import Conversation, ToolCall, Turn
from evaluators.errors import EvaluationError
from evaluators.mechanisms.citations import cited_sources, cited_statements, find_citations
from evaluators.texts.linear_regex import matches
from evaluators.texts.paths import parse_json_or_text
from evaluators.turn.plan_adherence import find_plan

EVERYTHING = bool(os.environ.get("GROWTH_EVERYTHING"))
"""Whether every text is grown to the full length, and not only those that cost most when short: `make fuzz`."""
SAMPLES = 40 if EVERYTHING else 6
WORST = 1000 if EVERYTHING else 2
WORST_OF_READER = 8 if EVERYTHING else 2
"""A reader is tried with each of its attributes by itself then, so fewer texts of each suffice."""


def test_no_pattern_is_forgotten():
    compiled = index.compiled()
    fewer = {name: count for name, count in index.uses_in_modules().items() if len(compiled[name]) < count}
    assert not fewer, "patterns that no name, mapping, tuple or object of their module holds"
    assert not index.imports_by_name(), "write re.compile(…), so that it is seen"
    assert not index.backtracking_engines()
    assert index.uses_in_functions() == set(index.IN_FUNCTIONS), "compile patterns where the module is imported"


def patterns() -> dict[str, re.Pattern[Any]]:
    named = {f"{module}:{name}": pattern for module, each in index.compiled().items() for name, pattern in each.items()}
    for where, sources in index.IN_FUNCTIONS.items():
        named |= {f"{where}[{at}]": re.compile(source) for at, source in enumerate(sources)}
    unique = {(each.pattern, each.flags): name for name, each in reversed(named.items())}
    return {name: named[name] for name in sorted(unique.values())}


OURS = {
    "collector.config.yaml_file:_REFERENCE[0]",
    "collector.config.yaml_file:_AT_KEY[0]",
    "collector.demo.judge:_FENCE[0]",
}
"""Patterns over texts that no stranger writes: the operator's own file, the prompts of the demo's own judge."""
PATTERNS = {name: pattern for name, pattern in patterns().items() if name not in OURS}


def use(name: str) -> Callable[[str], None]:
    """What the code does with a pattern: searches, or looks at the beginning of a text alone."""
    pattern = PATTERNS[name]
    module, _, variable = name.partition("[")[0].partition(":")
    methods = index.FUNCTIONS if "/" in module else index.methods_of(module, variable)
    is_bytes = isinstance(pattern.pattern, bytes)

    def work(text: str) -> None:
        subject: Any = text.encode("utf-8", "replace") if is_bytes else text
        if "match" in methods:
            pattern.match(subject)
        if "fullmatch" in methods:
            pattern.fullmatch(subject)
        if methods - {"match", "fullmatch"}:
            for _ in pattern.finditer(subject):
                pass

    return work


LOOKS = (SHORT // 4, SHORT) if EVERYTHING else (SHORT // 8, SHORT // 2)
"""Characters of the two short texts by which the worst ones are chosen: most of the time goes there."""


def _cost(work: Callable[[str], object], text: str) -> float:
    return seconds(lambda: work(text)) / len(text)


def worst(work: Callable[[str], object], texts: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """The texts that cost most per character when they are short."""
    costs, steep = ({each: _cost(work, grow(each, length)) for each in texts} for length in LOOKS)
    by_cost = sorted(texts, key=lambda each: -steep[each])
    by_growth = sorted(texts, key=lambda each: -steep[each] / (costs[each] + 1e-8))
    return list(dict.fromkeys((*by_cost[:WORST], *by_growth[:WORST])))


@pytest.mark.timeout(400)
@pytest.mark.parametrize("longest", [LONG // 10, pytest.param(LONG, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", PATTERNS)
def test_patterns(name, longest):
    pattern = PATTERNS[name]
    work = use(name)
    texts = texts_for(pattern, SAMPLES) + [("", piece, "\x01") for piece in PIECES]
    for text in worst(work, texts):
        growth = measure(work, text, longest)
        assert growth.is_linear, f"{text}: {growth.short * 1e6:.3f} us per character, later {growth.long * 1e6:.3f}"


def quietly(work: Callable[[str], object]) -> Callable[[str], None]:
    """A function that may say that a text is not what it reads."""

    def quiet(text: str) -> None:
        with suppress(ValueError, EvaluationError):
            work(text)

    return quiet


def request_of(text: str) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(name=text)
    span.attributes.add(key="input.value").value.string_value = text
    span.events.add(name="said").attributes.add(key=text).value.bytes_value = text.encode("utf-8", "replace")
    return request


def request_of_many(text: str) -> ExportTraceServiceRequest:
    """A span with an attribute for each forty characters."""
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add()
    for start in range(0, len(text), 40):
        span.attributes.add(key=f"a.{start}").value.string_value = text[start : start + 40]
    return request


REDACTOR = Redactor((find,), b"a key")
OWN = configured({"X": r"\bE\d{6}\b|(\w+\s?){3,}!"})
FUNCTIONS: dict[str, Callable[[str], object]] = {
    "a document": decode.parse_document,
    "JSON": decode.decode_json,
    "a repr": decode.parse_repr,
    "printed fields": lambda text: decode.parse_printed_fields(f"role='user' parts=[{text}"),
    "messages": parse_messages,
    "a message": lambda text: parse_messages([{"role": "user", "content": text}]),
    "tool calls": parse_tool_calls,
    "arguments": parse_arguments,
    "a question": parse_question,
    "an answer": parse_answer,
    "a prompt": lambda text: (split_prompt(text, ["what?", text[-1000:]]), mentions_context(text)),
    "redaction": REDACTOR.text,
    "redaction of a secret": lambda text: REDACTOR.named("api_key", text),
    "redaction of JSON": lambda text: REDACTOR.text(orjson.dumps({"a": text, "b": [text]}).decode()),
    "redaction of a request": lambda text: RequestRedaction(REDACTOR).redact(outlined(request_of(text))),
    "redaction of many texts": lambda text: RequestRedaction(REDACTOR).redact(outlined(request_of_many(text))),
    "a pattern of one's own": lambda text: list(OWN(text)),
    "signs of injection": lambda text: detect({"a": text}),
    "signs of an attack": lambda text: detect_attack(text, by_user=False),
    "citations": find_citations,
    "statements that cite": cited_statements,
    "sources that can be cited": lambda text: cited_sources(Turn(retrieval_context=(text,), input=text)),
    "a plan": lambda text: find_plan([ToolCall(name="plan", arguments={"plan": text})]),
    "an echo": lambda text: is_echo({"reason": "as good as can be", "score": 1}, {"a": "as good can be" + text}),
    "an echo of a piece": lambda text: is_echo({"reason": text[:20], "score": 1}, {"a": text}),
    "an echo of the whole": lambda text: is_echo({"reason": text, "score": 1}, {"a": text}),
    "isolation": lambda text: wrap_untrusted({"a": text, "b": [text]}),
    "quotes": lambda text: unsupported_quotes(text, [{"a": "other words"}]),
    "a quote": lambda text: contains_quote(text, text),
    "a reply": find_object,
    "a reply with a key": lambda text: find_object(text, "0a1b2c3d"),
    "a reason": lambda text: find_object(f'{{"reason": {orjson.dumps(text[:150_000]).decode()}, "score": 1}}'),
    "a score": lambda text: find_value_span(f'{{"reason": {json.dumps(text[:150_000])}, "score": 1}}', "score"),
    "JSON or text": parse_json_or_text,
    "fenced JSON": lambda text: parse_json_or_text(f"```json {text}"),
    "a trivial answer": is_trivial_answer,
    "a transcript": lambda text: build_transcript(
        Conversation(turns=(Turn(input=text),) * 3), ("input",), TranscriptSettings()
    ),
    "a pattern in an answer": lambda text: matches(r"(\w+\s?)*!", text, whole=True),
}
"""What is built above the patterns: a linear pattern in a loop may take the square all the same."""
BEGINNINGS = ("", "{'a': '", "<context>", "[" * 60) if EVERYTHING else ("",)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    work = quietly(FUNCTIONS[name])
    texts = [(beginning, piece, "\x01") for beginning in BEGINNINGS for piece in PIECES]
    for text in worst(work, texts):
        growth = measure(work, text, LONG if EVERYTHING else LONG // 10)
        assert growth.is_linear, f"{text}: {growth.short * 1e6:.3f} us per character, later {growth.long * 1e6:.3f}"


DIALECTS = {each.name: each for each in Dialects.installed().all}


def span_of(dialect: Dialect, keys: Iterable[str], text: str) -> Span:
    """A span with a text wherever a reader looks for one."""
    evidence = {name: "x" for name in dialect.evidence if not name.endswith("*")}
    evidence |= {f"{name[:-1]}0.content": text for name in dialect.evidence if name.endswith("*")}
    content = dict.fromkeys(keys, text)
    events = tuple(SpanEvent(name, 1, content) for name in dialect.events)
    scope = next(iter(dialect.scopes), "")
    return Span("1" * 32, "1" * 16, None, "chat x", 1, 2, attributes=evidence | content, events=events, scope=scope)


@pytest.mark.parametrize("name", DIALECTS)
def test_readers(name):
    dialect = DIALECTS[name]
    keys = index.texts_in(dialect.read.__module__)
    choices = [(key,) for key in keys] if EVERYTHING else [keys]
    for beginning in ("", '[{"role": "user", "content": "') if EVERYTHING else ("",):
        for choice in choices:

            def work(text: str, choice: Iterable[str] = choice) -> None:
                dialect.read(span_of(dialect, choice, text), ())

            for text in worst(work, [(beginning, piece, "") for piece in PIECES])[:WORST_OF_READER]:
                growth = measure(work, text, LONG if EVERYTHING else LONG // 10)
                assert growth.is_linear, (
                    f"{text}: {growth.short * 1e6:.3f} us a character, later {growth.long * 1e6:.3f}"
                )


NUMBERED = {
    "prompts": "gen_ai.prompt.{}.content",
    "roles of prompts": "gen_ai.prompt.{}.role",
    "completions": "gen_ai.completion.{}.content",
    "calls of a completion": "gen_ai.completion.0.tool_calls.{}.name",
    "completions with a call": "gen_ai.completion.{}.tool_calls.0.name",
    "functions": "llm.request.functions.{}.name",
    "messages": "llm.input_messages.{}.message.content",
    "answers": "llm.output_messages.{}.message.content",
    "calls of a message": "llm.output_messages.0.message.tool_calls.{}.tool_call.function.name",
    "parts of a message": "llm.input_messages.0.message.contents.{}.message_content.text",
    "passages": "retrieval.documents.{}.document.content",
    "any": "a.{}",
}
"""Attributes with a number in their names, of which a span may hold as many as its sender likes."""


@pytest.mark.parametrize("name", DIALECTS)
def test_readers_by_number_of_attributes(name):
    dialect = DIALECTS[name]
    evidence = span_of(dialect, (), "x").attributes
    for form in NUMBERED.values():

        @cache
        def span_with(count: int, form: str = form) -> Span:
            attributes = {form.format(number): "x" for number in range(count)} | evidence
            scope = next(iter(dialect.scopes), "")
            return Span("1" * 32, "1" * 16, None, "chat x", 1, 2, attributes=attributes, scope=scope)

        def work(text: str, span_with: Callable[[int], Span] = span_with) -> None:
            dialect.read(span_with(len(text) // 20), ())

        growth = measure(work, ("", "x", ""), LONG if EVERYTHING else LONG // 10)
        assert growth.is_linear, f"{form}: {growth.short * 20e6:.3f} us an attribute, later {growth.long * 20e6:.3f}"
