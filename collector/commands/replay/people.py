"""People's labels of what `evalstream compare evaluators` compares: which side agrees with them more often."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from collector.calibration.label_lines import label_lines
from collector.calibration.labels import HumanLabel, by_subject, evaluations_by_id, label_of_line
from collector.calibration.page_labels import LabelIndex
from collector.commands.replay.comparison import EvaluationPair, MeanChange, change
from collector.errors import ConfigError
from collector.logs.log import Log
from collector.logs.whole_log import read_records
from collector.past.evaluations import key_of
from collector.statistics.agreement import FEWEST, ScoreScale
from collector.telemetry.plain import to_terminal
from collector.wording import listed, plural
from evaluators.results import Evaluation

_EXAMPLE = '{"evaluation_id": "…", "human": true}, as labels next does'


@dataclass(frozen=True, slots=True)
class PeopleComparison:
    """The shares of verdicts, old and new, that are people's too, over the same labels.

    `agreement` is None for fewer than `FEWEST` labels. With at least this many drawn labels, picked ones are left out,
    so that the shares are the traffic's; so are those `undecided`, as one side has no verdict.
    """

    labels: int
    agreement: MeanChange | None
    undecided: int = 0

    @property
    def verdict(self) -> str:
        """The conclusion in one sentence, with the remedy where labels are too few."""
        apart = f", without {self.undecided} whose pair lacks a verdict" if self.undecided else ""
        people = f"People ({plural(self.labels, 'label')}{apart})"
        if self.agreement is None:
            known = f"Which side is right is not known: people labelled {self.labels} of these pairs{apart}"
            return f"{known}, and {FEWEST} are needed (evalstream labels next)."
        interval = self.agreement.interval
        if interval is None or interval[0] <= 0.0 <= interval[1]:
            return f"{people} agree with neither side more often than chance explains."
        side = "new" if self.agreement.difference > 0 else "old"
        return f"{people} agree with the {side} verdicts more often than chance explains."


async def labels_of_page(
    log: Log, past: Sequence[Evaluation], scales: Mapping[str, ScoreScale]
) -> dict[Hashable, HumanLabel]:
    """The label of each subject, whichever version of the evaluator and whichever monitor it was given for."""
    index = LabelIndex([name for name, scale in scales.items() if scale.lower_is_better])
    async for record in read_records(log):
        index.add(record)
    return by_subject([label for name in scales for label in index.others((name, ""))], past)


def labels_of_file(
    path: Path, past: Sequence[Evaluation], scales: Mapping[str, ScoreScale], monitors: Collection[str] = ()
) -> dict[Hashable, HumanLabel]:
    """The labels of a file, by the evaluation, turn or conversation that each line names. `past` is of these monitors,
    or of all.

    Raises:
        ConfigError: the file cannot be read, a line is not a label, or none is of an answer that is compared.
    """
    remedy = "; name another file with --labels"
    lines, labels, used = label_lines(path, _EXAMPLE, remedy), list[HumanLabel](), set[int]()
    for name, scale in scales.items():
        known = evaluations_by_id([evaluation for evaluation in past if evaluation.evaluator == name])
        own = [line for line in lines if line.evaluator in (None, name) and not known.keys().isdisjoint(line.row.names)]
        labels += [label_of_line(line, known, lower_is_better=scale.lower_is_better) for line in own]
        used.update(line.number for line in own)
    where = f" in monitor {listed(monitors)}" if monitors else ""
    scored = f"of an answer in the log that {listed(scales)} scored{where}"
    if not used:
        raise ConfigError(f"{path}: no label is {scored}{remedy}")
    number = sum(line.evaluator is None or line.evaluator in scales for line in lines)
    if unknown := number - len(used):
        to_terminal(f"{path}: left out {unknown:,} of {plural(number, 'label')}, not {scored}")
    return by_subject(labels, past)


def compare_with_people(
    pairs: Collection[EvaluationPair], labels: Mapping[Hashable, HumanLabel], scale: ScoreScale
) -> PeopleComparison:
    """How often either side of labelled pairs passes what people pass and fails what they fail."""
    rows = [replace(pair, label=label) for pair in pairs if (label := labels.get(key_of(pair.old))) is not None]
    at_random = [pair for pair in rows if pair.label is not None and pair.label.probability is not None]
    rows = at_random if len(at_random) >= FEWEST else rows
    decided = [pair for pair in rows if scale.decides(pair.old.passed) and scale.decides(pair.new.passed)]
    agreement = change(decided, [_agrees(pair, scale) for pair in decided]) if len(decided) >= FEWEST else None
    return PeopleComparison(len(decided), agreement, len(rows) - len(decided))


def _agrees(pair: EvaluationPair, scale: ScoreScale) -> tuple[float, float]:
    assert pair.label is not None
    if pair.label.weighted().divided:
        return 0.5, 0.5  # with half of the people, whatever the verdict is
    good = not scale.is_bad(pair.label.human)
    return scale.passes(pair.old) == good, scale.passes(pair.new) == good
