"""Agents, workflows and chains around model calls: the spans that have question and answer as the user saw them.

The model's prompt is often longer than the user's question, and an agent's last call is not always its answer, so the
enclosing span is the better source. But anything may be written on it. It is used only if a model call inside confirms
its answer, or if no model call inside has any content. The outermost span that qualifies is the user's turn; other
model calls inside it were steps towards its answer.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from collector.assemble.model_calls import ModelCall, find_answer, find_question_index, normalize_whitespace
from collector.assemble.read_spans import ParsedSpan, SpanTree
from collector.assemble.speech import was_interrupted
from collector.assemble.tools import FINAL_ANSWER
from collector.assemble.turn_drafts import TurnDraft, sort_by_end
from collector.dialects.call import Call, ChatMessage
from collector.dialects.decode import as_dict
from collector.dialects.program_fields import is_scaffolding
from collector.records.grouping import group_by
from evaluators.texts.exact_json import as_text

_ENCLOSING_KINDS = {"agent", "workflow", "chain"}
_DISTINCTIVE_LENGTH = 16
"""The characters of an equal beginning that is no coincidence."""


def apply_enclosing_spans(
    drafts: list[TurnDraft], parsed_spans: Sequence[ParsedSpan], tree: SpanTree
) -> list[TurnDraft]:
    """The turns that a user saw, in the words of their outermost confirmed enclosing span, without inner ones.

    They are in order of their ends.
    """
    enclosing_spans = [parsed_span for parsed_span in parsed_spans if parsed_span.call.kind in _ENCLOSING_KINDS]
    if enclosing_spans:
        auxiliary = {parsed_span.span.span_id for parsed_span in parsed_spans if parsed_span.call.kind == "auxiliary"}
        enclosing_spans = [span for span in enclosing_spans if auxiliary.isdisjoint(tree.ancestors(span.span.span_id))]
        drafts = [*_apply(enclosing_spans, drafts, parsed_spans, tree)]
    if len(drafts) > 1 or not (drafts and drafts[0].final):
        drafts = [draft for draft in drafts if draft.final or draft.enclosing_span]
    return sort_by_end(_without_sub_agents(drafts, parsed_spans, tree)) if len(drafts) > 1 else drafts


def _apply(
    enclosing_spans: Iterable[ParsedSpan],
    drafts: Iterable[TurnDraft],
    parsed_spans: Sequence[ParsedSpan],
    tree: SpanTree,
) -> Iterable[TurnDraft]:
    """The drafts with their enclosing spans attached, and those that have none.

    Outer spans come first: once one is attached, the spans inside it are part of its turn.
    """
    remaining = dict.fromkeys(drafts)
    drafts_inside = _group_by_ancestor(remaining, tree)
    find_by_answer = _index_by_answer(remaining)
    find_detached = _index_detached(remaining, tree)
    failure_ancestors = _collect_failure_ancestors(parsed_spans, tree)
    applied_ids: set[str] = set()
    final_answers = _index_final_answers(parsed_spans, tree)
    for parsed_span in sorted(enclosing_spans, key=lambda each: _depth(each, tree)):
        enclosing_span = _with_final_answer(_trim_to_last_question(parsed_span), final_answers)
        if not applied_ids.isdisjoint(tree.ancestors(enclosing_span.span.span_id)):
            continue
        inside = [draft for draft in drafts_inside.get(enclosing_span.span.span_id, ()) if draft in remaining]
        draft = _match(
            enclosing_span,
            inside,
            [turn_draft for turn_draft in find_by_answer(enclosing_span) if turn_draft in remaining],
            [turn_draft for turn_draft in find_detached(enclosing_span) if turn_draft in remaining],
            failure_ancestors,
        )
        if draft is None:
            continue
        remaining.setdefault(draft)
        if find_question(enclosing_span.call) is not None or draft.answer is None:
            _remove_inner(remaining, inside, draft)
            applied_ids.add(enclosing_span.span.span_id)
    return remaining


def _trim_to_last_question(enclosing_span: ParsedSpan) -> ParsedSpan:
    """The enclosing span with only that part of its output that follows the last user message in it.

    An agent with a memory returns its whole conversation, and earlier answers are not this turn's.
    """
    output = enclosing_span.call.output or ()
    if len(output) < _QUESTION_AND_ANSWER:
        return enclosing_span
    question_index = max(
        (index for index, message in enumerate(output) if message.role == "user" and message.text.strip()), default=-1
    )
    if question_index < 0 or question_index == len(output) - 1:
        return enclosing_span
    return enclosing_span._replace(call=enclosing_span.call._replace(output=output[question_index + 1 :]))


_QUESTION_AND_ANSWER = 2


def _depth(parsed_span: ParsedSpan, tree: SpanTree) -> tuple[int, int, str]:
    return len(tree.ancestors(parsed_span.span.span_id)), parsed_span.span.start, parsed_span.span.span_id


def _index_final_answers(parsed_spans: Iterable[ParsedSpan], tree: SpanTree) -> dict[str, str]:
    """The results of the tools through which agents answer, by the ids of the enclosing spans; the last one counts."""
    answers: dict[str, str] = {}
    for parsed_span in parsed_spans:
        if parsed_span.call.tool is not None and parsed_span.call.tool.name == FINAL_ANSWER:
            text = as_text(parsed_span.call.tool.result)
            answers |= dict.fromkeys(tree.ancestors(parsed_span.span.span_id), text) if text else {}
    return answers


def _with_final_answer(enclosing_span: ParsedSpan, answers: Mapping[str, str]) -> ParsedSpan:
    """An agent without its own answer gets the one that it gave through a tool, as in a streamed run."""
    call = enclosing_span.call
    text = answers.get(enclosing_span.span.span_id)
    if text is None or call.kind != "agent" or find_answer(call.output, run=True):
        return enclosing_span
    return enclosing_span._replace(call=call._replace(output=(ChatMessage("assistant", text),), output_incomplete=None))


def _group_by_ancestor(drafts: Iterable[TurnDraft], tree: SpanTree) -> dict[str, list[TurnDraft]]:
    """The drafts by the ids of the spans around them."""
    drafts_inside: dict[str, list[TurnDraft]] = {}
    for draft in drafts:
        last = draft.last
        around = [span_id for one in last.parsed_spans for span_id in tree.ancestors(one.span.span_id)] if last else ()
        for span_id in dict.fromkeys(around):
            drafts_inside.setdefault(span_id, []).append(draft)
    return drafts_inside


def _index_by_answer(drafts: Iterable[TurnDraft]) -> Callable[[ParsedSpan], Sequence[TurnDraft]]:
    """Index the drafts by the beginning of their answer: only a draft with the same beginning confirms a span's answer.

    Comparing every span with every draft would be quadratic in a trace of many turns.
    """
    answered = (draft for draft in drafts if draft.answer)
    groups = group_by(answered, lambda draft: normalize_whitespace(draft.answer or "")[:_DISTINCTIVE_LENGTH])

    def find(enclosing_span: ParsedSpan) -> Sequence[TurnDraft]:
        answer = find_answer(enclosing_span.call.output, run=True)
        return groups.get(normalize_whitespace(answer)[:_DISTINCTIVE_LENGTH], ()) if answer else ()

    return find


def _index_detached(drafts: Iterable[TurnDraft], tree: SpanTree) -> Callable[[ParsedSpan], Sequence[TurnDraft]]:
    """Index the drafts without an answer that have an ancestor which has not arrived, by time.

    A library that fails may never end the spans around the call, so time is all that links them to an enclosing span.
    """
    detached = sorted([draft for draft in drafts if _is_detached(draft, tree)], key=lambda each: each.start)

    def find(enclosing_span: ParsedSpan) -> Sequence[TurnDraft]:
        if not detached:
            return ()
        first = bisect_left(detached, enclosing_span.span.start, key=lambda each: each.start)
        last = bisect_right(detached, enclosing_span.span.end, key=lambda each: each.start)
        return [draft for draft in detached[first:last] if draft.end <= enclosing_span.span.end]

    return find


def _is_detached(draft: TurnDraft, tree: SpanTree) -> bool:
    if draft.answer or draft.last is None:
        return False
    ancestors = tree.ancestors(draft.last.span.span_id)
    return bool(ancestors) and ancestors[-1] not in tree.spans


def _collect_failure_ancestors(parsed_spans: Iterable[ParsedSpan], tree: SpanTree) -> frozenset[str]:
    """The ids of the spans that have a failed agent somewhere below them."""
    failures = [
        parsed_span
        for parsed_span in parsed_spans
        if parsed_span.call.error is not None and parsed_span.call.kind == "agent"
    ]
    return frozenset([span_id for span in failures for span_id in tree.ancestors(span.span.span_id)])


def _match(
    enclosing_span: ParsedSpan,
    inside: Sequence[TurnDraft],
    same_answer: Sequence[TurnDraft],
    detached: Sequence[TurnDraft],
    failure_ancestors: frozenset[str],
) -> TurnDraft | None:
    """Find the draft of an enclosing span and attach the span to it; None if nothing confirms the span.

    `inside` are the drafts inside it. Since parents may be missing, `same_answer` has the drafts anywhere whose answer
    begins alike, and `detached` those within its time that have no answer.
    """
    free = [draft for draft in inside if draft.enclosing_span is None]
    if len(free) < len(inside):
        return None  # an outer span is attached already
    question, answer = find_question(enclosing_span.call), find_answer(enclosing_span.call.output, run=True)
    is_cut_off = was_interrupted(enclosing_span.span)
    if is_cut_off and not answer and free:
        free[-1].answer = None  # the user heard none of it
        return _attach(free[-1], enclosing_span, question)
    if answer:
        candidates = free or [draft for draft in same_answer if draft.enclosing_span is None]
        confirmed = [draft for draft in candidates if _confirms(draft, question, answer, cut_off=is_cut_off)]
        if confirmed:
            if is_cut_off:
                confirmed[-1].answer = answer  # the part that the user heard
            return _attach(confirmed[-1], enclosing_span, question)
        if question and free and _has_scaffolding_only(free[-1], question):
            free[-1].answer = answer
            return _attach(free[-1], enclosing_span, question)
    if enclosing_span.call.kind == "chain":
        return None
    free = free or [draft for draft in detached if draft.enclosing_span is None and _has_same_question(draft, question)]
    interrupted = _match_interrupted(enclosing_span, free)
    if interrupted is not None:
        return interrupted
    if answer == "" and free and free[-1].answer == "" and _has_same_question(free[-1], question):
        return _attach(free[-1], enclosing_span, question)
    if question and answer is None and free and _has_answer_only(free[-1]):
        return _attach(free[-1], enclosing_span, question)
    has_both = bool(question and answer) and enclosing_span.call.output_incomplete is None
    if has_both and question:
        same_question = [draft for draft in free if draft.question and is_same_question(question, draft.question)]
        if same_question and same_question[-1].error is None:
            same_question[-1].answer = answer
            return _attach(same_question[-1], enclosing_span, question)
    return _match_without_answer(enclosing_span, free, question, answer if has_both else None, failure_ancestors)


def _has_scaffolding_only(draft: TurnDraft, question: str) -> bool:
    """Whether a model call was asked this question, and its answer has a library's markers around it."""
    if draft.error is not None or draft.final is None or not is_scaffolding(draft.answer):
        return False
    return draft.question is None or is_same_question(question, draft.question)


