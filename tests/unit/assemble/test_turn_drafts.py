"""Which model calls of a trace belong to one turn, by their contents and times."""

from __future__ import annotations

import pytest

from collector.assemble.model_calls import ModelCall
from collector.assemble.read_spans import ParsedSpan, SpanTree
from collector.assemble.turn_drafts import TurnDraft, draft_turns, sort_by_end
from collector.dialects.call import Call, ChatMessage
from collector.otlp.span import Span
from evaluators.cases import TokenCount, ToolCall


def user(text: str) -> ChatMessage:
    return ChatMessage("user", text)


def assistant(text: str) -> ChatMessage:
    return ChatMessage("assistant", text)


def result(of: str) -> ChatMessage:
    return ChatMessage("tool", "result", tool_call_id=of)


def model_call(
    number: int,
    *messages: ChatMessage,
    answer: str | None = None,
    requests: str | None = None,
    error: str | None = None,
    parent: str | None = "agent",
    time: tuple[int, int] | None = None,
    tokens: int | None = None,
) -> ModelCall:
    """A call from `number` * 10 to `number` * 10 + 5 unless `time` says otherwise; it `requests` the tool call named."""
    start, end = time or (number * 10, number * 10 + 5)
    span = Span("trace", f"span-{number}", parent, "chat", start, end)
    usage = None if tokens is None else TokenCount(input_tokens=tokens, output_tokens=1)
    call = Call("test", "model", input=messages or None, error=error, usage=usage)
    at = max((index for index, each in enumerate(messages) if each.role == "user"), default=-1)
    return ModelCall(
        span=span,
        call=call,
        parsed_spans=(ParsedSpan(span, call),),
        question=messages[at].text if at >= 0 else None,
        question_index=at,
        user_message_count=sum(each.role == "user" for each in messages),
        answer=answer,
        pending_tool_calls=() if requests is None else (ToolCall(id=requests, name="look"),),
    )


Summary = tuple[list[str], str | None, str | None, str | None]


def drafted(*calls: ModelCall) -> list[Summary]:
    """Of each draft: the ids of its calls, its question, its answer and its error."""
    drafts = draft_turns(calls, SpanTree([each.span for each in calls]))
    return [
        ([each.span.span_id for each in draft.calls], draft.question, draft.answer, draft.error) for draft in drafts
    ]


ASK = user("Open?")


def test_steps_belong_to_the_answer_that_ends_them() -> None:
    one = model_call(1, ASK, requests="a")
    two = model_call(2, ASK, result("a"), requests="b")
    three = model_call(3, ASK, result("b"), answer="Yes.")
    other = model_call(4, user("And tomorrow?"), answer="No.")
    assert drafted(one, two, three, other) == [
        (["span-1", "span-2", "span-3"], "Open?", "Yes.", None),
        (["span-4"], "And tomorrow?", "No.", None),
    ]


def test_the_same_question_again_is_another_turn_and_so_is_its_repetition_later_in_the_conversation() -> None:
    first = model_call(1, ASK, answer="Yes.")
    again = model_call(2, user("Open?  "), answer="Since nine.")
    later = model_call(3, ASK, assistant("Yes."), ASK, answer="Still.")
    assert [each[2] for each in drafted(first, again, later)] == ["Yes.", "Since nine.", "Still."]


def test_steps_that_nothing_ends_are_a_turn_of_their_own() -> None:
    assert drafted(model_call(1, ASK, requests="a"), model_call(2, user("Else?"), answer="No.")) == [
        (["span-1"], "Open?", None, None),
        (["span-2"], "Else?", "No.", None),
    ]


def test_one_call_alone() -> None:
    assert drafted(model_call(1, ASK, answer="Yes.")) == [(["span-1"], "Open?", "Yes.", None)]
    assert drafted(model_call(1, ASK, requests="a")) == [(["span-1"], "Open?", None, None)]
    assert drafted(model_call(1, ASK, error="timeout")) == [(["span-1"], "Open?", None, "timeout")]
    step = draft_turns([model_call(1, ASK, requests="a")], SpanTree([]))[0]
    assert (len(step.calls), step.final) == (1, None)


def test_failures_in_a_row_are_one_and_a_success_after_them_another() -> None:
    calls = (
        model_call(1, ASK, error="timeout"),
        model_call(2, ASK, error="refused"),
        model_call(3, ASK, answer="Yes."),
    )
    assert drafted(*calls) == [(["span-2"], "Open?", None, "refused"), (["span-3"], "Open?", "Yes.", None)]


def test_a_failure_after_steps_has_them_once() -> None:
    step, failure = model_call(1, ASK, requests="a"), model_call(2, ASK, result("a"), error="timeout")
    assert drafted(step, failure) == [(["span-1", "span-2"], "Open?", None, "timeout")]
    nameless = model_call(2, result("a"), error="timeout")
    assert drafted(step, nameless) == [(["span-1", "span-2"], "Open?", None, "timeout")]


def test_a_failure_after_a_success_is_another_one() -> None:
    calls = (
        model_call(1, ASK, error="timeout"),
        model_call(2, ASK, answer="Yes."),
        model_call(3, ASK, error="refused"),
    )
    assert [each[2:] for each in drafted(*calls)] == [(None, "timeout"), ("Yes.", None), (None, "refused")]


