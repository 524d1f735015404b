"""Feedback as a log record without a trace: it is not ignored, and the same response is the same trace."""

from __future__ import annotations

from made_up import Trace

from collector.receive.parsed_request import parse

SAID = {"gen_ai.evaluation.name": "thumbs", "gen_ai.evaluation.score.value": 1.0, "gen_ai.response.id": "r-1"}


def test_feedback_without_a_trace_gets_one_of_its_response() -> None:
    trace = Trace().record(None, "gen_ai.evaluation.result", None, SAID)
    trace.record(None, "gen_ai.evaluation.result", None, {"gen_ai.evaluation.name": "of nothing"})
    trace.record(None, "other", None, SAID)
    for each in trace.logs.resource_logs:
        each.scope_logs[0].log_records[0].trace_id = b""
    body = trace.logs.SerializeToString()
    first, again = (parse(body, "logs", "protobuf") for _ in range(2))
    assert (first.accepted, first.without_trace) == (1, 2)
    assert [each.key for each in first.records] == [each.key for each in again.records]
    assert b"thumbs" in first.records[0].value
