"""Whether a turn can be judged, and if not, why: a hole is reported, never judged."""

from __future__ import annotations

from collections.abc import Iterable

from collector.assemble.exchanges import Exchange
from collector.assemble.rag_prompt import speaks_of_context
from collector.dialects.call import Call
from collector.dialects.decode import document
from collector.dialects.reading import is_masked
from collector.span import Span
from evaluators.cases import Incomplete

_SHORTEST_LIMIT = 32
"""No sender limits its attributes to fewer characters; a text as short as this is whole."""


def hole_of(exchange: Exchange) -> Incomplete | None:
    """Why question or answer of an exchange are missing or not to be trusted; None if they are fine."""
    if is_masked(exchange.question) or is_masked(exchange.answer):
        return "redacted"
    calls = _calls(exchange)
    spans = _spans(exchange)
    if exchange.answer is None and not _was_silent(exchange):
        return _reason((call.output_hole for call in calls), (call.input_hole for call in calls), spans)
    if _was_left_out(exchange):
        return "no_content"
    if exchange.question is None:
        return _reason((call.input_hole for call in calls), (call.output_hole for call in calls), spans)
    if exchange.wrapper is None and exchange.final is not None:
        call = exchange.final.call
        if "truncated" in {call.input_hole, call.output_hole}:
            return "truncated"  # what was cut off may have been the user's last words
    if exchange.wrapper is not None and any(_was_prompt_cut(call, spans) for call in calls):
        return "truncated"
    return "truncated" if _is_cut((exchange.answer, exchange.prompt or exchange.question), spans) else None


def _calls(exchange: Exchange) -> list[Call]:
    last = exchange.last
    calls = [last.call] if last else []
    return [*calls, exchange.wrapper.call] if exchange.wrapper else calls


def _spans(exchange: Exchange) -> list[Span]:
    last = exchange.last
    spans = [read.span for read in last.reads] if last else []
    return [*spans, exchange.wrapper.span] if exchange.wrapper else spans


def _reason(first: Iterable[Incomplete | None], then: Iterable[Incomplete | None], spans: list[Span]) -> Incomplete:
    for hole in (*first, *then):
        if hole is not None:
            return hole
    return "evicted_attributes" if any(span.dropped_attributes for span in spans) else "no_content"


def _was_silent(exchange: Exchange) -> bool:
    """Whether the model answered nothing, rather than that its answer was not recorded.

    Some libraries leave the answer out where it is empty. It was then recorded what was asked, that the call ended
    well, and what it cost.
    """
    if exchange.final is None or exchange.question is None:
        return False
    call = exchange.final.call
    spans = _spans(exchange)
    whole = call.output_hole is None and call.input_hole is None and not any(span.dropped_attributes for span in spans)
    return whole and call.finish == "stop" and call.usage is not None


_SILENCE = 5
"""Tokens that an empty answer may cost: its end is one or two."""


def _was_left_out(exchange: Exchange) -> bool:
    """Whether a model wrote something that was not recorded, though the answer looks empty.

    Refusals and thoughts are what libraries leave out, and whole answers of providers whose shape they do not know.
    """
    if exchange.answer or exchange.final is None or exchange.wrapper is not None:
        return False
    call = exchange.final.call
    return call.finish in {None, "stop"} and call.usage is not None and call.usage.output_tokens > _SILENCE


def _was_prompt_cut(call: Call, spans: list[Span]) -> bool:
    """Whether a prompt that was filled with context was cut: then it is unknown on what the answer rests.

    Where it was the history that was cut, the wrapper's question is as good as the one that is lost.
    """
    if call.input_hole != "truncated":
        return False
    for span in spans:
        raw = span.attributes.get(call.found.get("input", ""))
        found = document(raw) if isinstance(raw, str) else None
        if found is not None and not found.whole and speaks_of_context(found.tail):
            return True
    return False


def _is_cut(texts: Iterable[str | None], spans: list[Span]) -> bool:
    """Whether one of the texts was cut by a limit on the length of attributes, which leaves no mark.

    It was if it has just the length of a document on the same span that was cut, and nothing there is longer.
    """
    lengths = {len(text) for text in texts if text is not None and len(text) >= _SHORTEST_LIMIT}
    for span in spans:
        values = [value for value in span.attributes.values() if isinstance(value, str)]
        longest = max(map(len, values), default=0)
        if longest in lengths and any(_is_unfinished(value) for value in values if len(value) == longest):
            return True
    return False


def _is_unfinished(value: str) -> bool:
    found = document(value)
    return found is not None and not found.whole