def test_tool_results_alone_continue_the_turn_that_requested_them() -> None:
    a, b = model_call(1, ASK, requests="a"), model_call(2, user("Else?"), requests="b")
    end = model_call(3, assistant("looks"), result("a"), answer="Yes.")
    assert drafted(a, b, end) == [(["span-2"], "Else?", None, None), (["span-1", "span-3"], "Open?", "Yes.", None)]
    unknown = model_call(3, result("c"), answer="Yes.")
    assert drafted(a, b, unknown)[1] == (["span-2", "span-3"], "Else?", "Yes.", None), "the latest, by default"


def test_without_tool_results_and_without_a_question_the_calls_of_one_parent_are_one_request() -> None:
    step = model_call(1, assistant("Hm."), requests="a", parent="p")
    end = model_call(2, assistant("Hm."), answer="Yes.", parent="p")
    other = model_call(3, assistant("Hm."), answer="No.", parent="q")
    assert [each[0] for each in drafted(step, end, other)] == [["span-1", "span-2"], ["span-3"]]
    roots = [model_call(number, assistant("Hm."), requests="a", parent=None) for number in (1, 2)]
    assert [each[0] for each in drafted(*roots)] == [["span-1"], ["span-2"]]


@pytest.mark.parametrize(
    ("parent", "time", "follows"),
    [("agent", (15, 20), True), ("agent", (14, 20), False), ("other", (15, 20), False), (None, (15, 20), False)],
)
def test_a_call_without_input_follows_the_step_of_its_span_that_had_ended(
    parent: str | None, time: tuple[int, int], follows: bool
) -> None:
    step = model_call(1, ASK, requests="a")
    assert (len(drafted(step, model_call(2, answer="Yes.", parent=parent, time=time))) == 1) is follows


def test_a_call_without_input_follows_none_where_two_steps_are_possible() -> None:
    steps = model_call(1, ASK, requests="a"), model_call(2, user("Else?"), requests="b")
    assert len(drafted(*steps, model_call(3, answer="Yes."))) == 3


def test_a_copy_at_the_same_time_is_no_turn_and_one_later_is() -> None:
    first = model_call(1, ASK, answer="Yes.", time=(10, 20))
    for time, count in (((20, 30), 1), ((5, 10), 1), ((21, 30), 2), ((5, 9), 2)):
        assert len(drafted(first, model_call(2, ASK, answer="Yes. ", time=time))) == count
    assert len(drafted(first, model_call(2, ASK, answer="No.", time=(12, 18)))) == 2
    empty = [model_call(number, ASK, answer="", time=(10, 20)) for number in (1, 2)]
    assert len(drafted(*empty)) == 2, "nothing is no copy of nothing"


def test_an_answer_that_a_later_call_has_in_its_history_was_a_step() -> None:
    first = model_call(1, ASK, answer="Let me see.")
    more = model_call(2, ASK, assistant("Let  me see."), result("a"), answer="Yes.")
    assert drafted(first, more) == [(["span-1", "span-2"], "Open?", "Yes.", None)]
    other = model_call(2, ASK, assistant("Something else."), answer="Yes.")
    assert [each[0] for each in drafted(first, other)] == [["span-1"], ["span-2"]]


@pytest.mark.parametrize(("begins", "count"), [(15, 1), (14, 2)])
def test_an_empty_answer_that_ended_before_a_call_with_more_messages_was_a_step(begins: int, count: int) -> None:
    empty = model_call(1, ASK, answer="")
    more = model_call(2, ASK, assistant("Hm."), answer="Yes.", time=(begins, 30))
    assert len(drafted(empty, more)) == count


def test_a_failure_stays_one_whatever_follows() -> None:
    failure = model_call(1, ASK, error="timeout")
    more = model_call(2, ASK, assistant("Hm."), answer="Yes.")
    assert [each[0] for each in drafted(failure, more)] == [["span-1"], ["span-2"]]


def test_drafts_are_in_order_of_their_ends_then_starts_then_spans() -> None:
    def draft(number: int, start: int, end: int) -> TurnDraft:
        return TurnDraft([model_call(number, ASK, answer="Yes.", time=(start, end))])

    late, early, short, twin = draft(1, 0, 30), draft(4, 0, 10), draft(2, 5, 30), draft(3, 5, 30)
    assert sort_by_end([twin, short, late, early]) == [early, late, short, twin]
    assert sort_by_end([late, early]) == [early, late]


def test_a_draft_lasts_from_its_first_call_to_the_latest_end() -> None:
    long = model_call(1, ASK, requests="a", time=(10, 90))
    draft = TurnDraft([long, model_call(2, ASK, answer="Yes.", time=(20, 30))])
    assert (draft.start, draft.end) == (10, 90)
    assert TurnDraft([long]).last is long
    assert (TurnDraft().start, TurnDraft().end, TurnDraft().last) == (0, 0, None)
    around = ParsedSpan(Span("trace", "agent", None, "agent", 3, 7), Call("test", "agent"))
    assert (TurnDraft(enclosing_span=around).start, TurnDraft(enclosing_span=around).end) == (3, 7)
