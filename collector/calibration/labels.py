"""Labels: people's scores beside the judge's, from files, and the one that an answer has by all of them."""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean

from collector.calibration.label_lines import SCORED_EXAMPLE, LabelLine, LabelRow, label_lines, names_of
from collector.errors import ConfigError
from collector.past.evaluations import key_of
from collector.records.grouping import group_by
from collector.statistics.agreement import FEWEST, MIDDLE, ScoreScale
from collector.statistics.bias import JudgedPair, labels_of
from collector.statistics.correction import LabelledScore, WeightedScore
from collector.telemetry.plain import to_terminal
from collector.wording import listed, plural
from evaluators.cases import Json
from evaluators.identity import CASE_DIGEST
from evaluators.results import Evaluation


@dataclass(frozen=True, slots=True)
class HumanLabel:
    """A judge's score and a person's for the same thing, both on 0..1.

    `weight` is 1 / its sampling probability; `probability` is the probability of its draw for labelling, None if a
    person picked it. Picked labels show how judge and people agree there, and nothing about the mean.
    """

    judge: float
    human: float
    segment: str
    weight: float = 1.0
    probability: float | None = None
    at: float = 0.0
    """When it was given, in seconds since the epoch; like the monitor known of the page's labels alone."""
    monitor: str = ""
    conversation: str = ""
    attributes: Mapping[str, Json] = field(default_factory=dict[str, Json])
    name: str = ""
    """The id by which the log knows the labelled case, if it does."""
    tokens: float | None = None
    """How many the judge read in a call."""
    is_of_past: bool = False
    """Whether a backfill made the score, which is in no mean of the present."""
    by: Mapping[object, tuple[float, float]] = field(default_factory=dict[object, tuple[float, float]])
    """When each person gave which score, if known; `human` is the mean of these scores. A file's is newer than all."""
    passed: bool | None = None
    """The judge's verdict, if it had one."""
    other_id: str = ""
    """The evaluation that it was given for, if that is another version's, or another evaluator's, of the answer."""
    of_answer: bool = False
    """Whether its line names the answer and no monitor that scores it."""

    def weighted(self) -> LabelledScore:
        """The two scores with what they stand for: 1 / the probability to be both judged and labelled."""
        stands_for, divided = self.weight / (self.probability or 1.0), len(self.by) > 1 and self.human == MIDDLE
        return LabelledScore(self.judge, self.human, stands_for, self.conversation, divided, self.passed)


def judged_pairs(labels: Sequence[HumanLabel]) -> list[JudgedPair]:
    """The scores of judge and people, with what may have biased the judge."""
    return [JudgedPair(*label.weighted()[:4], label.tokens, labels_of(label.attributes)) for label in labels]


def weighted_pairs(labels: Sequence[HumanLabel]) -> list[LabelledScore]:
    """The pairs by which agreement is measured."""
    return [label.weighted() for label in measured_labels(labels)]


def measured_labels(labels: Sequence[HumanLabel]) -> Sequence[HumanLabel]:
    """The labels by which a judge is measured: the drawn labels, if there are enough, else all labels.

    Labels that people picked represent nothing but themselves.
    """
    at_random = [label for label in labels if label.probability is not None]
    return at_random if len(at_random) >= FEWEST else labels


def undecided(labels: Iterable[HumanLabel], scale: ScoreScale) -> Iterator[str]:
    """A note on labels that count in no measure of verdicts, as the judge's score has none."""
    if number := sum(not scale.decides(label.passed) for label in labels):
        has = "the judge's label has no pass, or the line no true or false as passed"
        why = has if scale.by_label else "the evaluator has no threshold"
        yield f"Not used for measures of verdicts: {plural(number, 'answer')} whose score has no verdict; {why}."


def mean_label(by_people: Sequence[HumanLabel]) -> HumanLabel:
    """One label of the same thing by several people: the mean of each one's newest; picked labels are left out if some
    were drawn.
    """
    labels = [label for label in by_people if label.probability is not None] or by_people
    by = dict(sorted((one for label in labels for one in label.by.items()), key=lambda one: one[1][0]))  # newest last
    return replace(labels[0], human=fmean(human for _, human in by.values()), by=by)


def label_of_answer(labels: Sequence[HumanLabel], draws: int) -> HumanLabel:
    """The label of an answer that several monitors may judge, each with a chance of its own to have it labelled.

    Its probability is that of any of these `draws`. Monitors share a verdict, so they draw it with equal probabilities.
    """
    missed = {label.name: 1.0 - label.probability for label in labels if label.probability}
    label = mean_label(labels)
    if missed and draws > 1:
        none = math.prod(missed.values()) * min(missed.values()) ** (draws - len(missed))
        label = replace(label, probability=1.0 - none)
    return label


