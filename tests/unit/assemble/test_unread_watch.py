"""The running service counts text that nobody reads, by scope."""

from __future__ import annotations

import pytest
from made_up import ASSEMBLER, Trace, chat

from collector.assemble.identity import IdentityLookup
from collector.assemble.trace import Assembler
from collector.assemble.unread.examination import ConversationIdWatch, UnreadTextWatch
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import UNREAD_TEXT, UNREPEATED_IDS

ACME = {"acme.ask": "Is it open tomorrow?", "acme.answer": "Yes, it opens at nine."}


def counts(telemetry: Telemetry, *scopes: str) -> list[float]:
    return [telemetry.counter(UNREAD_TEXT, scope)._value.get() for scope in scopes]


def test_question_and_answer_that_nobody_reads_are_counted_by_scope() -> None:
    telemetry = Telemetry()
    watch = UnreadTextWatch(ASSEMBLER, telemetry)
    trace = Trace().span(
        1, "complete", {"acme.input": ACME["acme.ask"], "acme.output": ACME["acme.answer"]}, scope="acme"
    )
    watch.examine("t", trace.pieces(), 100.0)
    watch.examine("t", trace.pieces(), 100.5)  # one trace a second
    watch.examine("t", trace.pieces(), 101.0)
    assert counts(telemetry, "acme") == [2]


@pytest.mark.parametrize(("event", "ask"), [("", "acme.input"), ("acme", ""), ("acme", "acme.input")])
def test_an_event_or_attribute_without_a_name_is_no_place(event: str, ask: str) -> None:
    telemetry = Telemetry()
    held = {ask: ACME["acme.ask"], "acme.output": ACME["acme.answer"]}
    trace = Trace().span(1, "complete", {}, scope="acme", events=[(event, held)])
    UnreadTextWatch(ASSEMBLER, telemetry).examine("t", trace.pieces(), 100.0)
    assert counts(telemetry, "acme") == [float(bool(event and ask))]


def test_what_is_read_and_what_is_no_talk_is_not_counted() -> None:
    telemetry = Telemetry()
    watch = UnreadTextWatch(ASSEMBLER, telemetry)
    read = Trace().span(1, "chat m", chat("Is it open tomorrow?", "Yes, at nine."), scope="acme")
    web = {
        "http.request.body": "please say when it opens",
        "db.statement": "SELECT name FROM shops",
        "response.note": "it went very well",
    }
    for number, trace in enumerate((read, Trace().span(1, "GET /", web, scope="acme"))):
        watch.examine("t", trace.pieces(), 100.0 + 10 * number)
    assert counts(telemetry, "acme") == [0]


def test_scopes_that_strangers_invent_are_one_after_the_twentieth() -> None:
    telemetry = Telemetry()
    watch = UnreadTextWatch(ASSEMBLER, telemetry)
    for number in range(25):
        trace = Trace().span(
            1, "x", {"a.input": ACME["acme.ask"], "a.output": ACME["acme.answer"]}, scope=f"scope-{number}"
        )
        watch.examine("t", trace.pieces(), 100.0 + number)
    assert counts(telemetry, "scope-0", "scope-19", "scope-20", "other") == [1, 1, 0, 5]


def talked(watch: ConversationIdWatch, number: int, conversation: str, session: str, *, looked_at: bool = True) -> None:
    """A trace of a turn comes, and closes once more after late spans."""
    trace = Trace(f"{number + 1:032x}")
    ids = {"gen_ai.conversation.id": conversation, "session.id": session}
    trace.span(1, "chat m", {**chat("Is it open?", "Yes."), **ids})
    turns = [each.turn for each in ASSEMBLER.assemble(trace.pieces()).turns]
    for closing in range(2):
        watch.note_ids(trace.trace_id.hex(), (each.conversation_id for each in turns))
        if looked_at:
            watch.examine(trace.trace_id.hex(), trace.pieces(), 10.0 * number + 2 * closing)


def test_ids_that_never_repeat_are_reported_once_with_the_setting(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry()
    watch = ConversationIdWatch(ASSEMBLER, telemetry)
    for number in range(120):
        talked(watch, number, f"run-{number}", f"session-{number // 3}")
    assert telemetry.counter(UNREPEATED_IDS, "gen_ai.conversation.id")._value.get() == 1
    [record] = caplog.records
    assert "assemble.identity.conversation: [session.id]" in record.getMessage()


def test_conversations_of_which_one_trace_is_looked_at_are_not_blamed(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry()
    watch = ConversationIdWatch(ASSEMBLER, telemetry)
    for number in range(240):  # two traces each, beside a session that all share
        talked(watch, number, f"talk-{number // 2}", "browser", looked_at=number % 2 == 0)
    assert telemetry.counter(UNREPEATED_IDS, "gen_ai.conversation.id")._value.get() == 0
    assert not caplog.records


def test_what_a_setting_chose_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    for lookup in (IdentityLookup(["session.id"]), IdentityLookup(made_up=["gen_ai.conversation.id"])):
        watch = ConversationIdWatch(Assembler(ASSEMBLER.dialects, lookup), Telemetry())
        for number in range(120):
            talked(watch, number, f"run-{number}", f"session-{number // 3}")
    assert not caplog.records
