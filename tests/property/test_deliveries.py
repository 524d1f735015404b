"""However a trace is delivered, the same turns come of it.

The captured payloads, their requests in any order, each delivered once or twice, cut up into one span or log record per
request, log records first or last, as protobuf or JSON, in any combination.
"""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import orjson
import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import HealthCheck, given, settings, strategies as st
from truth import PAYLOADS, folders

from collector.assemble.collect_trace import TracePiece
from collector.assemble.open_traces import TraceLimits
from collector.assemble.stage import AssembleStage
from collector.assemble.trace import Assembler
from collector.dialects.registry import Dialects
from collector.link.turn_router import TurnRouter
from collector.logs.log import TICK, StoredRecord
from collector.logs.memory import MemoryLog
from collector.otlp.decode import Signal, request_from_protobuf
from collector.receive.parsed_request import parse
from collector.records.json import turn_to_json

ASSEMBLER = Assembler(Dialects.installed())
IDS = {"traceId", "spanId", "parentSpanId"}


@dataclass(frozen=True)
class Request:
    signal: Signal
    body: bytes


@dataclass(frozen=True)
class Delivery:
    """How requests are delivered.

    `apart` is cut up into one item a request; `again` says whether everything comes a second time, cut up the same way or
    otherwise. `first` is the signal all of which comes before the other; None: in any order.
    """

    seed: int
    apart: bool
    again: Literal["no", "same", "otherwise"]
    json: bool
    shuffled: bool
    first: Signal | None

    def of(self, requests: Sequence[Request]) -> list[Request]:
        chance = random.Random(self.seed)
        pieces = [each for request in requests for each in apart(request)]
        made = list(pieces if self.apart else requests)
        if self.again != "no":
            made += pieces if self.apart == (self.again == "same") else requests
        if self.shuffled:
            chance.shuffle(made)
        if self.first is not None:
            made.sort(key=lambda each: each.signal != self.first)
        return made


deliveries = st.builds(
    Delivery,
    seed=st.integers(0, 2**32),
    apart=st.booleans(),
    again=st.sampled_from(["no", "same", "otherwise"]),
    json=st.booleans(),
    shuffled=st.booleans(),
    first=st.sampled_from([None, "traces", "logs"]),
)


@cache
def captured(folder: str) -> tuple[Request, ...]:
    return tuple(
        Request("logs" if "logs" in path.name else "traces", path.read_bytes())
        for path in sorted((PAYLOADS / folder).glob("*.pb"))
    )


def apart(request: Request) -> Iterator[Request]:
    """A request for each span or log record, with its resource and scope."""
    whole: Any = request_from_protobuf(request.body, request.signal)
    resources, scopes, items = (
        ("resource_spans", "scope_spans", "spans")
        if request.signal == "traces"
        else ("resource_logs", "scope_logs", "log_records")
    )
    for resource in getattr(whole, resources):
        for scope in getattr(resource, scopes):
            for item in getattr(scope, items):
                one: Any = type(whole)()
                around = getattr(one, resources).add(resource=resource.resource, schema_url=resource.schema_url)
                inner = getattr(around, scopes).add(scope=scope.scope, schema_url=scope.schema_url)
                getattr(inner, items).append(item)
                yield Request(request.signal, one.SerializeToString())


def as_json(request: Request) -> bytes:
    """OTLP/JSON: as protobuf's, but with ids in hex."""
    return orjson.dumps(_with_hex_ids(MessageToDict(request_from_protobuf(request.body, request.signal))))


def _with_hex_ids(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_hex_ids(each) for each in value]
    if isinstance(value, dict):
        return {key: base64.b64decode(each).hex() if key in IDS else _with_hex_ids(each) for key, each in value.items()}
    return value


def turns(requests: Iterable[Request], *, json: bool = False) -> list[bytes]:
    """The turns of all traces, each as its record holds it, in order of their ids."""
    traces: dict[bytes, list[TracePiece]] = {}
    for each in requests:
        body, form = (as_json(each), "json") if json else (each.body, "protobuf")
        for record in parse(body, each.signal, form).records:
            traces.setdefault(record.key or b"", []).append(TracePiece(each.signal, record.value))
    made = [each.turn for pieces in traces.values() for each in ASSEMBLER.assemble(pieces, bad).turns]
    return sorted(map(turn_to_json, made))


async def turns_of_the_stage(batches: Sequence[Iterable[Request]]) -> list[bytes]:
    """The turns that the assemble stage gives of one batch of requests after the other, a pause after each."""
    log = MemoryLog("turns", partitions=1)
    stage = AssembleStage(
        ASSEMBLER,
        TurnRouter(log),
        TraceLimits(quiet=10.0, linger=3600.0),
        on_bad_record=lambda _record, error: bad(error),
    )
    async with stage.open_fold(0, None) as fold:
        position, time = 0, 0.0
        for batch in batches:
            for each in batch:
                for record in parse(each.body, each.signal, "protobuf").records:
                    stored = StoredRecord(0, position, time, record.key, record.value, record.headers)
                    await fold.deliver([stored])
                    position, time = position + 1, time + 0.01
            time += 60.0
            await fold.deliver([StoredRecord(0, position, time, None, b"", TICK)])
            position += 1
    return sorted([record.value or b"" async for batch in log.read(0, 0) for record in batch])


def bad(error: Exception) -> None:
    raise AssertionError(error)


@cache
def plainly(folder: str) -> list[bytes]:
    return turns(captured(folder))


@pytest.mark.parametrize("folder", folders())
@settings(max_examples=12, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(delivery=deliveries)
def test_the_same_turns_however_delivered(folder: str, delivery: Delivery) -> None:
    assert plainly(folder), "the payload has turns"
    assert turns(delivery.of(captured(folder)), json=delivery.json) == plainly(folder)


@pytest.mark.parametrize("folder", folders())
@settings(max_examples=3, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(one=deliveries, other=deliveries)
def test_what_comes_again_when_its_traces_are_closed_gives_nothing_new(
    folder: str, one: Delivery, other: Delivery
) -> None:
    batches = [each.of(captured(folder)) for each in (one, other)]
    assert sorted(asyncio.run(turns_of_the_stage(batches))) == plainly(folder)