def read_labels(
    path: Path, scores: Mapping[str, WeightedScore], evaluator: str, *, lower_is_better: bool = False,
    report: Callable[[str], None] = to_terminal,
) -> list[HumanLabel]:  # fmt: skip
    """The labels of a JSONL file whose judge's score is known; a `report` says how many others there are. `scores` maps
    evaluation and turn ids to them. Lines that name another evaluator are about something else, whatever their turn is.

    Lines that name the same evaluation or turn are of several people; of one person (`who`) the last counts. Lines of
    `score --output` whose case has changed in between are about several answers.

    Raises:
        ConfigError: the file cannot be read, a line is not a label, no label has a judge's score, or the scores are of
            several versions of the evaluator.
    """
    lines = [line for line in label_lines(path, SCORED_EXAMPLE) if line.evaluator in (None, evaluator)]
    rows = [line.row for line in lines]
    versions = Counter(line.fields.get("evaluator_version") for line in lines if line.row.score is not None)
    del versions[None]
    if len(versions) > 1:
        scored = listed([f"{number:,} by version {version}" for version, number in versions.items()])
        raise ConfigError(f"{path}: its scores are {scored} of {evaluator}; keep the lines of one evaluator_version")
    people = dict[object, list[HumanLabel]]()
    for number, row in enumerate(rows):
        if (judged := _judge_score(row, scores)) is not None:
            name = next((name for name in row.names if name in scores), "")
            human = row.human_score(lower_is_better=lower_is_better)
            label = HumanLabel(
                judged.score, human, row.segment, judged.weight,
                row.label_probability, conversation=row.conversation_id or judged.conversation, name=name,
                tokens=row.tokens, other_id=row.logged_id or "" if name not in ("", row.logged_id) else "",
                passed=judged.passed, by={row.who: (math.inf, human)}, attributes=row.attributes or {},
                of_answer=name != "" and name == (row.turn_id or row.conversation_id),
            )  # fmt: skip
            answer = name or row.evaluation_id or row.turn_id or number, label.attributes.get(CASE_DIGEST), row.segment
            people.setdefault(answer, []).append(label)
    if not rows:
        remedy = f"write true, false or a number from 0 to 1 as human, and {evaluator} or nothing as evaluator"
        raise ConfigError(f"{path}: no line is a label of {evaluator}; {remedy}")
    if not people:
        raise ConfigError(
            f"{path}: no judge's score is known for its {plural(len(rows), 'label')}; write score beside human, or "
            "the evaluation_id or turn_id of an evaluation in the log by this version of the evaluator"
        )
    if unknown := len(rows) - sum(map(len, people.values())):
        why = f"They have no score, and the log has none of their answers by this version of {evaluator}"
        report(f"Not used: {unknown:,} of {plural(len(rows), 'label')} in {path}. {why}.")
    return [mean_label(labels) for labels in people.values()]


def _judge_score(row: LabelRow, scores: Mapping[str, WeightedScore]) -> WeightedScore | None:
    """The judge's score. One that is known by its subject alone was sampled by another version, too: the draws of both
    are nested, so that the less probable one counts.
    """
    logged = next((scores[name] for name in row.names if name in scores), None)
    if logged is not None and row.logged_id not in scores:
        logged = logged._replace(weight=max(logged.weight, row.weight))
    if row.score is None:
        return logged
    judged = logged or WeightedScore(0.0, row.weight)
    is_logged = row.passed is None and row.score == judged.score
    return judged._replace(score=row.score, passed=judged.passed if is_logged else row.passed)


def evaluations_by_id(past: Iterable[Evaluation]) -> dict[str, Evaluation]:
    """One evaluator's evaluations by their ids, and their subjects' ids in each monitor and in all; a subject's is of
    the monitor that judges most.
    """
    return {name: one for one in sorted(past, key=_probability) for name in names_of(one)}


def label_of_line(line: LabelLine, known: Mapping[str, Evaluation], *, lower_is_better: bool) -> HumanLabel:
    """The label of a line, without a judge's score; its `name` is empty if no `known` evaluation is named there.

    One that is known by its subject alone was sampled by another version, too: the draws of both are nested, so that
    the less probable one counts.
    """
    row, human = line.row, line.row.human_score(lower_is_better=lower_is_better)
    label = HumanLabel(0.0, human, "all", row.weight, row.label_probability, math.inf, by={row.who: (math.inf, human)})
    if (judged := next((known[name] for name in row.names if name in known), None)) is None:
        return label
    name, weight = judged.evaluation_id, 1.0 / _probability(judged)
    if row.logged_id in known:
        return replace(label, name=name, weight=weight)
    return replace(label, name=name, weight=max(weight, row.weight), other_id=row.logged_id or "")


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
