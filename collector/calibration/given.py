"""Labels that people gave on the page, as their log holds them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from collector.calibration.labels import Label
from collector.errors import BadInput
from collector.logs.log import Log, Stored
from collector.records import label_from_json
from evaluators.outcome import Label as Given

MOST = 1000
"""Labelled evaluations of one version of an evaluator that are remembered, the newest."""

Version = tuple[str, str]
"""An evaluator's name and version: labels of another version are about another judge."""


class Reader:
    """Reads a log again and again, each time what has come since."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._next = [0] * log.partitions

    async def records(self) -> AsyncIterator[Stored]:
        """What has come since the last reading, partition by partition. Raises LogUnavailable."""
        for partition, start in enumerate(self._next):
            async for batch in self._log.read(partition, start):
                for record in batch:
                    yield record
                self._next[partition] = batch[-1].position + 1


@dataclass(frozen=True, slots=True)
class _Said:
    """What one person said of one evaluation, newest word: `human` is None where it was no verdict and no score."""

    given_at: float
    judge: float
    human: float | None
    monitor: str
    weight: float


class LabelBook:
    """The newest labels, by evaluator and version. `lower_is_better` names evaluators whose low scores are good."""

    def __init__(self, lower_is_better: Sequence[str] = (), *, most: int = MOST) -> None:
        self._lower = frozenset(lower_is_better)
        self._most = most
        self._said: dict[Version, dict[str, dict[str | None, _Said]]] = {}

    def add(self, record: Stored) -> Version | None:
        """Take a record of the log of labels; says whose it changed, None if it is no label that counts."""
        try:
            given = label_from_json(record.value)
        except BadInput:
            return None
        return self._take(given)

    def _take(self, given: Given) -> Version | None:
        if given.judge_score is None:
            return None
        version = (given.evaluator, given.evaluator_version)
        evaluations = self._said.setdefault(version, {})
        people = evaluations.pop(given.evaluation_id, {})
        evaluations[given.evaluation_id] = people  # the newest last
        known = people.get(given.given_by)
        if known is None or known.given_at <= given.given_at.timestamp():
            human = human_of(given, lower_is_better=given.evaluator in self._lower)
            people[given.given_by] = _Said(
                given.given_at.timestamp(), given.judge_score, human, given.monitor, 1.0 / given.sampling.probability
            )
        if len(evaluations) > self._most:
            del evaluations[next(iter(evaluations))]
        return version

    def labels(self, version: Version) -> list[Label]:
        """One label for each evaluation, of several people's their mean; the segment is the monitor."""
        found: list[Label] = []
        for people in self._said.get(version, {}).values():
            said = [each for each in people.values() if each.human is not None]
            if said:
                human = fmean(each.human for each in said if each.human is not None)
                found.append(Label(said[0].judge, human, said[0].monitor, said[0].weight))
        return found

    def others(self, version: Version) -> int:
        """How many evaluations by other versions of the evaluator are labelled."""
        return sum(len(self.labels(each)) for each in self._said if each[0] == version[0] and each != version)


def human_of(given: Given, *, lower_is_better: bool) -> float | None:
    """The person's score on 0..1, in the sense of the evaluator's: their own, else that of the verdict they hold right.

    Agreeing with a verdict is holding it right, disagreeing is holding the opposite right. None where there was no
    verdict to agree with.
    """
    if given.score is not None:
        return given.score
    if given.opinion is None or given.judge_passed is None:
        return None
    good = given.judge_passed == (given.opinion == "agree")
    return float(good != lower_is_better)
