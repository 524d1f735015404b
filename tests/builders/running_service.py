"""What tests give to a running service, and read from it."""

from __future__ import annotations

from collections.abc import Iterable

from collector.logs.log import Record
from collector.records.json import evaluation_from_json, turn_to_json
from collector.service.app import Running
from evaluators.cases import Turn
from evaluators.results import Evaluation


async def put(service: Running, numbers: Iterable[int], chats: int | None = None) -> None:
    """Append a turn per number to the turns log, each in a conversation by itself, or dealt out to `chats` of them."""
    turns = [
        Turn(
            turn_id=f"t{number}",
            conversation_id=f"c{number % chats if chats else number}",
            input=f"What is {number}?",
            actual_output=f"{number}.",
        )
        for number in numbers
    ]
    await service.logs.turns.append(
        [Record((turn.conversation_id or "").encode(), turn_to_json(turn)) for turn in turns]
    )


async def ledger(service: Running) -> list[Evaluation]:
    """Every evaluation in the log, by partition and offset."""
    log = service.logs.evaluations
    return [
        evaluation_from_json(record.value)
        for partition in range(log.partitions)
        async for batch in log.read(partition, 0)
        for record in batch
        if not record.headers
    ]


def value(service: Running, name: str, **labels: str) -> float:
    """The sum of a metric's series with these labels."""
    return sum(
        sample.value
        for metric in service.telemetry.registry.collect()
        for sample in metric.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )
