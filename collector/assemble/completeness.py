"""The completeness of a turn: an incomplete turn is reported with its reason, never judged."""

from collections.abc import Iterable, Sequence

from collector.assemble.losses import NO_LOSSES, Losses
from collector.assemble.rag_prompt import mentions_context
from collector.assemble.turn_drafts import TurnDraft
from collector.dialects.attributes import is_masked
from collector.dialects.call import Call
from collector.dialects.decode import parse_document
from collector.dialects.program_fields import is_scaffolding
from collector.otlp.span import Span
from evaluators.cases import Incomplete


def missing_reason(draft: TurnDraft, losses: Losses = NO_LOSSES) -> Incomplete | None:
    """The reason why question or answer of a draft are missing or cannot be trusted; None if it is complete."""
    if is_masked(draft.question) or is_masked(draft.answer):
        return "redacted"
    if is_scaffolding(draft.question) or is_scaffolding(draft.answer):
        return "scaffolding"
    last, enclosing_span = draft.calls[-1] if draft.calls else None, draft.enclosing_span
    calls = [last.call] if last else []
    spans = [parsed_span.span for parsed_span in last.parsed_spans] if last else []
    if enclosing_span is not None:
        calls.append(enclosing_span.call)
        spans.append(enclosing_span.span)
    if draft.answer is None and not _is_empty_answer(draft, spans):
        return _find_first_reason(
            (call.output_incomplete for call in calls), (call.input_incomplete for call in calls), spans
        )
    if not draft.answer and _is_unrecorded_answer(draft):
        return "no_content"
    if draft.question is None:
        return _find_first_reason(
            (call.input_incomplete for call in calls), (call.output_incomplete for call in calls), spans
        )
    if enclosing_span is not None:
        if any(_is_filled_prompt_cut(call, spans) for call in calls):
            return "truncated"
    elif draft.final is not None:
        call = draft.final.call
        reason = call.input_incomplete or call.output_incomplete
        if reason is not None:
            return reason  # the missing part may have been the user's last message
    has_cut = losses.texts and losses.has_cut((draft.answer, draft.question, draft.prompt), spans)
    return "truncated" if has_cut else None


def find_interrupt(spans: Iterable[Span]) -> bool:
    """Whether a run stopped to ask a person: LangGraph raises an exception for it, which no one catches."""
    return any(
        str(event.attributes.get("exception.type", "")).rpartition(".")[2] in _INTERRUPTS
        for span in spans
        for event in span.events
    )


_INTERRUPTS = frozenset({"GraphInterrupt", "NodeInterrupt"})


def _find_first_reason(
    first_reasons: Iterable[Incomplete | None], other_reasons: Iterable[Incomplete | None], spans: list[Span]
) -> Incomplete:
    for reason in (*first_reasons, *other_reasons):
        if reason is not None:
            return reason
    return "evicted_attributes" if any(span.dropped_attributes for span in spans) else "no_content"


def _is_empty_answer(draft: TurnDraft, spans: Sequence[Span]) -> bool:
    """Whether the model answered nothing, rather than that its answer was not recorded.

    Some libraries omit an empty answer. Then the question, a normal end of the call and its token counts are recorded.
    """
    if draft.final is None or draft.question is None:
        return False
    call = draft.final.call
    is_whole = (
        call.output_incomplete is None
        and call.input_incomplete is None
        and not any(span.dropped_attributes for span in spans)
        and not any(message.text for message in call.output or ())  # somebody's words, in a role that nobody knows
    )
    return is_whole and call.finish_reason == "stop" and call.usage is not None


_EMPTY_ANSWER_TOKENS = 5
"""Output tokens of an empty answer, at most: its end is one or two."""


def _is_unrecorded_answer(draft: TurnDraft) -> bool:
    """Whether the model wrote something that was not recorded, though the answer looks empty.

    Libraries omit refusals and thoughts, and whole answers of providers whose shape they do not know.
    """
    if draft.final is None or draft.enclosing_span is not None:
        return False
    call = draft.final.call
    return (
        call.finish_reason in {None, "stop"}
        and call.usage is not None
        and call.usage.output_tokens > _EMPTY_ANSWER_TOKENS
    )


def _is_filled_prompt_cut(call: Call, spans: list[Span]) -> bool:
    """Whether a prompt with retrieved context was cut: then the basis of the answer is unknown.

    If only history was cut, the enclosing span's question replaces the lost one.
    """
    if call.input_incomplete != "truncated":
        return False
    for span in spans:
        raw = span.attributes.get(call.sources.get("input", ""))
        document = parse_document(raw) if isinstance(raw, str) else None
        if document is not None and not document.whole and mentions_context(document.tail):
            return True
    return False
