"""Requests to judges as spans at a real OTLP endpoint: children of the evaluations' spans, and never judged."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from chat_server import completion, rating, refusal, serving
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status
from otlp_destination import Destination
from test_batches import prepare

from collector.config.loading import load
from collector.logs.log import Record
from collector.otlp.evaluation_spans import span_id
from collector.otlp.own_items import OWN_SCOPE, OwnItems
from collector.receive.parsed_request import parse
from collector.records.json import turn_to_json
from collector.service.app import running
from evaluators.cases import Turn

TRACE = "5b8efff798038103d269b633813fc60c"
TURN = Turn(
    turn_id="t1", conversation_id="c1", trace_id=TRACE, span_id="eee19b7ec3c1b174", input="What?", actual_output="It."
)


def values(span: Span) -> dict[str, Any]:
    found = {}
    for pair in span.attributes:
        kind = pair.value.WhichOneof("value")
        value = getattr(pair.value, kind)
        found[pair.key] = [each.string_value for each in value.values] if kind == "array_value" else value
    return found


async def spans_of(folder: Path, turn: Turn, first: Any = None, **otlp: Any) -> tuple[list[Span], bytes]:
    """The spans that a service sends of one turn's evaluation, whose first request may be refused."""
    destination = Destination()
    answer = completion(rating(), finish_reason="stop")

    def respond(_body: dict[str, Any], number: int) -> Any:
        return first if first is not None and number == 0 else answer

    async with serving(respond) as judge, destination.serve():
        prepare(folder, judge.base_url, 0)
        config = yaml.safe_load((folder / "evalstream.yaml").read_text())
        config["export"] = {"otlp": {"endpoint": destination.endpoint, "gzip": False, "events": False, **otlp}}
        (folder / "evalstream.yaml").write_text(yaml.safe_dump(config))
        async with running(load(folder / "evalstream.yaml"), {"evaluate", "export"}) as started:
            await started.logs.turns.append([Record(b"c1", turn_to_json(turn))])
            async with asyncio.timeout(30):
                while not any(span.name == "evaluate helpful" for span in destination.spans):
                    if turn.trace_id is None and judge.requests:
                        break
                    await asyncio.sleep(0.02)
    return destination.spans, judge.base_url.encode()


async def test_a_request_is_a_client_span_below_the_evaluation(tmp_path: Path) -> None:
    spans, url = await spans_of(tmp_path, TURN, refusal(429, retry_after="0"), judge_spans=True)
    [evaluation] = [span for span in spans if span.name == "evaluate helpful"]
    refused, answered = [span for span in spans if span.name == "chat m"]
    for span in (refused, answered):
        assert span.kind == Span.SPAN_KIND_CLIENT
        assert span.trace_id.hex() == TRACE
        assert span.parent_span_id == evaluation.span_id == span_id(values(evaluation)["evalstream.evaluation.id"])
    told = values(answered)
    assert told["gen_ai.operation.name"] == "chat"
    assert told["gen_ai.provider.name"] == "openai"
    assert (told["gen_ai.request.model"], told["gen_ai.response.model"]) == ("m", "judge-2")
    assert (told["gen_ai.usage.input_tokens"], told["gen_ai.usage.output_tokens"]) == (1000, 100)
    assert told["evalstream.cost_usd"] == pytest.approx(values(evaluation)["evalstream.cost_usd"])
    assert told["gen_ai.response.finish_reasons"] == ["stop"]
    assert told["server.port"] == int(url.rpartition(b":")[2].partition(b"/")[0])
    assert told["evalstream.judge"] == "main"
    assert (values(refused)["evalstream.judge.attempt"], told["evalstream.judge.attempt"]) == (1, 2)
    assert values(refused)["http.response.status_code"] == 429
    assert (refused.status.code, answered.status.code) == (Status.STATUS_CODE_ERROR, Status.STATUS_CODE_UNSET)
    assert not any("messages" in name for name in told)


async def test_texts_go_out_on_request_alone(tmp_path: Path) -> None:
    spans, _ = await spans_of(tmp_path, TURN, judge_spans=True, judge_texts=True)
    [span] = [span for span in spans if span.name == "chat m"]
    system, user = json.loads(values(span)["gen_ai.input.messages"])
    assert (system["role"], user["role"]) == ("system", "user")
    assert "What?" in user["parts"][0]["content"]
    [answer] = json.loads(values(span)["gen_ai.output.messages"])
    assert answer["role"] == "assistant"
    assert '"score":7' in answer["parts"][0]["content"]


@pytest.mark.parametrize(
    ("turn", "asked"), [(TURN, False), (Turn(turn_id="t1", input="What?", actual_output="It."), True)]
)
async def test_off_by_default_and_where_there_is_no_trace(tmp_path: Path, turn: Turn, asked: bool) -> None:
    spans, _ = await spans_of(tmp_path, turn, judge_spans=asked)
    assert [span.name for span in spans if span.name.startswith("chat")] == []


async def test_they_are_not_judged_when_they_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda size: "6" * (2 * size))
    spans, _ = await spans_of(tmp_path, TURN, judge_spans=True)
    scope = ScopeSpans(scope=InstrumentationScope(name=OWN_SCOPE), spans=spans)
    request = ExportTraceServiceRequest(resource_spans=[ResourceSpans(scope_spans=[scope])])
    own = OwnItems(("6" * 64).encode())
    assert parse(request.SerializeToString(), "traces", own=own).records == []
    assert parse(request.SerializeToString(), "traces", own=OwnItems(b"another")).records
