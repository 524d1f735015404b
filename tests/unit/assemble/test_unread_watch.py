"""The running service counts text that nobody reads, by scope."""

from __future__ import annotations

from made_up import ASSEMBLER, Trace, chat

from collector.assemble.unread.watch import UnreadTextWatch
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import UNREAD_TEXT

ACME = {"acme.ask": "Is it open tomorrow?", "acme.answer": "Yes, it opens at nine."}


def counts(telemetry: Telemetry, *scopes: str) -> list[float]:
    return [telemetry.counter(UNREAD_TEXT, scope)._value.get() for scope in scopes]


def test_question_and_answer_that_nobody_reads_are_counted_by_scope() -> None:
    telemetry = Telemetry()
    watch = UnreadTextWatch(ASSEMBLER, telemetry)
    trace = Trace().span(
        1, "complete", {"acme.input": ACME["acme.ask"], "acme.output": ACME["acme.answer"]}, scope="acme"
    )
    watch.look(trace.pieces(), 100.0)
    watch.look(trace.pieces(), 100.5)  # one trace a second
    watch.look(trace.pieces(), 101.0)
    assert counts(telemetry, "acme") == [2]


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
        watch.look(trace.pieces(), 100.0 + 10 * number)
    assert counts(telemetry, "acme") == [0]


def test_scopes_that_strangers_invent_are_one_after_the_twentieth() -> None:
    telemetry = Telemetry()
    watch = UnreadTextWatch(ASSEMBLER, telemetry)
    for number in range(25):
        trace = Trace().span(
            1, "x", {"a.input": ACME["acme.ask"], "a.output": ACME["acme.answer"]}, scope=f"scope-{number}"
        )
        watch.look(trace.pieces(), 100.0 + number)
    assert counts(telemetry, "scope-0", "scope-19", "scope-20", "other") == [1, 1, 0, 5]
