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
        )


class ConversationIdStatistics:
    """Counts how often the ids under each attribute repeat, by service. Memory is bounded."""

    def __init__(self) -> None:
        self._ids: dict[tuple[str, str], dict[str, int]] = {}

    def add(self, service: str, ids: Mapping[str, str]) -> None:
        """Add the ids of one trace, by attribute."""
        for attribute, value in ids.items():
            key = (service, attribute)
            if key not in self._ids and len(self._ids) >= _MAX_PAIRS:
                continue
            counts = self._ids.setdefault(key, {})
            if value in counts or len(counts) < _MAX_IDS:
                counts[value] = counts.get(value, 0) + 1

    def find(self) -> list[UnrepeatedId]:
        """The attributes whose ids never repeat where another's do, in as many traces."""
        unrepeated: list[UnrepeatedId] = []
        for (service, attribute), counts in sorted(self._ids.items()):
            if len(counts) < _FEWEST or max(counts.values()) > 1:
                continue
            others = (
                (sum(other.values()), name)
                for (owner, name), other in self._ids.items()
                if owner == service and name != attribute and _repeats(other)
            )
            total, name = max(others, default=(0, ""))
            if 2 * total >= len(counts):
                unrepeated.append(UnrepeatedId(service=service, attribute=attribute, repeated=name, traces=len(counts)))
        return unrepeated


def _repeats(counts: Mapping[str, int]) -> bool:
    return 2 * len(counts) <= sum(counts.values())


def ids_of(trace: CollectedTrace, identity: IdentityLookup) -> tuple[str, dict[str, str]]:
    """The service of a trace, and the conversation ids in it by attribute, where there is only one."""
    values: dict[str, set[str]] = {}
    service = ""
    for span in trace.spans:
        name = span.resource.get("service.name")
        service = name if isinstance(name, str) else service
        for attribute, value in identity.list_conversations(span.attributes):
            values.setdefault(attribute, set()).add(value)
    return service, {attribute: next(iter(each)) for attribute, each in values.items() if len(each) == 1}


def find_unrepeated(traces: Iterable[CollectedTrace], identity: IdentityLookup) -> list[UnrepeatedId]:
    """The attributes of these traces whose ids never repeat where another's do."""
    statistics = ConversationIdStatistics()
    for trace in traces:
        statistics.add(*ids_of(trace, identity))
    return statistics.find()