def _has_answer_only(draft: TurnDraft) -> bool:
    """Whether the answer is on a model's call that records no input, as Claude Code writes it."""
    return bool(draft.answer) and draft.error is None and draft.last is not None and draft.last.call.input is None


def _match_interrupted(enclosing_span: ParsedSpan, free: Sequence[TurnDraft]) -> TurnDraft | None:
    """Attach an agent that failed to the call of its model that never ended and has no answer.

    Pydantic AI 2 (a stream that cannot be opened) and Mastra leave the model's span without an error.
    """
    last = free[-1] if free else None
    if enclosing_span.call.error is None or last is None or last.final is None or last.answer or last.error is not None:
        return None
    call = last.final.call
    has_ended = call.usage is not None or call.finish_reason is not None or call.response_id is not None
    if has_ended and call.finish_reason != "error":
        return None
    last.answer, last.error = None, enclosing_span.call.error
    return _attach(last, enclosing_span, find_question(enclosing_span.call))


def _confirms(draft: TurnDraft, question: str | None, answer: str, *, cut_off: bool = False) -> bool:
    if not draft.answer or draft.error is not None:
        return False
    whole, beginning = normalize_whitespace(draft.answer), normalize_whitespace(answer)
    # a cut answer on the enclosing span is confirmed by this, too
    if whole != beginning and not ((cut_off or len(beginning) >= _DISTINCTIVE_LENGTH) and whole.startswith(beginning)):
        return False
    return question is None or draft.question is None or is_same_question(question, draft.question)


