"""Model calls, each merged from all spans that carry the call: several instrumentations may record one call."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from collector.assemble.read_spans import ParsedSpan, SpanTree
from collector.dialects.call import Call, ChatMessage, merge
from collector.otlp.span import Span
from collector.records.grouping import group_by
from evaluators.cases import ToolCall
from evaluators.texts.exact_json import encode_compact

_DISTINCTIVE_LENGTH = 16
"""If two texts have at least this length and are equal, that is no coincidence."""


def normalize_whitespace(text: str) -> str:
    """Reduce white space to single spaces, for comparing."""
    stripped = text.strip()
    if stripped.isprintable() and "  " not in stripped:
        return stripped  # the fast path: printable means neither line breaks nor unusual spaces
    return " ".join(text.split())


class ModelCall(NamedTuple):
    """A model call, merged from all spans that carry it.

    `span` is the span with the most content. `question` is the last user message before the call, at `question_index`
    in the input; `user_message_count` is the number of user messages up to there. Without such a message they are None,
    -1 and 0. If the end of the input was cut, `question` is None and `question_index` is the number of messages.
    `answer` is the text of the output, None if it was not captured. `pending_tool_calls` are the tool calls in the
    output that have no result there.
    """

    span: Span
    call: Call
    parsed_spans: tuple[ParsedSpan, ...]
    question: str | None
    question_index: int
    user_message_count: int
    answer: str | None
    pending_tool_calls: tuple[ToolCall, ...]

    @property
    def span_ids(self) -> tuple[str, ...]:
        """The ids of all spans that carry the call, first the id of the span with the most content."""
        return tuple([parsed_span.span.span_id for parsed_span in self.parsed_spans])

    @property
    def is_step(self) -> bool:
        """Whether the call requests tools, so that its turn continues."""
        return bool(self.pending_tool_calls) or (self.call.finish_reason == "tool" and self.call.error is None)


def find_model_calls(parsed_spans: Sequence[ParsedSpan], tree: SpanTree) -> list[ModelCall]:
    """The model calls of a trace in order of their starts, each once.

    Two spans carry the same call in three cases: they have the same response id; one is below the other, and both have
    the same content; they are siblings, and one has the content that the other lacks. Such siblings are the halves of a
    streamed call, or the spans of a client that traces itself and of an instrumentation.
    """
    candidates = [parsed_span for parsed_span in parsed_spans if parsed_span.call.kind == "model"]
    if len(candidates) < 2:
        return [_make_call(candidates)] if candidates and _may_be_call(candidates[0]) else []
    groups = _Groups(candidates)
    _join_by_response(candidates, groups)
    wrapping_ids = _join_by_descent(candidates, groups, tree)
    _join_siblings(candidates, groups, tree)
    calls = [_make_call(group) for group in groups.all() if _is_call(group, wrapping_ids)]
    return _add_recorded_requests(sorted(calls, key=lambda call: (call.span.start, call.span.end, call.span.span_id)))


def _add_recorded_requests(calls: list[ModelCall]) -> list[ModelCall]:
    """If a call's output was not recorded, take the tool requests that follow the call's input in a later history.

    Some libraries (Pipecat) record only the words of an answer, so that a call that requests tools has no output.
    """
    for index, model_call in enumerate(calls):
        messages = model_call.call.input
        if (
            not messages
            or model_call.call.output is not None
            or model_call.call.error is not None
            or model_call.call.input_incomplete
        ):
            continue
        if model_call.call.output_incomplete not in {None, "no_content"}:
            continue
        request = next(filter(None, (_find_request(messages, later.call.input) for later in calls[index + 1 :])), None)
        if request is not None:
            call = model_call.call._replace(output=(request,), output_incomplete=None)
            calls[index] = model_call._replace(
                call=call, answer=find_answer(call.output), pending_tool_calls=request.tool_calls
            )
    return calls


def _find_request(messages: Sequence[ChatMessage], later: Sequence[ChatMessage] | None) -> ChatMessage | None:
    """Find the request for tools that follows exactly these messages in a later call's input."""
    if later is None or len(later) <= len(messages) or not later[len(messages)].tool_calls:
        return None
    same = all((one.role, one.text) == (other.role, other.text) for one, other in zip(messages, later, strict=False))
    return later[len(messages)] if same else None


def _is_call(group: Sequence[ParsedSpan], wrapping_ids: set[str]) -> bool:
    """Whether a group of spans is a model call. Some libraries mark preparations and nested helpers as model spans."""
    return False if len(group) == 1 and group[0].span.span_id in wrapping_ids else any(map(_may_be_call, group))


def _may_be_call(parsed_span: ParsedSpan) -> bool:
    """Whether a span has a result of a call, or may have lost it with dropped attributes."""
    call = parsed_span.call
    outcomes = (call.output, call.error, call.usage, call.output_incomplete, call.finish_reason, call.response_id)
    return outcomes != _NO_OUTCOME or parsed_span.span.dropped_attributes > 0


