"""Scores by version and hour: the state of comparisons, a pure function of the evaluations that were read.

The state is bounded in values of an attribute, in services or prompts, and in hours.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from collector.alerting.releases.places import ComparedPlace, SumsKey, Versions
from collector.export.segments import text_of
from collector.statistics.bounded_sums import BoundedSums, Sums, Weight
from evaluators.cases import Json
from evaluators.results import Evaluation, SkipReason

HOUR = 3600.0
MOST_VALUES = 16
"""The most values of an attribute that are remembered; a new value replaces the rarest."""
MOST_SCOPES = 20
"""The most services or prompts of a monitor whose versions are compared."""
FREQUENT = 20
"""A value with fewer scores is rare: it may be replaced by another one."""
_VALUE = re.compile(r"[\w .:/@+-]{1,64}")


@dataclass(frozen=True, slots=True)
class ComparedAttribute:
    """An attribute whose values are compared; `within` names another attribute if values only mean something within one
    of its values.

    `values` are the values to compare, with the first as the baseline. Without them, a new value is compared with the
    most frequent one before it.
    """

    name: str
    within: str | None = None
    values: tuple[str, ...] = ()


class HourlyScores:
    """The scores of one partition, for `memory` (s)."""

    def __init__(self, compared: Mapping[str, Sequence[ComparedAttribute]], memory: float) -> None:
        """`compared` by monitor."""
        self._compared = compared
        self._memory = int(memory // HOUR)
        self._sums = BoundedSums()
        self._score_counts: dict[ComparedPlace, Counter[str]] = {}
        self.places: dict[ComparedPlace, Versions] = {}

    def add(self, evaluation: Evaluation) -> None:
        """Count a score, or a case without one."""
        attributes = self._compared.get(evaluation.monitor)
        if not attributes or evaluation.reason_code == SkipReason.GATED:
            return
        hour = int(evaluation.time.timestamp() // HOUR)
        added = list(self._sums_of(evaluation))
        for attribute in attributes:
            value = text_of(evaluation.attributes.get(attribute.name))
            if (versions := self._count_value(attribute, evaluation, value)) is not None:
                for key, sums in added:
                    hours = versions.setdefault(value, {}).setdefault(key, {})
                    hours[hour] = hours.get(hour, _NOTHING) + sums

    def _sums_of(self, evaluation: Evaluation) -> Iterator[tuple[SumsKey, Sums]]:
        """The sums that an evaluation adds. One that replaces a failed evaluation takes back what that one added."""
        key = SumsKey(evaluation.evaluator, evaluation.evaluator_version)
        amounts = [(key._replace(lost=True), 1.0 if evaluation.score is None else evaluation.unshown)]
        amounts += [] if evaluation.score is None else [(key, evaluation.score)]
        for key, amount in amounts:
            sums = self._sums.add(
                (evaluation.monitor, key),
                evaluation.subject.conversation_id,
                weight=Weight.of(evaluation.sampling),
                score=amount,
                time=evaluation.time.timestamp(),
            ).mean
            yield key, sums - Sums(w=sums.w, wy=sums.w) if key.lost and evaluation.retry else sums

    def reconfigure(self, compared: Mapping[str, Sequence[ComparedAttribute]]) -> None:
        """Compare these attributes from now on. Scores of unchanged attributes are kept."""
        before, self._compared = self._compared, compared
        for place in list(self.places):
            monitor = place.monitor
            staying = [attribute for attribute in compared.get(monitor, ()) if attribute in before.get(monitor, ())]
            if place.attribute not in [attribute.name for attribute in staying]:
                del self.places[place]
                self._score_counts.pop(place, None)

    def forget(self, now: float) -> None:
        """Drop the hours that are older than the memory."""
        oldest = int(now // HOUR) - self._memory
        for place, versions in list(self.places.items()):
            for value, by_key in list(versions.items()):
                for key, hours in list(by_key.items()):
                    for hour in [each for each in hours if each < oldest]:
                        del hours[hour]
                    if not hours:
                        del by_key[key]
                if not by_key:
                    del versions[value]
                    del self._score_counts[place][value]
            if not versions:
                del self.places[place]
                self._score_counts.pop(place, None)

    def _count_value(self, attribute: ComparedAttribute, evaluation: Evaluation, value: str) -> Versions | None:
        """The versions among which a value belongs, with one more score counted for it; None if it has no room."""
        place = ComparedPlace(evaluation.monitor, attribute.name, _scope(attribute, evaluation.attributes))
        known = self.places.get(place)
        if known is None:
            if sum(compared_place[:2] == place[:2] for compared_place in self.places) >= MOST_SCOPES:
                return None
            known = self.places[place] = {}
        counts = self._score_counts.setdefault(place, Counter())
        if value not in counts:
            if not (value in attribute.values if attribute.values else _VALUE.fullmatch(value)):
                return None
            if len(counts) >= MOST_VALUES:
                rarest = min(counts, key=counts.__getitem__)
                if counts[rarest] >= FREQUENT:
                    return None
                del counts[rarest]
                known.pop(rarest, None)
        counts[value] += 1
        return known


_NOTHING = Sums()


def _scope(attribute: ComparedAttribute, attributes: Mapping[str, Json]) -> str:
    value = text_of(attributes.get(attribute.within)) if attribute.within else ""
    return value if _VALUE.fullmatch(value) else ""


def total(sums: Iterable[Sums]) -> Sums:
    """Several sums as one."""
    return sum(sums, _NOTHING)


def merge(parts: Iterable[HourlyScores]) -> Iterator[tuple[ComparedPlace, Versions]]:
    """The places of all partitions, each with the sums over all partitions."""
    merged: dict[ComparedPlace, Versions] = {}
    for part in parts:
        for place, versions in part.places.items():
            for value, by_key in versions.items():
                for key, hours in by_key.items():
                    into = merged.setdefault(place, {}).setdefault(value, {}).setdefault(key, {})
                    for hour, sums in hours.items():
                        into[hour] = into.get(hour, _NOTHING) + sums
    yield from merged.items()
