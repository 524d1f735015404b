"""The tool calls of a turn, each once, with its result."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from collector.assemble.read_spans import ParsedSpan, SpanTree
from collector.assemble.turn_drafts import TurnDraft
from collector.dialects.attributes import find_error
from collector.dialects.call import ChatMessage
from collector.dialects.decode import as_dict, decode
from collector.dialects.tool_definitions import find_tool_definitions
from evaluators.cases import Json, ToolCall, ToolDefinition
from evaluators.texts.exact_json import encode_compact

FINAL_ANSWER = "final_answer"
"""The tool whose call smolagents turns into an agent's answer."""


class ToolSpans:
    """The tool spans of a trace, without those inside another tool, which are its implementation."""

    def __init__(self, parsed_spans: Sequence[ParsedSpan], tree: SpanTree) -> None:
        """`parsed_spans` are in order of their starts."""
        tools = [
            parsed_span
            for parsed_span in parsed_spans
            if parsed_span.call.kind == "tool" and parsed_span.call.tool is not None
        ]
        ids = {span.span.span_id for span in tools} if tools else set[str]()
        self._outer = [span for span in tools if ids.isdisjoint(tree.ancestors(span.span.span_id))] if tools else tools
        self._starts = [span.span.start for span in self._outer] if tools else []
        self._below: dict[str, list[ParsedSpan]] = {}
        for parsed_span in self._outer:
            for ancestor in tree.ancestors(parsed_span.span.span_id):
                self._below.setdefault(ancestor, []).append(parsed_span)

    def find(self, draft: TurnDraft) -> list[ToolCall]:
        """Find those that a draft's model called: inside its enclosing span, or between its first call and its end."""
        if not self._outer:
            return []
        inside = self._below.get(draft.enclosing_span.span.span_id) if draft.enclosing_span is not None else None
        first, end = bisect_left(self._starts, draft.start), bisect_right(self._starts, draft.end)
        tools = [_with_error(span, span.call.tool) for span in inside or self._outer[first:end] if span.call.tool]
        return [tool for tool in tools if not _is_bookkeeping(tool)]


def find_tools_offered(draft: TurnDraft) -> tuple[ToolDefinition, ...]:
    """Find the tools that the draft's models could have called, as far as their spans define them."""
    attributes = [parsed_span.span.attributes for call in draft.calls for parsed_span in call.parsed_spans]
    if draft.enclosing_span is not None:
        attributes.append(draft.enclosing_span.span.attributes)
    offered = find_tool_definitions(attributes)
    if not (offered and draft.answer and draft.answer.startswith("{")):
        return offered
    forms = _find_forms([tool_call for call in draft.calls for tool_call in call.pending_tool_calls], draft.answer)
    return tuple(tool for tool in offered if tool.name not in forms)


def _with_error(parsed_span: ParsedSpan, tool: ToolCall) -> ToolCall:
    """The tool call with why its span failed, whichever dialect wrote it."""
    error = parsed_span.call.error or find_error(parsed_span.span, answered=tool.result is not None)
    return tool if error is None or tool.error is not None else replace(tool, error=error)


def find_tools_called(draft: TurnDraft, spans: ToolSpans) -> tuple[ToolCall, ...]:
    """Find the tools that the model called, in order, with results; tool spans are used if its messages have none.

    A call is in the output of a step, and again in the input of the call after it, so the lists are deduplicated.
    """
    call_lists, results = _collect_messages(draft)
    span_calls = spans.find(draft)
    if not call_lists:
        return tuple(_deduplicate([(span_calls, False)])) if span_calls else ()
    return tuple(_without_form(list(_add_results(_deduplicate(call_lists), results, span_calls)), draft.answer))


def _without_form(calls: Sequence[ToolCall], answer: str | None) -> Sequence[ToolCall]:
    """The calls without the form that the answer is: a library (Instructor) has it filled in as a tool's arguments."""
    forms = _find_forms(calls, answer)
    return [call for call in calls if call.name not in forms] if forms else calls


def _find_forms(calls: Iterable[ToolCall], answer: str | None) -> set[str]:
    fields = as_dict(decode(answer)) if answer and answer.startswith("{") else {}
    return {call.name for call in calls if call.result is None and call.arguments == fields} if fields else set()


_CallList = tuple[Sequence[ToolCall], bool]
"""The tool calls in a list of messages, and whether it is a history, which repeats earlier calls."""


def _collect_messages(draft: TurnDraft) -> tuple[list[_CallList], list[ChatMessage]]:
    """Collect the tool calls of each list of messages with any (the lists may repeat each other), and the results."""
    call_lists: list[_CallList] = []
    results: list[ChatMessage] = []
    for call in draft.calls:
        if later := (call.call.input or ())[call.question_index + 1 :]:
            _collect(later, call_lists, results, history=True)
        _collect(call.call.output or (), call_lists, results)
    if draft.enclosing_span is not None and not call_lists:
        _collect(draft.enclosing_span.call.output or (), call_lists, results)
    return call_lists, results


def _collect(
    messages: Sequence[ChatMessage], call_lists: list[_CallList], results: list[ChatMessage], *, history: bool = False
) -> None:
    calls: list[ToolCall] = []
    for message in messages:
        if message.role == "tool":
            results.append(message)
        if message.tool_calls:
            calls += [call for call in message.tool_calls if not _is_bookkeeping(call)]
    if calls:
        call_lists.append((calls, history))


def _is_bookkeeping(call: ToolCall) -> bool:
    """Whether a library wrote a call by itself: a hand-back (LangGraph), or an answer as a call (smolagents)."""
    return call.name == FINAL_ANSWER or call.name.startswith("transfer_back_to_")


def _deduplicate(lists: Iterable[_CallList]) -> list[ToolCall]:
    """Each call once: by its id, or without one as often as in the list with the most copies.

    A call that has no id first and an id later is one call. So is one with another id in the history: in the Responses
    API, an item has an id in addition to the call's.
    """
    unique: list[ToolCall] = []
    ids: set[str] = set()
    counts: Counter[tuple[str, str]] = Counter()
    without_id: dict[tuple[str, str], list[int]] = {}
    for calls, is_history in lists:
        list_counts: Counter[tuple[str, str]] = Counter()
        renamed_indexes = _index_missing_ids(calls, unique) if is_history and unique else {}
        for call in calls:
            if call.id is not None and call.id in ids:
                continue
            content = (call.name, encode_compact(call.arguments))
            if call.id is not None:
                ids.add(call.id)
                if earlier := renamed_indexes.get(content) or without_id.get(content):
                    unique[earlier.pop(0)] = call
                    continue
            list_counts[content] += 1
            if call.id is None and list_counts[content] <= counts[content]:
                continue
            counts[content] = max(counts[content], list_counts[content])
            if call.id is None:
                without_id.setdefault(content, []).append(len(unique))
            unique.append(call)
    return unique


def _index_missing_ids(calls: Sequence[ToolCall], unique: Sequence[ToolCall]) -> dict[tuple[str, str], list[int]]:
    """The indexes in `unique` of the calls whose ids a history does not have, by name and arguments."""
    ids = {call.id for call in calls}
    if all(call.id in ids for call in unique):
        return {}
    indexes: dict[tuple[str, str], list[int]] = {}
    for index, call in enumerate(unique):
        if call.id is not None and call.id not in ids:
            indexes.setdefault((call.name, encode_compact(call.arguments)), []).append(index)
    return indexes


def _add_results(
    calls: Sequence[ToolCall], results: Sequence[ChatMessage], spans: Sequence[ToolCall]
) -> Iterable[ToolCall]:
    without_id = [message for message in results if message.tool_call_id is None]
    by_id = {
        message.tool_call_id: message
        for message in results
        if message.tool_call_id is not None and (message.text or message.result)
    }
    by_id |= _match_crossed_ids(calls, by_id)
    spans = list(spans)
    for call in calls:
        tool_result = by_id.get(call.id) if call.id else None
        if tool_result is None and without_id and (without_id[0].name in {None, call.name}):
            tool_result = without_id.pop(0)
        yield _merge(call, tool_result, _take_span(call, spans))


def _match_crossed_ids(calls: Sequence[ToolCall], by_id: dict[str, ChatMessage]) -> dict[str, ChatMessage]:
    """Match the results whose ids no call has with the calls that have no result, in order.

    OpenLLMetry gives the calls of the Responses API the ids of items, and their results the ids of calls.
    """
    ids = [call.id for call in calls if call.id is not None]
    unanswered = [each for each in ids if each not in by_id]
    unmatched = [tool_result for each, tool_result in by_id.items() if each not in ids] if unanswered else []
    return dict(zip(unanswered, unmatched, strict=True)) if len(unanswered) == len(unmatched) else {}


def _take_span(call: ToolCall, spans: list[ToolCall]) -> ToolCall | None:
    """Remove the tool span of a call from `spans` and return it: by id, else by name, preferring equal arguments."""
    candidates = [tool_call for tool_call in spans if tool_call.id == call.id and call.id is not None]
    candidates = candidates or [other for other in spans if other.name == call.name and other.id is None]
    match = next(
        # equal as they are, or as the keyword arguments of a Python call
        (other for other in candidates if call.arguments in (other.arguments, as_dict(other.arguments).get("kwargs"))),
        candidates[0] if candidates else None,
    )
    if match is not None:
        spans.remove(match)
    return match


def _merge(call: ToolCall, tool_result: ChatMessage | None, span: ToolCall | None) -> ToolCall:
    result: Json = None
    if tool_result is not None:
        result = decode(tool_result.result if tool_result.result is not None else tool_result.text)
    elif span is not None:
        result = span.result
    call_arguments = call.arguments
    if call_arguments in (None, {}, "") and span is not None and span.arguments is not None:
        call_arguments = span.arguments
    marked = tool_result.text[:_LONGEST_ERROR] or "error" if tool_result is not None and tool_result.failed else None
    return replace(
        call,
        result=result if result is not None else call.result,
        arguments=call_arguments,
        error=call.error or (span.error if span is not None else None) or marked,
    )


_LONGEST_ERROR = 2000
"""Characters of why a tool failed, where only its result says it."""
