"""Whether what an item costs grows with how many there are: the same at 1, 4 and 16 times the size.

Floors are the sizes' own smallest: a ratio of 1 is flat, and up to 1.5 is memory that caches no longer hold. In this
process, without I/O; CPU per item.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ingest import parts_span, put
from judgeless_plan import plan, records
from measured import arguments, beside, cpu_of
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.assemble.collect_trace import TracePiece
from collector.assemble.open_traces import OpenTraces, TraceLimits
from collector.assemble.trace import Assembler
from collector.dialects.registry import Dialects
from collector.evaluate.partition_state import PartitionState
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.logs.log import StoredRecord
from collector.otlp.decode import request_from_protobuf, split_by_trace
from collector.receive.parsed_request import parse
from collector.redact.open_redactor import RedactSettings, open_redactors
from collector.service.garbage import COLLECT_AFTER

GROUP = "growth"
TIMES = (1, 4, 16)
AIM = 1.5
Measure = Callable[[int], float]
"""Seconds of CPU per item at a size."""


def main() -> None:
    given = arguments(__doc__ or "")
    gc.set_threshold(*COLLECT_AFTER)  # as in the service
    scale, repeats = (0.02, 1) if given.smoke else (1.0, 5 if given.long else 3)
    for name, unit, base, measure in (
        ("traffic: traces taken in and assembled", "µs CPU/turn", 500, traffic),
        ("exchanges in one trace", "µs CPU/turn", 40, exchanges),
        ("spans in one request", "µs CPU/span", 125, request),
        ("traces open at once", "µs CPU/span", 2000, open_traces),
        ("turns judged", "µs CPU/turn", 1000, turns),
        ("open conversations", "µs CPU/turn", 1000, open_conversations),
        ("turns in a conversation", "µs CPU/turn", 12, long_conversations),
        ("turns under one conversation id", "µs CPU/turn", 500, one_id),
        ("messages in a turn's history", "µs CPU/message", 10, history),
        ("evaluators in a monitor", "µs CPU/evaluation", 2, evaluators),
    ):
        sizes = [max(2, int(base * scale)) * times for times in TIMES]
        measure(sizes[0])
        rounds = [[measure(size) for size in sizes] for _ in range(repeats)]
        for column, size in enumerate(sizes):
            floors, works = [each[0] for each in rounds], [each[column] for each in rounds]
            note = f"{size:,}; floor: at {sizes[0]:,}"
            aim = AIM if column else None
            beside(GROUP, f"{name}, {TIMES[column]}x", unit, floors, works, 1e6, aim=aim, note=note).show()


def cost(work: Callable[[], object], items: int) -> float:
    gc.collect()
    return cpu_of(work) / items


ASSEMBLER: list[Assembler] = []


def assembler() -> Assembler:
    if not ASSEMBLER:
        ASSEMBLER.append(Assembler(Dialects.installed()))
    return ASSEMBLER[0]


def request_of(traces: int, spans: int) -> bytes:
    made = ExportTraceServiceRequest()
    scope = made.resource_spans.add().scope_spans.add()
    number = 0
    for trace in range(traces):
        for _ in range(spans):
            number += 1
            span = scope.spans.add(trace_id=(trace + 1).to_bytes(16, "big"), span_id=number.to_bytes(8, "big"))
            span.start_time_unix_nano = 1_795_230_000_000_000_000 + number * 1000
            span.end_time_unix_nano = span.start_time_unix_nano + 900
            parts_span(span, number)
            put(span.attributes, "number", number)
    return made.SerializeToString()


def traffic(size: int) -> float:
    bodies = [request_of(100, 1)] * (size // 100 or 1)

    def work() -> None:
        for body in bodies:
            for _, value in split_by_trace(request_from_protobuf(body, "traces"), body).pieces:
                assert assembler().assemble([TracePiece("traces", value)]).turns

    return cost(work, len(bodies) * 100)


def exchanges(size: int) -> float:
    traces = max(1, 640 // size)
    piece = TracePiece("traces", request_of(1, size))

    def work() -> None:
        for _ in range(traces):
            assert len(assembler().assemble([piece]).turns) == size

    return cost(work, traces * size)


def request(size: int) -> float:
    """As receive takes a request that comes, with what it redacts by itself."""
    body, redactor = request_of(size, 1), open_redactors(RedactSettings()).everybody
    times = max(1, 8000 // size)

    def work() -> None:
        for _ in range(times):
            assert len(parse(body, "traces", "protobuf", redactor=redactor).records) == size

    return cost(work, times * size)


def open_traces(size: int) -> float:
    held = OpenTraces(TraceLimits(quiet=size / 1000, linger=size / 1000))
    piece = TracePiece("traces", b"x" * 100)

    def take(numbers: Iterable[int]) -> None:
        for number in numbers:
            now = number / 1000
            for _ in held.advance(now):
                pass
            for _ in held.add(f"{number:032x}", piece, number, now):
                pass

    take(range(3 * size))
    return cost(lambda: take(range(3 * size, 3 * size + 20_000)), 20_000)


def applied(state: PartitionState, given: Sequence[StoredRecord]) -> Callable[[], None]:
    async def apply() -> None:
        for record in given:
            await state.apply(record)

    return lambda: asyncio.run(apply())


def state_of(**options: Any) -> PartitionState:
    return PartitionState(plan(**options), ReplayPoint(0))


def turns(size: int) -> float:
    given = list(records(size, 1))
    return cost(applied(state_of(), given), len(given))


def open_conversations(size: int) -> float:
    given = list(records(size, 3))
    state = state_of(of_turn=0, of_conversation=1)
    applied(state, given[: 2 * size])()
    measured = given[2 * size : 2 * size + 1000]
    return cost(applied(state, measured), len(measured))


def long_conversations(size: int) -> float:
    conversations = max(2, 1920 // size)
    given = list(records(conversations, size))
    return cost(applied(state_of(of_turn=0, of_conversation=1), given), len(given))


def one_id(size: int) -> float:
    given = list(records(1, size))
    return cost(applied(state_of(of_turn=0, of_conversation=1), given), len(given))


def history(size: int) -> float:
    given = list(records(max(4, 1600 // size), 1, history=size))
    return cost(applied(state_of(of_turn=1, of_conversation=1), given), len(given) * size)


def evaluators(size: int) -> float:
    given = list(records(300, 1))
    return cost(applied(state_of(of_turn=size), given), len(given) * size)


if __name__ == "__main__":
    main()