def _has_same_question(draft: TurnDraft, question: str | None) -> bool:
    return question is not None and draft.question is not None and is_same_question(question, draft.question)


def is_same_question(question: str, prompt: str) -> bool:
    """Whether a prompt contains a question; a long prompt may also be a part of the question."""
    question, prompt = normalize_whitespace(question), normalize_whitespace(prompt)
    return question in prompt or (len(prompt) >= _DISTINCTIVE_LENGTH and prompt in question)


def _attach(draft: TurnDraft, enclosing_span: ParsedSpan, question: str | None) -> TurnDraft:
    draft.enclosing_span = enclosing_span
    if question and (
        draft.question is None or len(normalize_whitespace(question)) < len(normalize_whitespace(draft.question))
    ):
        draft.prompt = draft.question
        draft.question = question
    return draft


def _match_without_answer(
    enclosing_span: ParsedSpan,
    free: Sequence[TurnDraft],
    question: str | None,
    answer: str | None,
    failure_ancestors: frozenset[str],
) -> TurnDraft | None:
    """Make the turn of an agent whose model calls have no content: from its own, its failure, or as incomplete."""
    if any(draft.answer is not None for draft in free) or (enclosing_span.call.kind == "workflow" and not free):
        return None
    failures = [draft for draft in free if draft.error is not None]
    if failures:
        last = failures[-1]
        is_known = last.question is None or (question is not None and is_same_question(question, last.question))
        return _attach(last, enclosing_span, question) if is_known else None
    call = enclosing_span.call
    if call.error is not None and not free:
        if enclosing_span.span.span_id in failure_ancestors:
            return None  # an inner agent failed, too, and is nearer to the cause
        return TurnDraft(question=question, error=call.error, enclosing_span=enclosing_span)
    calls = [one for draft in free for one in draft.calls]
    if answer:
        return TurnDraft(calls, question=question, answer=answer, enclosing_span=enclosing_span)
    if free and (call.input_incomplete or call.output_incomplete or call.input or call.output):
        last = free[-1]
        last.calls = calls
        return _attach(last, enclosing_span, question)
    return None


