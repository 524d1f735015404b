"""People's labels of what `evalstream compare evaluators` compares: which side agrees with them more often."""

import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from collector.calibration.labels import HumanLabel, LabelLine, label_lines, label_of_answer, mean_label
from collector.calibration.page_labels import LabelIndex
from collector.commands.replay.comparison import EvaluationPair, MeanChange, change
from collector.logs.log import Log
from collector.logs.whole_log import read_records
from collector.past.evaluations import key_of
from collector.records.grouping import group_by
from collector.statistics.agreement import FEWEST, ScoreScale
from collector.wording import plural
from evaluators.results import Evaluation

_EXAMPLE = '{"evaluation_id": "…", "human": true}, as labels next does'


@dataclass(frozen=True, slots=True)
class PeopleComparison:
    """The shares of verdicts, old and new, that are people's too, over the same labels.

    `agreement` is None for fewer than `FEWEST` labels. With at least this many drawn labels, picked ones are left out,
    so that the shares are the traffic's.
    """

    labels: int
    agreement: MeanChange | None


async def labels_of_page(
    log: Log, past: Sequence[Evaluation], scales: Mapping[str, ScoreScale]
) -> dict[Hashable, HumanLabel]:
    """The label of each subject, whichever version of the evaluator and whichever monitor it was given for."""
    index = LabelIndex([name for name, scale in scales.items() if scale.lower_is_better])
    async for record in read_records(log):
        index.add(record)
    return by_subject([label for name in scales for label in index.others((name, ""))], past)


def labels_of_file(
    path: Path, past: Sequence[Evaluation], scales: Mapping[str, ScoreScale]
) -> dict[Hashable, HumanLabel]:
    """The labels of a file, by the evaluation, turn or conversation that each line names.

    Raises:
        ConfigError: the file cannot be read, or a line is not a label.
    """
    lines, labels = list(label_lines(path, _EXAMPLE)), list[HumanLabel]()
    for name, scale in scales.items():
        known = evaluations_by_id([evaluation for evaluation in past if evaluation.evaluator == name])
        own = (line for line in lines if line.evaluator in (None, name))
        labels += [label_of_line(line, known, lower_is_better=scale.lower_is_better) for line in own]
    return by_subject(labels, past)


def evaluations_by_id(past: Iterable[Evaluation]) -> dict[str, Evaluation]:
    """One evaluator's evaluations by their ids and their subjects' ids; a subject's is of the monitor that judges
    most.
    """
    return {key: one for one in sorted(past, key=_probability) for key in (one.subject.id, one.evaluation_id)}


def label_of_line(line: LabelLine, known: Mapping[str, Evaluation], *, lower_is_better: bool) -> HumanLabel:
    """The label of a line, without a judge's score; its `name` is empty if no `known` evaluation is named there.

    One that is known by its subject alone was sampled by another version, too: the draws of both are nested, so that
    the less probable one counts. A line without `given_by` is of a person of its own.
    """
    row, human = line.row, line.row.human_score(lower_is_better=lower_is_better)
    by: dict[object, tuple[float, float]] = {row.given_by or line.number: (math.inf, human)}
    label = HumanLabel(0.0, human, "all", row.weight, row.label_probability, math.inf, by=by)
    if (judged := next((known[name] for name in row.names if name in known), None)) is None:
        return label
    name, weight = judged.evaluation_id, 1.0 / _probability(judged)
    if row.evaluation_id in known:
        return replace(label, name=name, weight=weight)
    return replace(label, name=name, weight=max(weight, row.weight), other_id=row.evaluation_id or "")


def _probability(judged: Evaluation) -> float:
    return judged.sampling.probability


def by_subject(labels: Iterable[HumanLabel], past: Sequence[Evaluation]) -> dict[Hashable, HumanLabel]:
    """Each subject's label, by its `key_of`, as `calibrate` counts it: the newest of each monitor, a drawn one if there
    is one, with the probability that any monitor has of drawing it, and the weight of the one that judges most.
    """
    by_id = {evaluation.evaluation_id: evaluation for evaluation in past}
    evaluations = group_by((label for label in labels if label.name in by_id), lambda label: label.name)
    known = [(by_id[name], mean_label(by_people)) for name, by_people in evaluations.items()]
    known.sort(key=lambda item: (item[1].probability is not None, item[1].at))
    drawing = {(judged.evaluator, judged.monitor) for judged, label in known if label.probability is not None}
    used = sorted((each for each in past if (each.evaluator, each.monitor) in drawing), key=_probability)
    draws = Counter(subject for subject, _ in {(key_of(each), each.monitor) for each in used})
    most = {(key_of(each), each.evaluator_version): _probability(each) for each in used}
    newest = {(key_of(judged), judged.monitor): label for judged, label in known}
    result = dict[Hashable, HumanLabel]()
    for subject, answers in group_by(newest.items(), lambda item: item[0][0]).items():
        label = label_of_answer([label for _, label in answers], draws[subject])
        own = by_id[label.name]
        share = _probability(own) / most.get((subject, own.evaluator_version), _probability(own))
        result[subject] = replace(label, weight=label.weight * share)
    return result


def compare_with_people(
    pairs: Collection[EvaluationPair], labels: Mapping[Hashable, HumanLabel], scale: ScoreScale
) -> PeopleComparison:
    """How often either side of labelled pairs passes what people pass and fails what they fail."""
    rows = [replace(pair, label=label) for pair in pairs if (label := labels.get(key_of(pair.old))) is not None]
    at_random = [pair for pair in rows if pair.label is not None and pair.label.probability is not None]
    rows = at_random if len(at_random) >= FEWEST else rows
    if len(rows) < FEWEST:
        return PeopleComparison(len(rows), None)
    return PeopleComparison(len(rows), change(rows, [_agrees(pair, scale) for pair in rows]))


def _agrees(pair: EvaluationPair, scale: ScoreScale) -> tuple[float, float]:
    assert pair.label is not None
    if pair.label.weighted().divided:
        return 0.5, 0.5  # with half of the people, whatever the verdict is
    good = not scale.is_bad(pair.label.human)
    return scale.passes(pair.old) == good, scale.passes(pair.new) == good


def verdict_on_people(people: PeopleComparison) -> str:
    """The conclusion in one sentence, with the remedy where labels are too few."""
    if people.agreement is None:
        return (
            f"Which side is right is not known: people labelled {people.labels} of these, and {FEWEST} are needed "
            "(evalstream labels next)."
        )
    interval = people.agreement.interval
    if interval is None or interval[0] <= 0.0 <= interval[1]:
        return f"People ({plural(people.labels, 'label')}) do not agree with one side more often beyond chance."
    side = "new" if people.agreement.difference > 0 else "old"
    return f"People ({plural(people.labels, 'label')}) agree with the {side} verdicts more often, beyond chance."
