"""People's labels of what `evalstream compare evaluators` compares: which side agrees with them more often."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from collector.calibration.labels import HumanLabel, label_lines
from collector.calibration.page_labels import LabelIndex
from collector.commands.replay.comparison import EvaluationPair, MeanChange, change
from collector.logs.log import Log
from collector.logs.whole_log import read_records
from collector.statistics.agreement import FEWEST, ScoreScale
from collector.wording import plural
from evaluators.results import Evaluation

Labelled = tuple[str, str]
"""An evaluator, and the id of the turn or conversation that people labelled."""

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
    log: Log, past: Sequence[Evaluation], scales: Mapping[str, ScoreScale], monitors: Mapping[Labelled, str]
) -> dict[Labelled, HumanLabel]:
    """The newest label of each subject, whichever version of the evaluator it was given for.

    `monitors` has the one by whose draw each subject is compared: labels that others drew have other weights.
    """
    index = LabelIndex([name for name, scale in scales.items() if scale.lower_is_better])
    async for record in read_records(log):
        index.add(record)
    subjects = {evaluation.evaluation_id: labelled(evaluation) for evaluation in past}
    labels = sorted((label for name in scales for label in index.others((name, ""))), key=lambda label: label.at)
    known = ((subjects[label.name], label) for label in labels if label.name in subjects)
    return {subject: label for subject, label in known if monitors.get(subject) == label.monitor}


def labels_of_file(
    path: Path, past: Sequence[Evaluation], scales: Mapping[str, ScoreScale], monitors: Mapping[Labelled, str]
) -> dict[Labelled, HumanLabel]:
    """The labels of a file, by the evaluation, turn or conversation that each line names.

    Raises:
        ConfigError: the file cannot be read, or a line is not a label.
    """
    known = {(evaluation.evaluator, evaluation.evaluation_id): evaluation for evaluation in past}
    known |= {key: each for each in past if monitors.get(key := labelled(each)) == each.monitor}
    labels: dict[Labelled, HumanLabel] = {}
    for line in label_lines(path, _EXAMPLE):
        for name in scales if line.evaluator is None else scales.keys() & {line.evaluator}:
            evaluation = next((known[name, each] for each in line.row.names if (name, each) in known), None)
            if evaluation is not None and monitors.get(labelled(evaluation)) == evaluation.monitor:
                human = line.row.human_score(lower_is_better=scales[name].lower_is_better)
                label = HumanLabel(0.0, human, "all", line.row.weight, line.row.label_probability)
                labels[labelled(evaluation)] = label
    return labels


def labelled(evaluation: Evaluation) -> Labelled:
    """The subject that a label of this evaluation is about."""
    return evaluation.evaluator, evaluation.subject.id


def compare_with_people(
    pairs: Collection[EvaluationPair], labels: Mapping[Labelled, HumanLabel], scale: ScoreScale
) -> PeopleComparison:
    """How often either side of labelled pairs passes what people pass and fails what they fail."""
    rows = [replace(pair, label=label) for pair in pairs if (label := labels.get(labelled(pair.old))) is not None]
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
