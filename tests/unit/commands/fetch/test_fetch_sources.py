"""From what an API answers to OTLP, and the stretches of time that it is asked for."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import orjson
import pytest

from collector.commands.fetch import jaeger, langfuse, mlflow, phoenix, tempo
from collector.commands.fetch.api_reader import authorization
from collector.commands.fetch.fetch import trace_lines
from collector.commands.fetch.source import Wanted, halves, stretches
from collector.errors import BadInput

TRACE, SPAN = "5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174"
IN_BASE64 = {"traceId": "W47/95gDgQPSabYzgT/GDA==", "spanId": "7uGbfsPBsXQ="}
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def request(**span: object) -> bytes:
    return orjson.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "chat", **span}]}]}]})


@pytest.mark.parametrize("ids", [IN_BASE64, {"traceId": TRACE, "spanId": SPAN}], ids=["base64", "hex"])
def test_ids_are_hex_however_they_come(ids: dict[str, str]) -> None:
    [(trace_id, line)] = trace_lines(request(**ids, links=[ids], parentSpanId=ids["spanId"]))
    span = orjson.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    assert trace_id == span["traceId"] == span["links"][0]["traceId"] == TRACE
    assert span["spanId"] == span["parentSpanId"] == SPAN
    assert b"\n" not in line


def test_what_is_not_otlp_is_refused() -> None:
    with pytest.raises(BadInput):
        list(trace_lines(request(traceId="nonsense", spanId=SPAN)))


def test_stretches_are_the_whole_time_newest_first() -> None:
    found = list(stretches(NOON, NOON + timedelta(hours=7), timedelta(hours=3)))
    assert found[0] == (NOON + timedelta(hours=4), NOON + timedelta(hours=7))
    assert [begin for begin, _ in found[:-1]] == [end for _, end in found[1:]]
    assert found[-1] == (NOON, NOON + timedelta(hours=1))


@pytest.mark.parametrize("seconds", [2, 3, 7, 21600])
def test_halves_are_the_whole_stretch(seconds: int) -> None:
    second = timedelta(seconds=1)
    newer, older = halves(NOON, NOON + seconds * second, second)
    assert older[0] == NOON
    assert older[1] == newer[0]
    assert newer[1] == NOON + seconds * second
    assert all(end - begin >= second and begin.microsecond == 0 for begin, end in (newer, older))
    assert halves(NOON, NOON + second, second) == []


@pytest.mark.parametrize("name", ["resourceSpans", "batches"])
def test_tempos_json_has_two_envelopes(name: str) -> None:
    spans = orjson.loads(request(**IN_BASE64))["resourceSpans"]
    for document in ({name: spans}, {"trace": {name: spans}}):
        assert [trace_id for trace_id, _ in trace_lines(tempo.otlp_request(orjson.dumps(document)))] == [TRACE]


def test_tempos_newest_come_first() -> None:
    times = {"a1": "9", "b2": "1684778327699392724", "c3": "1684778327699392725"}
    found = [{"traceID": name, "startTimeUnixNano": at} for name, at in times.items()]
    assert tempo.trace_ids_of({"traces": [*found, {"traceID": "../x"}, {}]}) == ["c3", "b2", "a1"]
    assert tempo.trace_ids_of({"traces": None}) == []


def test_jaeger_streams_or_answers_at_once() -> None:
    one = b'{\n "result": {"resourceSpans": []}}'
    assert jaeger.documents_in(one) == [one]
    assert jaeger.documents_in(b'{"result": 1}\n{"result": 2}\n') == [b'{"result": 1}', b'{"result": 2}']
    assert jaeger.documents_in(b"") == []


def test_jaegers_404_has_interval_from_that_of_another() -> None:
    assert jaeger.says_none(b'{"error":{"httpCode":404,"message":"No traces found"}}')
    assert not any(map(jaeger.says_none, [b"404 page not found", b"{}", b'{"error": "not found"}', b"[]"]))


def test_phoenix_leaves_nothing_empty() -> None:
    value = {"string_value": "five", "int_value": None}
    attributes = [{"key": "output.value", "value": value}, {"key": "x", "value": {"string_value": None}}]
    span = {"trace_id": TRACE, "span_id": SPAN, "parent_span_id": None, "kind": None, "attributes": attributes}
    [(_, line)] = trace_lines(orjson.dumps(phoenix.otlp_request([span])))
    written = orjson.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    assert written["attributes"] == [{"key": "output.value", "value": {"stringValue": "five"}}]


def test_langfuses_other_ids_become_ids() -> None:
    names = [TRACE, TRACE.upper(), "5b8efff7-9803-8103-d269-b633813fc60c", "my-own-trace", "my-own-trace", "another"]
    ids = [langfuse.hex_id(each, 16) for each in names]
    assert ids[:3] == [TRACE] * 3
    assert ids[3] == ids[4] != ids[5]
    assert all(len(each) == 32 for each in ids)
    assert len(langfuse.hex_id("5b8efff7-9803-8103-d269-b633813fc60c", 8)) == 16


def test_mlflows_filter_holds_time_and_query() -> None:
    wanted = Wanted(since=NOON, until=NOON + timedelta(hours=1), limit=1, query="tags.a = 'b'")
    body = mlflow.search_body(wanted, "3", "next")
    start = int(NOON.timestamp() * 1000)
    times = f"attributes.timestamp_ms >= {start} AND attributes.timestamp_ms < {start + 3_600_000}"
    assert body["filter"] == f"{times} AND tags.a = 'b'"
    assert body["page_token"] == "next"
    assert "page_token" not in mlflow.search_body(wanted, "3", None)


def test_tokens_with_a_name_are_basic() -> None:
    assert authorization("abc") == "Bearer abc"
    assert authorization("pk:sk") == "Basic cGs6c2s="
    assert all(authorization(each).startswith("Bearer") for each in (":abc", "abc:"))


def test_every_source_names_options_that_there_are() -> None:
    sources = (tempo.SOURCE, jaeger.SOURCE, phoenix.SOURCE, langfuse.SOURCE, mlflow.SOURCE)
    assert set(itertools.chain(*(each.takes for each in sources))) == {"query", "service", "project"}
