"""Conversation ids over many traces: one that never repeats while another one does was made up for each run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from collector.assemble.collect_trace import CollectedTrace
from collector.assemble.identity import IdentityLookup

_FEWEST = 6
"""Traces before anything is said."""
_MAX_IDS = 2000
"""Ids of a service and an attribute that are remembered."""
_MAX_PAIRS = 200
_REPETITIONS = 10
"""Of ids of a sample of traces, where most of a conversation's traces are not in the sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnrepeatedId:
    """An attribute whose ids never repeat in the traces of a service, and another whose ids do."""

    service: str
    attribute: str
    repeated: str
    traces: int

    def sentence(self) -> str:
        """What it means, with the setting that chooses the other one."""
        return (
            f"{self.attribute} of {self.service or 'a service without a name'} names another conversation in each of "
            f"{self.traces} traces, while {self.repeated} repeats; "
            f"to use that: assemble.identity.conversation: [{self.repeated}]"
            f"; or, to use {self.attribute} only where there is no other: assemble.identity.made_up: [{self.attribute}]"
        )


class ConversationIdStatistics:
    """Counts how often the ids under each attribute repeat, by service. Memory is bounded by `pairs` of both.

    Of `sampled` traces few belong together: ten repetitions are enough there, where otherwise half must repeat.
    """

    def __init__(self, pairs: int = _MAX_PAIRS, *, sampled: bool = False) -> None:
        self._ids: dict[tuple[str, str], dict[int, int]] = {}
        self._pairs = pairs
        self._sampled = sampled

    def add(self, service: str, ids: Mapping[str, str]) -> None:
        """Add the ids of one trace, by attribute."""
        for attribute, value in ids.items():
            key = (service, attribute)
            if key not in self._ids and len(self._ids) >= self._pairs:
                continue
            counts, number = self._ids.setdefault(key, {}), hash(value)
            if number in counts or len(counts) < _MAX_IDS:
                counts[number] = counts.get(number, 0) + 1

    def repeat(self, value: str) -> None:
        """Count an id once more, under whichever attributes it is known."""
        number = hash(value)
        for counts in self._ids.values():
            if number in counts:
                counts[number] += 1

    def find(self) -> list[UnrepeatedId]:
        """The attributes whose ids never repeat where another's do, in as many traces."""
        unrepeated: list[UnrepeatedId] = []
        for (service, attribute), counts in sorted(self._ids.items()):
            if len(counts) < _FEWEST or max(counts.values()) > 1:
                continue
            others = (
                (sum(other.values()), name)
                for (owner, name), other in self._ids.items()
                if owner == service and name != attribute and self._repeats(other)
            )
            total, name = max(others, default=(0, ""))
            if 2 * total >= len(counts):
                unrepeated.append(UnrepeatedId(service=service, attribute=attribute, repeated=name, traces=len(counts)))
        return unrepeated

    def _repeats(self, counts: Mapping[int, int]) -> bool:
        total = sum(counts.values())
        return 2 * len(counts) <= total or (self._sampled and total - len(counts) >= _REPETITIONS)


def ids_of(trace: CollectedTrace, identity: IdentityLookup) -> tuple[str, dict[str, str]]:
    """The service of a trace, and the conversation ids in it by attribute, where there is only one.

    None where a configured attribute names the conversation: then nothing competes with it.
    """
    values: dict[str, set[str]] = {}
    service = ""
    for span in trace.spans:
        name = span.resource.get("service.name")
        service = name if isinstance(name, str) else service
        if identity.configured is not None and identity.configured.find(span.attributes)[0]:
            return service, {}
        for attribute, value in identity.list_conversations(span.attributes):
            values.setdefault(attribute, set()).add(value)
    return service, {attribute: next(iter(value)) for attribute, value in values.items() if len(value) == 1}


def find_unrepeated(traces: Iterable[CollectedTrace], identity: IdentityLookup) -> list[UnrepeatedId]:
    """The attributes of these traces whose ids never repeat where another's do."""
    statistics = ConversationIdStatistics()
    for trace in traces:
        statistics.add(*ids_of(trace, identity))
    return statistics.find()