def find_question(call: Call) -> str | None:
    """Find the last user message in the input of an enclosing span; None if a later one may be lost."""
    if call.input_incomplete is not None:
        return None
    index = find_question_index(call.input or ())
    return call.input[index].text if call.input and index >= 0 else None


def _remove_inner(remaining: dict[TurnDraft, None], inside: Sequence[TurnDraft], draft: TurnDraft) -> None:
    """Remove the steps towards the draft's answer. A failure stays, even if a later attempt succeeded."""
    for turn_draft in inside:
        if turn_draft is not draft and turn_draft.error is None:
            del remaining[turn_draft]


def _without_sub_agents(drafts: list[TurnDraft], parsed_spans: Sequence[ParsedSpan], tree: SpanTree) -> list[TurnDraft]:
    """Remove turns between models: inside a tool or an agent that an outer turn called, or beside it, as its tool."""
    if tool_texts := _list_tool_texts(drafts):
        drafts = [draft for draft in drafts if not _is_run_of_tool(draft, tool_texts)]
    borders = {
        parsed_span.span.span_id
        for parsed_span in parsed_spans
        if parsed_span.call.kind in {"agent", "workflow", "tool"}
    }
    if not borders:
        return drafts
    borders_of = {draft: _find_borders(draft, borders, tree) for draft in drafts}
    settled_borders = {ancestors for draft, ancestors in borders_of.items() if _is_settled(draft)}
    return [
        draft
        for draft, ancestors in borders_of.items()
        if not any(ancestors[:end] in settled_borders for end in range(1, len(ancestors)))
    ]


class _ToolCall(NamedTuple):
    """A step that requested a tool, the call after it, and the results that it was given, without needless space."""

    step: ModelCall
    following: ModelCall
    results: Sequence[str]


def _list_tool_texts(drafts: Iterable[TurnDraft]) -> dict[str, list[_ToolCall]]:
    """The texts that tools got as arguments, each with the calls that requested the tool."""
    texts: dict[str, list[_ToolCall]] = {}
    for draft in drafts:
        for step, following in pairwise(draft.calls) if len(draft.calls) > 1 else ():
            later = (following.call.input or ())[following.question_index + 1 :]
            results = [normalize_whitespace(message.text) for message in later if message.role == "tool"]
            for call in step.pending_tool_calls:
                for value in (as_text(call.arguments), *as_dict(call.arguments).values()):
                    if isinstance(value, str) and value:
                        texts.setdefault(normalize_whitespace(value), []).append(_ToolCall(step, following, results))
    return texts


def _is_run_of_tool(draft: TurnDraft, tool_texts: Mapping[str, Sequence[_ToolCall]]) -> bool:
    """Whether a draft is the run of another draft's tool: its question is the argument, its answer the result, in time
    between.

    Libraries without spans for agents and tools (OpenInference for Haystack) put such a run beside its caller.
    """
    answer = normalize_whitespace(draft.answer or "")
    return bool(answer) and any(
        step.span.end <= draft.start
        and draft.end <= following.span.start
        and (any(answer in text for text in results) or not any(results))
        for step, following, results in tool_texts.get(normalize_whitespace(draft.question or ""), ())
    )


def _is_settled(draft: TurnDraft) -> bool:
    is_lost = draft.final is not None and draft.final.call.output_incomplete in {"truncated", "evicted_attributes"}
    return draft.answer is not None or draft.error is not None or is_lost


def _find_borders(draft: TurnDraft, borders: set[str], tree: SpanTree) -> tuple[str, ...]:
    """The ids of the agents and tools around a draft, outermost first."""
    innermost = draft.last or draft.enclosing_span
    ancestors = tree.ancestors(innermost.span.span_id) if innermost else ()
    return tuple(span_id for span_id in reversed(ancestors) if span_id in borders)