_NO_OUTCOME = (None,) * 6


class _Groups:
    """Spans that carry the same call, joined step by step."""

    def __init__(self, parsed_spans: Iterable[ParsedSpan]) -> None:
        self._group = {parsed_span.span.span_id: [parsed_span] for parsed_span in parsed_spans}

    def join(self, one: ParsedSpan, other: ParsedSpan) -> None:
        target, source = self._group[one.span.span_id], self._group[other.span.span_id]
        if target is not source:
            target += source
            for parsed_span in source:
                self._group[parsed_span.span.span_id] = target

    def get(self, parsed_span: ParsedSpan) -> list[ParsedSpan]:
        return self._group[parsed_span.span.span_id]

    def all(self) -> list[list[ParsedSpan]]:
        return list({id(group): group for group in self._group.values()}.values())


def _join_by_response(parsed_spans: Sequence[ParsedSpan], groups: _Groups) -> None:
    """Join spans with equal response ids, unless their answers contradict.

    The id alone is not enough: test servers and some proxies give one id to every response.
    """
    by_id = group_by(parsed_spans, lambda parsed_span: parsed_span.call.response_id)
    for same in (spans for response_id, spans in by_id.items() if response_id):
        for index, parsed_span in enumerate(same[1:], 1):
            partner = next((other for other in same[:index] if _is_consistent(parsed_span.call, other.call)), None)
            if partner is not None:
                groups.join(partner, parsed_span)


def _is_consistent(one: Call, other: Call) -> bool:
    if (one.error is None) != (other.error is None):
        return False
    return one.output is None or other.output is None or _is_same_output(one.output, other.output)


def _is_same_output(one: Sequence[ChatMessage], other: Sequence[ChatMessage]) -> bool:
    (text, calls), (other_text, other_calls) = summaries = _summarize(one), _summarize(other)
    if summaries[0] == summaries[1] or ("", []) in summaries:  # some libraries write a tool call as an empty answer
        return True
    shorter, longer = sorted((text, other_text), key=len)
    # If the longer text begins with the shorter one, the shorter one was cut.
    return calls == other_calls and len(shorter) >= _DISTINCTIVE_LENGTH and longer.startswith(shorter)


def _summarize(messages: Sequence[ChatMessage]) -> tuple[str, list[tuple[str, str]]]:
    texts = (normalize_whitespace(message.text) for message in messages if message.role == "assistant")
    return next(filter(None, texts), ""), sorted(
        (call.name, encode_compact(call.arguments)) for message in messages for call in message.tool_calls
    )


def _join_by_descent(parsed_spans: Sequence[ParsedSpan], groups: _Groups, tree: SpanTree) -> set[str]:
    """Join model spans with the model spans above them that have the same content.

    Returns the ids of spans that only wrap several calls, or a call with another question.
    """
    by_id = {parsed_span.span.span_id: parsed_span for parsed_span in parsed_spans}
    below: dict[str, list[ParsedSpan]] = {}
    for parsed_span in parsed_spans:
        outer = next((by_id[above] for above in tree.ancestors(parsed_span.span.span_id) if above in by_id), None)
        if outer is None:
            continue
        if _is_same_call(parsed_span.call, outer.call):
            groups.join(outer, parsed_span)
        elif outer.call.output is None and outer.call.error is None:
            below.setdefault(outer.span.span_id, []).append(parsed_span)
    wrapping_ids: set[str] = set()
    for span_id, inner in below.items():
        if len({id(groups.get(span)) for span in inner}) == 1 and _may_share_question(
            inner[0].call, by_id[span_id].call
        ):
            groups.join(by_id[span_id], inner[0])
        else:
            wrapping_ids.add(span_id)
    return wrapping_ids


def _is_same_call(inner: Call, outer: Call) -> bool:
    if (inner.error is None) != (outer.error is None):
        return False
    if inner.error is not None:
        return _may_share_question(inner, outer)
    if inner.output is None:
        return inner.input is None or _may_share_question(inner, outer)
    if outer.output is None or not _is_same_output(inner.output, outer.output):
        return False
    if outer.input and not find_answer(outer.output) and _find_request(outer.input, inner.input):
        return False  # the outer call requested tools, which were not recorded; the inner one has their results
    return len(_summarize(inner.output)[0]) >= _DISTINCTIVE_LENGTH or _may_share_question(inner, outer)


def _may_share_question(one: Call, other: Call) -> bool:
    """Whether two calls may have the same question: one question contains the other, or one is unknown."""
    question, other_question = _find_normalized_question(one), _find_normalized_question(other)
    return question is None or other_question is None or question in other_question or other_question in question


