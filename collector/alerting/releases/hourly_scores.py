"""Scores by version and hour: the state of comparisons, a pure function of the evaluations that were read.

Bounded: so many values of an attribute, within so many others, for so many hours.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from collector.export.segments import text_of
from collector.statistics.bounded_sums import BoundedSums, Sums, Weight
from evaluators.cases import Json
from evaluators.results import Evaluation, SkipReason

HOUR = 3600.0
VALUES = 16
"""Values of an attribute that are remembered; the rarest make room."""
SCOPES = 20
"""Services, or prompts, whose versions are told apart for a monitor."""
RARE = 20
"""Scores below which a value makes room for another one."""
_VALUE = re.compile(r"[\w .:/@+-]{1,64}")


@dataclass(frozen=True, slots=True)
class ComparedAttribute:
    """An attribute whose values are compared, within each value of another one where it has a meaning only there.

    `values`: those to compare, the first of them being the one that the others are compared with. Without them, a value
    that is new is compared with the most frequent one before it.
    """

    name: str
    within: str | None = None
    values: tuple[str, ...] = ()


class ComparedPlace(NamedTuple):
    """The thing compared: an attribute of a monitor, within a value of another one ("" where there is none)."""

    monitor: str
    attribute: str
    within: str


class Judged(NamedTuple):
    """By what. Of `lost` ones the sums are not of scores, but of the shares of each case that have none: 1 or part of
    it where the evaluation failed, was skipped, or its judge was not shown all.
    """

    evaluator: str
    version: str
    lost: bool = False


Hours = dict[int, Sums]
"""Sums over scores by the hour since the epoch."""
Versions = dict[str, dict[Judged, Hours]]
"""By the attribute's value."""


class HourlyScores:
    """The scores of one partition, for `memory` (s)."""

    def __init__(self, compared: Mapping[str, Sequence[ComparedAttribute]], memory: float) -> None:
        """`compared` by monitor."""
        self._compared = compared
        self._memory = int(memory // HOUR)
        self._sums = BoundedSums()
        self._numbers: dict[ComparedPlace, Counter[str]] = {}
        self.places: dict[ComparedPlace, Versions] = {}

    def add(self, evaluation: Evaluation) -> None:
        """Count a score, if there is one, and what has none."""
        attributes = self._compared.get(evaluation.monitor)
        if not attributes or evaluation.reason_code == SkipReason.GATED:
            return
        hour = int(evaluation.time.timestamp() // HOUR)
        grown = list(self._grown(evaluation))
        for attribute in attributes:
            value = text_of(evaluation.attributes.get(attribute.name))
            versions = self._versions(attribute, evaluation, value)
            if versions is not None:
                for judged, sums in grown:
                    hours = versions.setdefault(value, {}).setdefault(judged, {})
                    hours[hour] = hours.get(hour, _NOTHING) + sums

    def _grown(self, evaluation: Evaluation) -> Iterator[tuple[Judged, Sums]]:
        """The sums that an evaluation adds; one that was made in place of a failed one takes that back."""
        by = Judged(evaluation.evaluator, evaluation.evaluator_version)
        amounts = [(by._replace(lost=True), 1.0 if evaluation.score is None else evaluation.unshown)]
        amounts += [] if evaluation.score is None else [(by, evaluation.score)]
        for judged, amount in amounts:
            sums = self._sums.add(
                (evaluation.monitor, judged),
                evaluation.subject.conversation_id,
                weight=Weight.of(evaluation.sampling),
                score=amount,
                time=evaluation.time.timestamp(),
            ).mean
            yield judged, sums - Sums(w=sums.w, wy=sums.w) if judged.lost and evaluation.retry else sums

    def reconfigure(self, compared: Mapping[str, Sequence[ComparedAttribute]]) -> None:
        """From now on these attributes are compared; the scores of those that stay as they are stay."""
        before, self._compared = self._compared, compared
        for place in list(self.places):
            monitor = place.monitor
            staying = [attribute for attribute in compared.get(monitor, ()) if attribute in before.get(monitor, ())]
            if place.attribute not in [attribute.name for attribute in staying]:
                del self.places[place]
                self._numbers.pop(place, None)

    def forget(self, now: float) -> None:
        """Drop the hours that are older than the memory."""
        oldest = int(now // HOUR) - self._memory
        for place, versions in list(self.places.items()):
            for value, judged in list(versions.items()):
                for by, hours in list(judged.items()):
                    for hour in [each for each in hours if each < oldest]:
                        del hours[hour]
                    if not hours:
                        del judged[by]
                if not judged:
                    del versions[value]
                    del self._numbers[place][value]
            if not versions:
                del self.places[place]
                self._numbers.pop(place, None)

    def _versions(self, attribute: ComparedAttribute, evaluation: Evaluation, value: str) -> Versions | None:
        """The slot that remembers a value and counts its score; None if all slots are taken."""
        place = ComparedPlace(evaluation.monitor, attribute.name, _scope(attribute, evaluation.attributes))
        known = self.places.get(place)
        if known is None:
            if sum(compared_place[:2] == place[:2] for compared_place in self.places) >= SCOPES:
                return None
            known = self.places[place] = {}
        numbers = self._numbers.setdefault(place, Counter())
        if value not in numbers:
            if not (value in attribute.values if attribute.values else _VALUE.fullmatch(value)):
                return None
            if len(numbers) >= VALUES:
                rarest = min(numbers, key=numbers.__getitem__)
                if numbers[rarest] >= RARE:
                    return None
                del numbers[rarest]
                known.pop(rarest, None)
        numbers[value] += 1
        return known


_NOTHING = Sums()


def _scope(attribute: ComparedAttribute, attributes: Mapping[str, Json]) -> str:
    value = text_of(attributes.get(attribute.within)) if attribute.within else ""
    return value if _VALUE.fullmatch(value) else ""


def total(sums: Iterable[Sums]) -> Sums:
    """Several sums as one."""
    whole = _NOTHING
    for estimator_sums in sums:
        whole += estimator_sums
    return whole


def merge(parts: Iterable[HourlyScores]) -> Iterator[tuple[ComparedPlace, Versions]]:
    """The places of all partitions, with what all of them have of each."""
    merged: dict[ComparedPlace, Versions] = {}
    for part in parts:
        for place, versions in part.places.items():
            for value, judged in versions.items():
                for by, hours in judged.items():
                    into = merged.setdefault(place, {}).setdefault(value, {}).setdefault(by, {})
                    for hour, sums in hours.items():
                        into[hour] = into.get(hour, _NOTHING) + sums
    yield from merged.items()
