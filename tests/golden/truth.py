"""What captured payloads must come to: the exchanges that really happened, as the model server saw them.

A payload's `expected.json` is its truth. Texts are compared with white space evened out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluators.cases import Turn

PAYLOADS = Path(__file__).parent / "otlp"
UNMET = Path(__file__).parent / "otlp-unmet"
"""Payloads whose truth is checked by `test_other_hands`."""


SHAPE = 'CONTRIBUTING.md, "Adding a dialect", shows what it must have'
_LEFT_OUT: Mapping[str, Any] = {
    "failed": False, "retrieval_context": [], "tool_calls": [], "final_llm_span_id": None,
    "other_spans_carrying_the_answer": ["any"],
}  # fmt: skip
"""Keys that an exchange written by hand need not have."""


def folders() -> list[str]:
    return sorted(path.name for path in PAYLOADS.iterdir() if path.is_dir())


def truth_of(folder: str, payloads: Path = PAYLOADS) -> dict[str, Any]:
    """The truth of a payload, which may be written by hand; an AssertionError says what it lacks."""
    path = payloads / folder / "expected.json"
    assert path.is_file(), f"{folder} has no expected.json; {SHAPE}"
    truth: dict[str, Any] = {"llm_spans": [], **json.loads(path.read_text())}
    assert truth.get("exchanges"), f"{folder}/expected.json lists no exchanges; {SHAPE}"
    for number, exchange in enumerate(truth["exchanges"]):
        lacking = [
            key for key in ("exchange", "conversation_id", "trace_ids", "user", "assistant") if key not in exchange
        ]
        assert not lacking, f"{folder}/expected.json: exchanges[{number}] has no {', '.join(lacking)}; {SHAPE}"
    truth["exchanges"] = [{**_LEFT_OUT, **exchange} for exchange in truth["exchanges"]]
    return truth


def even(text: str | None) -> str:
    return " ".join((text or "").split())


def complaints(truth: Mapping[str, Any], turns: Sequence[Turn]) -> list[str]:
    """Everything in which turns differ from the truth."""
    found: list[str] = []
    spans = {span["span_id"]: span for span in truth["llm_spans"] if span["span_id"]}
    used: set[str] = set()
    for exchange in truth["exchanges"]:
        here = [turn for turn in turns if turn.trace_id in exchange["trace_ids"]]
        span = spans.get(exchange["final_llm_span_id"])
        if exchange["failed"]:
            used |= {turn.turn_id for turn in here if turn.error}
            found += _failed(exchange, here) if span or here else []
        elif not _can_be_known(exchange, span):
            used |= {turn.turn_id for turn in here}
            found += [f"{exchange['exchange']}: judged without its text" for turn in here if _is_judged(turn)]
        else:
            used |= {turn.turn_id for turn in here if even(turn.actual_output) == even(exchange["assistant"])}
            found += _answered(exchange, span, here, truth)
    found += [f"one turn too many: {turn.input!r}" for turn in turns if turn.turn_id not in used and _is_judged(turn)]
    return found


def _is_judged(turn: Turn) -> bool:
    return turn.error is None and turn.incomplete is None


def _failed(exchange: Mapping[str, Any], here: Sequence[Turn]) -> list[str]:
    failed = [turn for turn in here if turn.error and turn.actual_output is None]
    return [] if len(failed) == 1 else [f"{exchange['exchange']}: {len(failed)} failed turns instead of one"]


def _can_be_known(exchange: Mapping[str, Any], span: Mapping[str, Any] | None) -> bool:
    """Whether question and answer are anywhere in the payload."""
    if span is None:
        return bool(exchange["other_spans_carrying_the_answer"])
    found = span["found_in_payload"]
    if not isinstance(found, dict):
        return True
    asked = max(index for index, each in enumerate(span["input_messages"]) if each["role"] == "user")
    missing = [key for key, place in found.items() if place == "absent"]
    answer = any(key.startswith("output_messages") and key.endswith("content") for key in missing)
    return not answer and f"input_messages[{asked}].content" not in missing


def _answered(
    exchange: Mapping[str, Any], span: Mapping[str, Any] | None, here: Sequence[Turn], truth: Mapping[str, Any]
) -> Iterator[str]:
    label = exchange["exchange"]
    same = [turn for turn in here if even(turn.actual_output) == even(exchange["assistant"])]
    right = [turn for turn in same if even(turn.input) == even(exchange["user"]) and _is_judged(turn)]
    if len(same) != 1 or len(right) != 1:
        yield f"{label}: {len(same)} turns with the answer, {len(right)} with the question as well"
        return
    turn = right[0]
    given = span["conversation_id_at"] if span else not truth["llm_spans"]
    if given and turn.conversation_id != exchange["conversation_id"]:
        yield f"{label}: conversation {turn.conversation_id!r}"
    if span and span["user_id_in_payload"] and turn.user_id != span["user_id"]:
        yield f"{label}: user {turn.user_id!r}"
    if _tools(turn.tools_called) != _tools(exchange["tool_calls"]):
        yield f"{label}: tools {_tools(turn.tools_called)}"
    if exchange["tool_calls"] and not all(call.result for call in turn.tools_called):
        yield f"{label}: a tool without its result"
    if exchange["retrieval_context"]:
        context = even("\n".join(turn.retrieval_context))
        texts = (even(document["text"]) for document in exchange["retrieval_context"])
        yield from (f"{label}: a document is missing" for text in texts if text not in context)
    yield from _around(exchange, span, turn, truth)


def _around(
    exchange: Mapping[str, Any], span: Mapping[str, Any] | None, turn: Turn, truth: Mapping[str, Any]
) -> Iterator[str]:
    """System prompt, history and usage, where the payload holds all of it on the call itself."""
    if span is None or isinstance(span["found_in_payload"], dict):
        return
    label = exchange["exchange"]
    if span["system_prompt"] and even(turn.system_prompt) != even(span["system_prompt"]):
        yield f"{label}: system prompt {turn.system_prompt!r}"
    asked = max((index for index, each in enumerate(span["input_messages"]) if each["role"] == "user"), default=0)
    before = [even(each["content"]) for each in span["input_messages"][:asked]]
    if [even(message.content) for message in turn.history] != before:
        yield f"{label}: history {[message.content for message in turn.history]}"
    calls = [each for each in truth["llm_spans"] if each["exchange"] == label]
    used = sum(each["usage"]["output_tokens"] for each in calls) if all(each.get("usage") for each in calls) else None
    in_one_trace = turn.usage is not None and used is not None and len(set(exchange["trace_ids"])) == 1
    if in_one_trace and turn.usage.output_tokens != used:
        yield f"{label}: {turn.usage.output_tokens} output tokens instead of {used}"


def _tools(calls: Iterable[Any]) -> list[tuple[str, str]]:
    pairs = (
        (each["name"], each["arguments"]) if isinstance(each, dict) else (each.name, each.arguments) for each in calls
    )
    return sorted((name, json.dumps(arguments, sort_keys=True)) for name, arguments in pairs)