def _find_normalized_question(call: Call) -> str | None:
    question_index = find_question_index(call.input or ())
    return normalize_whitespace(call.input[question_index].text) if call.input and question_index >= 0 else None


def _join_siblings(parsed_spans: Sequence[ParsedSpan], groups: _Groups, tree: SpanTree) -> None:
    for siblings in group_by(parsed_spans, lambda parsed_span: _parent_of(parsed_span.span, tree)).values():
        halves = [
            parsed_span for parsed_span in siblings if all(span.call.output is None for span in groups.get(parsed_span))
        ]
        with_content = [span for span in siblings if span.call.output is not None or span.call.input is not None]
        for half in halves:
            partner = next((other for other in with_content if other is not half and _completes(half, other)), None)
            if partner is not None:
                groups.join(partner, half)


def _parent_of(span: Span, tree: SpanTree) -> str | None:
    """The parent of a call's span; its grandparent if span and parent have one name, since they are one function."""
    parent = tree.spans.get(span.parent_span_id or "")
    is_same = parent is not None and parent.name == span.name
    return parent.parent_span_id if parent is not None and is_same else span.parent_span_id


def _completes(half: ParsedSpan, other: ParsedSpan) -> bool:
    """Whether `other` has the content that `half` lacks. If `half` has an input, it lacks the answer to that input.
    Otherwise any content will do, provided that one of the two spans lies within the time of the other.
    """
    call, other_call = half.call, other.call
    if (call.error is None) != (other_call.error is None):
        return False
    if call.input is not None:
        is_streamed = call.usage is None and call.response_id is None and call.error is None
        is_same = call.input == other_call.input or (other_call.input is None and call.dialect == other_call.dialect)
        return is_streamed and other_call.output is not None and is_same
    inside = other.span.start <= half.span.start and half.span.end <= other.span.end
    around = half.span.start <= other.span.start and other.span.end <= half.span.end
    return (inside or around) and (other_call.input is not None or other_call.output is not None)


def _make_call(parsed_spans: list[ParsedSpan]) -> ModelCall:
    ordered = sorted(parsed_spans, key=_measure_emptiness) if len(parsed_spans) > 1 else parsed_spans
    call = merge([span.call for span in ordered]) if len(ordered) > 1 else ordered[0].call
    messages = call.input or ()
    is_cut = call.input_incomplete is not None  # messages may be missing after the last readable one
    question_index = len(messages) if is_cut else find_question_index(messages)
    if not is_cut and call.system and question_index >= 0 and messages[question_index].role == "system":
        question_index = -1  # a repeated system prompt: the user's message is missing
    return ModelCall(
        span=ordered[0].span,
        call=call,
        parsed_spans=tuple(ordered),
        question=messages[question_index].text if 0 <= question_index < len(messages) else None,
        question_index=question_index,
        user_message_count=len(
            [message for message in messages[: question_index + 1] if message.role == "user" and message.text.strip()]
        ),
        answer=find_answer(call.output) or (None if call.output_incomplete else find_answer(call.output)),
        pending_tool_calls=find_pending_tool_calls(call.output or ()),
    )


def _measure_emptiness(parsed_span: ParsedSpan) -> tuple[bool, bool, int, int, str]:
    """The sort key that puts the span with the most content first."""
    span, call = parsed_span.span, parsed_span.call
    return call.output is None, call.input is None, -len(call.input or ()), span.start, span.span_id


def find_question_index(messages: Sequence[ChatMessage]) -> int:
    """Find the index of the last user message with a text, -1 if there is none. Tool results are not user messages.

    If there are only system messages, the last one is the question.
    """
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "user" and messages[index].text.strip():
            return index
    return len(messages) - 1 if messages and all(message.role == "system" for message in messages) else -1


_SPEAKERS = frozenset(("user", "assistant", "system", "tool", "context"))


def find_answer(output: Sequence[ChatMessage] | None, *, run: bool = False) -> str | None:
    """Find the text of an answer; "" if it is empty, None if it is missing.

    Of alternative answers the first counts. In an agent's `run`, or if tools were called, the last text counts.
    """
    if output is None:
        return None
    texts = [message.text for message in output if message.role == "assistant" and message.text.strip()]
    if not texts and any(message.role not in _SPEAKERS and message.text.strip() for message in output):
        return None  # the role of the text is unknown
    if len(texts) < 2:
        return texts[0] if texts else ""
    return (
        texts[-1] if run or any(message.role != "assistant" or message.tool_calls for message in output) else texts[0]
    )


def find_pending_tool_calls(output: Sequence[ChatMessage]) -> tuple[ToolCall, ...]:
    """Find the tool calls in an output whose results are not in the same output."""
    calls = [call for message in output for call in message.tool_calls]
    if not calls:
        return ()
    answered_ids = {message.tool_call_id or message.name for message in output if message.role == "tool"}
    return tuple(call for call in calls if (call.id or call.name) not in answered_ids)
