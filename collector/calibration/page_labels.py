"""Labels of the page, out of the labels log."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from collector.calibration.labels import HumanLabel, mean_label
from collector.logs.log import StoredRecord
from collector.records.audits import AuditScore, audit_in
from collector.records.json import label_from_json, readable
from collector.statistics.audited_sums import scored_name
from collector.statistics.bounded_sums import Weight
from evaluators.results import Label as PageLabel

MOST = 1000
"""How many of the newest labelled evaluations are remembered for one version of an evaluator."""

Version = tuple[str, str]
"""An evaluator's name and version: labels of another version are about another judge."""


@dataclass(frozen=True, slots=True)
class _PersonLabel:
    """One person's newest label of an evaluation; `human` is None without a verdict or score.

    `against_judge` has the judge's score with the weight and the draw, `audit` is the auditor's score.
    """

    labelled_at: float
    human: float | None
    against_judge: HumanLabel
    audit: AuditScore | None

    @property
    def is_of_queue(self) -> bool:
        """Whether it was drawn to be labelled; else a person picked it."""
        return self.against_judge.probability is not None


class LabelIndex:
    """The newest labels, by evaluator and version. `lower_is_better` names evaluators whose low scores are good.

    If drawn evaluations are labelled, picked labels are left out: people who pick look at bad evaluations again, see
    the judge's score, and label where they disagree. A picked label does not keep an evaluation among the newest for
    longer either.
    """

    def __init__(self, lower_is_better: Collection[str] = (), *, most: int = MOST) -> None:
        self._lower = frozenset(lower_is_better)
        self._most = most
        self._labels: dict[Version, dict[str, dict[str | None, _PersonLabel]]] = {}

    def add(self, record: StoredRecord) -> Version | None:
        """Add a record of the labels log; returns the version whose labels change, None if it does not count."""
        if record.headers:
            return None  # feedback, which is about a turn and not about its scores
        label = readable(label_from_json, record.value)
        return None if label is None else self._add(label)

    def _add(self, label: PageLabel) -> Version | None:
        if label.judge_score is None:
            return None
        version = (label.evaluator, label.evaluator_version)
        evaluations = self._labels.setdefault(version, {})
        people = evaluations.get(label.evaluation_id, {})
        is_of_queue = label.label_probability is not None
        if is_of_queue or not any(person.is_of_queue for person in people.values()):
            evaluations.pop(label.evaluation_id, None)  # the newest last
        evaluations[label.evaluation_id] = people
        known = people.get(label.given_by)
        if known is None or (is_of_queue, label.given_at.timestamp()) >= (known.is_of_queue, known.labelled_at):
            human = human_of(label, lower_is_better=label.evaluator in self._lower)
            at = label.given_at.timestamp()
            against_judge = HumanLabel(
                label.judge_score, human or 0.0, label.monitor, Weight.of(label.sampling).full, label.label_probability,
                at, label.monitor, label.subject.conversation_id, label.attributes, label.evaluation_id,
                label.judge_tokens, label.happened_at is not None, passed=label.judge_passed,
                by={label.given_by: (at, human or 0.0)},
            )  # fmt: skip
            people[label.given_by] = _PersonLabel(at, human, against_judge, audit_in(label.audit or {}))
        if len(evaluations) > self._most:
            del evaluations[next(iter(evaluations))]
        return version

    def labels(self, version: Version) -> list[HumanLabel]:
        """One label for each evaluation: the mean if several people labelled it; picked labels are left out if some
        were drawn; the segment is the monitor.

        For the version of audits (`helpful:audit`), the labels of the audited evaluations, with the audits' scores.
        """
        name, number = version
        if (scored := scored_name(name)) == name:
            return [label for label, _ in self._mean_labels(version)]
        return [
            # by the share that is audited
            replace(label, judge=audit.score, passed=audit.passed, weight=label.weight / audit.probability)
            for each in self._labels
            if each[0] == scored
            for label, audit in self._mean_labels(each)
            if audit is not None and audit.version == number
        ]

    def _mean_labels(self, version: Version) -> Iterator[tuple[HumanLabel, AuditScore | None]]:
        for people in self._labels.get(version, {}).values():
            usable = [person for person in people.values() if person.human is not None]
            if usable := [person for person in usable if person.is_of_queue] or usable:
                yield mean_label([person.against_judge for person in usable]), usable[0].audit

    def others(self, version: Version, in_use: Collection[Version] = ()) -> list[HumanLabel]:
        """The labels of other versions of the evaluator, without those `in_use`."""
        others = (each for each in self._labels if each[0] == version[0] and each not in (version, *in_use))
        return [label for other in others for label in self.labels(other)]


def human_of(label: PageLabel, *, lower_is_better: bool) -> float | None:
    """The person's score on 0..1, in the sense of the evaluator's: their own, else that of the verdict they support.

    To agree is to support the judge's verdict, to disagree is to support the opposite. None without a verdict.
    """
    if label.state == "retracted":
        return None
    if label.score is not None:
        return label.score
    if label.opinion is None or label.judge_passed is None:
        return None
    return float((label.judge_passed == (label.opinion == "agree")) != lower_is_better)
