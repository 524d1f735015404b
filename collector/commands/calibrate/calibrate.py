"""`evalstream calibrate`: agreement of an evaluator with human labels, suggested threshold, corrected mean."""

import asyncio
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from operator import gt, lt
from pathlib import Path
from statistics import fmean

import orjson
from rich.table import Table

from collector.calibration.agreement_watch import (
    DRIFT_ERRORS,
    WEAKEST,
    are_enough,
    labels_of_queue,
    people_sums,
    recent_labels,
    why_withheld,
)
from collector.calibration.label_lines import SCORED_EXAMPLE, are_of_log, names_of
from collector.calibration.labels import (
    HumanLabel,
    judged_pairs,
    label_of_answer,
    mean_label,
    measured_labels,
    read_labels,
    undecided,
    weighted_pairs,
)
from collector.calibration.page_labels import LabelIndex, Version
from collector.config.command_options import require_known
from collector.config.configured import Config
from collector.errors import ConfigError
from collector.logs.whole_log import read_records
from collector.page.label_queue import draw_probability, label_doubt
from collector.page.settings import PageSettings
from collector.past.evaluations import REPLAY_OF, key_of, priced_evaluations_in
from collector.records.audits import FEWEST_AUDITS, AuditScore, audit_by, audit_of
from collector.records.grouping import group_by
from collector.records.json import fields_of
from collector.records.labels import tokens_read
from collector.service.open_logs import open_stored_logs
from collector.service.plan_builder import audit_version_in, evaluator_version_in
from collector.statistics.agreement import ENOUGH, FEWEST, Agreement, ScoreScale, agreement, verdict_agreement
from collector.statistics.audited_sums import CorrectedMean, audit_name, sums_of_scores
from collector.statistics.bias import AUDIT_ERRORS, PEOPLE_ERRORS, JudgedPair, biases, labels_of
from collector.statistics.bounded_sums import Sums
from collector.statistics.certificate import Certificate, JudgedVerdict, VerdictPair, certify
from collector.statistics.conversations import by_conversation
from collector.statistics.correction import LabelledScore, WeightedScore, weighted_mean
from collector.statistics.intervals import mean_text
from collector.telemetry.plain import to_terminal
from collector.telemetry.wide_console import figures_table, report_text
from collector.wording import at_least, at_most, listed, percent, plural
from evaluators.cases import Json
from evaluators.judges.cascade import doubt_of
from evaluators.results import Evaluation


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrateOptions:
    """The command's options. `target` is the share of bad answers that the suggested threshold should fail.

    Without a file, the `labels` are the page's. With `random`, labels that do not say how they were drawn are a random
    draw with equal chances. With `monitor`, they are of this monitor's answers. `certify` is a bound that the true
    failure rate has to be surely below.
    """

    labels: Path | None
    evaluator: str
    target: float = 0.9
    json: bool = False
    random: bool = False
    monitor: str | None = None
    certify: float | None = None


MonitorMeans = tuple[float, CorrectedMean | None, str]
"""The judge's mean in a monitor, the corrected one, and why there is none."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """The result of `calibrate`."""

    evaluator: str
    threshold: float | None
    by_label: bool
    """Without a threshold: whether the label decides; else nothing does."""
    agreements: tuple[Agreement, ...]
    fitting_threshold: float | None
    """The present one where no other does better."""
    bad_failed: float
    good_failed: float
    """The fitting threshold, or else the present verdicts, fail these shares of what people label as bad and as good;
    NaN if none of these has a verdict.
    """
    has_bad: bool
    """Whether people label anything as bad."""
    target: float
    raw_mean: float | None
    corrected_mean: CorrectedMean | None
    monitors: Mapping[str, MonitorMeans] = field(default_factory=dict[str, MonitorMeans])
    """If several judge, the means by monitor."""
    notes: tuple[str, ...] = ()
    certificate: Certificate | None = None


def printed(result: Calibration, options: CalibrateOptions) -> str:
    """The figures as text, or as JSON."""
    return as_json(result) if options.json else as_text(result)


def measure(config: Config, options: CalibrateOptions, *, now: float) -> Calibration:
    """Compare scores and labels; `now` is in seconds since the epoch.

    Raises:
        ConfigError: the evaluator does not exist, or the labels cannot be used.
    """
    require_known("--evaluator", "evaluator", [options.evaluator], config.evaluators)
    scale = ScoreScale.of(config.evaluators[options.evaluator].evaluator)
    version: Version = (options.evaluator, evaluator_version_in(config, options.evaluator))
    is_stored = config.settings.log.kind != "memory"
    if options.labels is None and not is_stored:
        raise ConfigError("log.kind is memory, so labels of the page end with the service; name a file of labels")
    needed = options.labels is None or (is_stored and are_of_log(options.labels, SCORED_EXAMPLE, "score"))
    ledger = asyncio.run(ledger_of(config, version, scale, needed=needed))
    labels, notes = _labels(options, version, ledger, lower_is_better=scale.lower_is_better)
    if options.monitor is not None:
        known = {*config.settings.monitors, *(one.monitor for one in ledger.scored)}
        require_known("--monitor", "monitor", [options.monitor], known)
        labels = _of_monitor(labels, ledger, options.monitor)
        ledger = replace(ledger, scored=tuple(one for one in ledger.scored if one.monitor == options.monitor))
    if options.random:
        _require_monitor(labels, ledger)
        labels, alike = _as_random(labels)
        notes = (*notes, *alike)
    if of_other := [label for label in labels if label.other_id]:
        also = " or of other evaluators" if any(_is_of_other_evaluator(label, ledger) for label in of_other) else ""
        what = f"{ledger.count(of_other)} of other versions of {options.evaluator}{also} count here"
        why = "this version scored the same answers. If it asks something else, rename the evaluator"
        notes = (*notes, f"{what}: {why}.")
    if ledger.others:
        others = plural(len(ledger.others), "score")
        notes = (*notes, f"Not used: {others} of other versions of {options.evaluator} or other judges.")
    once, scored, left_out = _once(labels, ledger)
    notes = (*notes, *left_out, *_bias_notes(once, scored), *_notes_on_time(labels_of_queue(once), scored),
             *_note_on_sample(labels_of_queue(once), scored))  # fmt: skip
    result = calibration(options, once, [one.judged for one in scored], scale, notes)
    monitors = dict(_by_monitor(labels, ledger.scored, scale))
    if result.corrected_mean is not None:
        on_audits = _note_on_audits(options, ledger.book, audit_version_in(config, version[0]), now)
        result = replace(result, notes=(*result.notes, *on_audits))
    return replace(result, agreements=(result.agreements[0], *_segments(labels, scale)), monitors=monitors)


def _note_on_audits(options: CalibrateOptions, book: LabelIndex, auditor: str | None, now: float) -> Iterator[str]:
    """A note on the monitors in which the page's mean by people is another than this one."""
    labels = labels_of_queue(book.labels((audit_name(options.evaluator), auditor or "")))
    by_monitor = group_by(recent_labels(labels, now), lambda label: label.monitor)
    monitors = [name for name, week in sorted(by_monitor.items()) if are_enough(week)]
    if of := [name for name in monitors if options.monitor in (None, name)]:
        audited = "corrects the audited mean, by labels of audited answers alone"
        why = "This mean corrects the judge's, by all drawn labels, so the two differ, in their errors too"
        yield f"The page's mean by people in {listed(of)} {audited}. {why}."


def _of_monitor(labels: Sequence[HumanLabel], ledger: "LabelLedger", monitor: str) -> list[HumanLabel]:
    """The labels of a monitor's answers. Labels of answers outside the log are the monitor's, too."""
    monitors = {one.names[0]: one.monitor for one in ledger.scored}
    if own := [label for label in labels if monitors.get(label.name, label.monitor or monitor) == monitor]:
        return own
    raise ConfigError(f"--monitor: no label is of an answer that {monitor} scored; name the monitor of the draw")


def _require_monitor(labels: Sequence[HumanLabel], ledger: "LabelLedger") -> None:
    """Refuse a random draw of answers that several monitors score: it may be of any one's answers."""
    by_answer = group_by(ledger.scored, lambda one: one.answer)
    by_name = {one.names[0]: {each.monitor for each in by_answer[one.answer]} for one in ledger.scored}
    monitors = [by_name[label.name] for label in labels if label.of_answer and not label.probability]
    if several := {name for names in monitors if len(names) > 1 for name in names}:
        of = listed(sorted(several))
        raise ConfigError(f"--random: name by --monitor which of {of} the answers were drawn from")


def _as_random(labels: Sequence[HumanLabel]) -> tuple[list[HumanLabel], Sequence[str]]:
    """The labels as a random draw with equal chances, of the log. If not all their answers are there, it is a draw of
    all traffic, in which the log's sampling weights would count some of them more often; a note says that.
    """
    own = [label for label in labels if not label.probability]
    outside = [label.weight for label in own if not label.name]
    alike = {*outside} == {1.0} and any(label.weight != 1.0 for label in own)
    equal = [replace(label, probability=1.0, weight=1.0 if alike else label.weight) for label in own]
    number, others = plural(len(outside), "label"), plural(len(own) - len(outside), "other")
    why = f"{number} of --random are of answers outside the log, so the log's sampling weights of {others} do not count"
    rest = [label for label in labels if label.probability]
    return [*equal, *rest], (f"Each label counts once: {why}.",) if alike else ()


def _once(
    labels: Sequence[HumanLabel], ledger: "LabelLedger"
) -> tuple[Sequence[HumanLabel], Sequence["_Scored"], Sequence[str]]:
    """The labels and scores in which each answer counts once, with the score of the monitor that draws most, and a note
    on the scores of monitors without drawn labels, which are left out.
    """
    known = {one.names[0]: one for one in ledger.scored}
    monitors = {known[label.name].monitor for label in labels_of_queue(labels) if label.name in known}
    used = [one for one in ledger.scored if not monitors or one.monitor in monitors]
    chosen = {one.names[1]: one.monitor for one in used}
    once = {one.answer: one for one in used if one.monitor == chosen[one.names[1]]}
    chances = Counter(one.answer for one in used)
    answers = group_by((label for label in labels if label.name in known), lambda label: known[label.name].answer)
    unique = [_of_answer(answers[name], one, chances[name], known) for name, one in once.items() if name in answers]
    unique += [label for label in labels if label.name not in known]
    left_out = len(ledger.scored) - len(used)
    notes = [f"Not used: {plural(left_out, 'score')} of monitors without drawn labels."] if left_out else []
    return unique, list(once.values()), notes


def _of_answer(
    labels: Sequence[HumanLabel], scored: "_Scored", draws: int, known: Mapping[str, "_Scored"]
) -> HumanLabel:
    """The label of an answer, by the weight of the monitor whose score counts."""
    label = label_of_answer(labels, draws)
    weight = label.weight / known[label.name].judged.weight * scored.judged.weight
    return replace(label, name=scored.names[0], weight=weight)


def _segments(labels: Sequence[HumanLabel], scale: ScoreScale) -> Iterator[Agreement]:
    names = sorted({label.segment for label in labels})
    for name in names if len(names) > 1 else ():
        of_segment = [label for label in labels if label.segment == name]
        what = "monitor" if of_segment[0].monitor else "segment"
        yield agreement(f"{what} {name}", weighted_pairs(of_segment), scale)


def _by_monitor(
    labels: Sequence[HumanLabel], scored: Sequence["_Scored"], scale: ScoreScale
) -> Iterator[tuple[str, MonitorMeans]]:
    names, monitors = {name: one.monitor for one in scored for name in one.names[:1]}, {one.monitor for one in scored}
    for monitor in sorted(monitors) if len(monitors) > 1 else ():
        ledger = [one.judged for one in scored if one.monitor == monitor]
        own = [label for label in labels_of_queue(labels) if names.get(label.name) == monitor]
        why, raw = why_withheld(own, scale), weighted_mean(ledger)
        yield monitor, (raw, None if why else mean_by_people(own, ledger), why)


@dataclass(frozen=True, slots=True)
class _Scored:
    """A score in the log, and the ids by which a label may name it; what was read, and the present auditor's score.

    The `answer` is the same for all monitors.
    """

    judged: WeightedScore
    names: tuple[str, ...]
    answer: Hashable
    tokens: float | None
    attributes: Mapping[str, Json]
    audit: AuditScore | None
    monitor: str
    at: datetime
    doubt: float
    """That of the answer's first score."""


@dataclass(frozen=True, slots=True)
class LabelLedger:
    """The logged scores and labels of a version of an evaluator. `others` are the evaluations that its other versions
    scored: their ids, each with its subject's id. `first` has of each evaluation the first score of its answer, with
    the judge's doubt and whether there is an audit (with the same shares, equal ones are drawn alike), the probability
    of its draw now, and its doubt by the threshold of now.

    If several monitors judged an answer, the last of `scored` is of the one that draws most. Draws are nested, so this
    one has judged all that the others have, and its weights are those of the traffic of all.
    """

    scored: tuple[_Scored, ...]
    others: Mapping[str, str]
    first: Mapping[str, tuple[object, float, float]]
    book: LabelIndex

    def count(self, labels: Sequence[HumanLabel]) -> str:
        """How many labels these are if all of an answer, whichever monitor judged it, are one, as in the figures."""
        answers = {one.names[0]: one.answer for one in self.scored}
        return plural(len({answers.get(label.name, id(label)) for label in labels}), "labelled answer")


async def ledger_of(config: Config, version: Version, scale: ScoreScale, *, needed: bool = False) -> LabelLedger:
    """The ledger in the logs as they are stored, which is empty if they are missing and not `needed`.

    Replaced evaluations of a conversation are in it: they are in the live mean, which labels correct, and the queue
    draws them.
    """
    book = LabelIndex([version[0]] if scale.lower_is_better else [])
    scored = list[_Scored]()
    others, first = dict[str, str](), dict[str, tuple[object, float, float]]()
    queue = (config.settings.page or PageSettings()).queue
    threshold, auditor = config.evaluators[version[0]].evaluator.threshold, audit_version_in(config, version[0])
    async with open_stored_logs(config.settings.log, needed=needed) as logs:
        async for past in priced_evaluations_in(logs.evaluations):
            evaluation = past.evaluation
            if evaluation.evaluator == version[0] and evaluation.score is not None:
                is_audited, before = audit_of(evaluation) is not None, str(evaluation.attributes.get(REPLAY_OF))
                kind = evaluation.score, doubt_of(evaluation.details), is_audited
                doubt = label_doubt(evaluation, threshold)
                share = draw_probability(queue, doubt, audited=is_audited)
                of = first[evaluation.evaluation_id] = first.get(before) or (kind, share, doubt)
                if evaluation.evaluator_version == version[1]:
                    scored.append(_scored(evaluation, of[2], auditor))
                else:
                    others[evaluation.evaluation_id] = evaluation.subject.id
        async for record in read_records(logs.labels):
            book.add(record)
    scored.sort(key=lambda one: (one.judged.weight, one.monitor), reverse=True)
    return LabelLedger(tuple(scored), others, first, book)


def _scored(evaluation: Evaluation, doubt: float, auditor: str | None) -> _Scored:
    assert evaluation.score is not None
    conversation = evaluation.subject.conversation_id
    judged = WeightedScore(evaluation.score, 1.0 / evaluation.sampling.probability, conversation, evaluation.passed)
    return _Scored(
        judged, names_of(evaluation), key_of(evaluation), tokens_read(evaluation), evaluation.attributes,
        audit_by(evaluation, auditor), evaluation.monitor, evaluation.time, doubt,
    )  # fmt: skip


def _bias_notes(labels: Sequence[HumanLabel], scored: Sequence[_Scored]) -> Iterator[str]:
    """Notes on the judge's biases, by people's labels and by audits."""
    known = {name: one for one in scored for name in one.names}
    read = [(label, known.get(label.name)) for label in measured_labels(labels)]
    by_people = judged_pairs(
        [replace(label, tokens=one.tokens, attributes=one.attributes) if one else label for label, one in read]
    )
    by_audits = [
        JudgedPair(
            one.judged.score, one.audit.score, one.judged.weight / one.audit.probability, one.judged.conversation,
            one.tokens, labels_of(one.attributes),
        )
        for one in scored if one.audit is not None
    ]  # fmt: skip
    for pairs, whom, wrong in ((by_people, "people", PEOPLE_ERRORS), (by_audits, "audits", AUDIT_ERRORS)):
        yield from biases(pairs, wrong).sentences(whom)


_UNLIKELY = 0.01


def _notes_on_time(at_random: Sequence[HumanLabel], scored: Sequence[_Scored]) -> Iterator[str]:
    """The part of the scores before or after all labelled answers, if a draw from all would hardly leave it out."""
    known = {name: one.at for one in scored for name in one.names}
    times = sorted(known[label.name] for label in at_random if label.name in known)
    if not times:
        return
    total = math.fsum(one.judged.weight for one in scored)
    for end, than, is_outside in ((times[0], "older", lt), (times[-1], "newer", gt)):
        share = math.fsum(one.judged.weight for one in scored if is_outside(one.at, end)) / total
        if (1.0 - share) ** len(times) < _UNLIKELY:
            what = f"{percent(share)} of the scores, {than} than all labelled ones ({end:%Y-%m-%dT%H:%MZ})"
            yield f"Not represented by labels: {what}. evalstream labels next draws from the whole log."


def _note_on_sample(at_random: Sequence[HumanLabel], scored: Sequence[_Scored]) -> Iterator[str]:
    """A note if the labelled answers' mean score, or doubt, differs from that of all beyond chance.

    The error is that of a Poisson sample of values with this variance (Särndal, Swensson and Wretman 1992).
    """
    known = {one.names[0]: one for one in scored}
    sample = [(label, known[label.name]) for label in at_random if label.name in known]
    if len(sample) < FEWEST:
        return
    part = min(1.0, math.fsum(1.0 / (label.probability or 1.0) for label, _ in sample) / len(scored))
    left = [math.sqrt(1.0 - part * (label.probability or 1.0)) for label, _ in sample]
    weights = [one.judged.weight / (label.probability or 1.0) for label, one in sample]
    all_weights = [one.judged.weight for one in scored]
    error = math.hypot(*map(float.__mul__, weights, left)) / math.fsum(weights)
    for what, of_all, of_sample in (
        ("score", [one.judged.score for one in scored], [one.judged.score for _, one in sample]),
        ("doubt", [one.doubt for one in scored], [one.doubt for _, one in sample]),
    ):
        labelled, whole = fmean(of_sample, weights), fmean(of_all, all_weights)
        spread = math.sqrt(fmean([(value - whole) ** 2 for value in of_all], all_weights))
        if abs(labelled - whole) > DRIFT_ERRORS * error * spread + _ROUNDING:
            means = f"The judge's mean {what} is {labelled:.3f} on them and {whole:.3f} on all answers, beyond chance"
            yield f"The labelled answers are no random draw. {means}. evalstream labels next draws again."
            return


_ROUNDING = 1e-9


def _notes_on_shares(labels: Sequence[HumanLabel], ledger: LabelLedger) -> tuple[str, ...]:
    """A note if labels are of several draws: in one draw, the first score of an answer determines the probability. Or
    if they are of one with other shares than those of now. Nothing is known of a draw by another evaluator's scores.
    """
    shares, others = dict[object, float](), list[HumanLabel]()
    for label in labels:
        first = ledger.first.get(label.other_id or label.name)
        if label.probability is not None and first is not None:
            share = shares.setdefault(first[0], label.probability)
            others += [label] * (not math.isclose(label.probability, first[1]))
            if not math.isclose(share, label.probability):
                note = f"labels of equal scores have the label_probability {share:.3g} and {label.probability:.3g}"
                why = "page.queue or the threshold changed between the draws, so all figures may be wrong"
                return (f"{_MIXED}{note}: {why}. Draw again by evalstream labels next; calibrate its file alone.",)
    note = f"Drawn with other shares than page.queue and the threshold give now: {ledger.count(others)}"
    own = "They count with the probability of their own draw, so do not add labels drawn now"
    again = "Lines of labels next --without have a wrong probability now: draw those again"
    return (f"{note}. {own}. {again}.",) if others else ()


_MIXED = "Mixed draws: "


def _labels(
    options: CalibrateOptions, version: Version, ledger: LabelLedger, *, lower_is_better: bool
) -> tuple[list[HumanLabel], tuple[str, ...]]:
    """The labels that count, and notes on them: those of the page, or of a file. With drawn labels of logged answers in
    the file, the page's are of the same draw, so that both count; unless one of them was drawn with other shares.
    """
    page, notes = _page_labels(version, ledger, is_needed=options.labels is None)
    if options.labels is None:
        return page, (*notes, *_notes_on_shares(page, ledger))
    by_preference = sorted(ledger.scored, key=lambda one: one.monitor == options.monitor)
    known = {name: one for one in by_preference for name in one.names}
    scores = {name: one.judged for name, one in known.items()}
    unused = list[str]()
    labels = read_labels(options.labels, scores, version[0], lower_is_better=lower_is_better, report=unused.append)
    if options.json and unused:  # the text has it at its end
        to_terminal(unused[0])
    labels = [replace(label, name=known[label.name].names[0] if label.name else "") for label in labels]
    segments = {label.name: label.segment for label in labels}
    page = [replace(label, segment=segments.get(label.name, "all"), monitor="") for label in labels_of_queue(page)]
    both, own = _one_each((*labels, *page)), (*unused, *_notes_on_shares(labels, ledger))
    of_page = f"{ledger.count(page)} of the page"
    if (why := why_alone(labels, page, ledger)) is not None:
        return _one_each(labels), (*own, f"Not used: {of_page}, {why}.") if page else own
    of_both = _notes_on_shares([*labels, *page], ledger)
    return both, (*notes, *unused, *of_both, f"{of_page} count beside those of the file.")


def _one_each(labels: Iterable[HumanLabel]) -> list[HumanLabel]:
    """One label of each evaluation, in a segment, by all people; lines may name one by different ids."""
    by_name = group_by(labels, lambda label: (label.name or id(label), label.segment))
    return [mean_label(each) for each in by_name.values()]


def why_alone(labels: Sequence[HumanLabel], page: Sequence[HumanLabel], ledger: LabelLedger) -> str | None:
    """The reason why the page's drawn labels are not of the draw that a file's are of; None if they are."""
    if not page or not any(label.name for label in labels_of_queue(labels)):
        return "as no line of the file has a label_probability and names an answer in the log"
    own, mixed = _notes_on_shares(labels, ledger), _notes_on_shares([*labels, *page], ledger)
    is_mixed = own != mixed and mixed[0].startswith(_MIXED)
    is_other = is_mixed or any(_is_of_other_evaluator(label, ledger) for label in labels)
    return (
        "drawn with other shares than the file's, by another page.queue, threshold or evaluator" if is_other else None
    )


def _is_of_other_evaluator(label: HumanLabel, ledger: LabelLedger) -> bool:
    return label.other_id not in ledger.first if label.other_id else False


def _page_labels(version: Version, ledger: LabelLedger, *, is_needed: bool) -> tuple[list[HumanLabel], tuple[str, ...]]:
    """The labels of the page, and notes on them. A label of another version counts for the same subject's score by this
    one, which both versions have to have sampled: their draws are nested, so that the less probable one counts.
    """
    evaluator, newest, unused, notes = version[0], dict[str, HumanLabel](), 0, list[str]()
    current = {(one.monitor, one.names[1]): one for one in ledger.scored}
    any_monitor, monitors = {one.names[1]: one for one in ledger.scored}, {one.monitor for one in ledger.scored}
    own, others = ledger.book.labels(version), ledger.book.others(version)
    labels, names = [*others, *own], {label.name for label in own}
    for label in sorted(labels, key=lambda label: (label.probability is not None, label.at)):
        subject = ledger.others.get(label.name, "")
        one = current.get((label.monitor, subject)) if label.monitor in monitors else any_monitor.get(subject)
        if label.name in names:
            newest[label.name] = label
        elif one is not None:
            new, weight, name = one.judged, max(label.weight, one.judged.weight), one.names[0]
            of_now = replace(label, judge=new.score, passed=new.passed, weight=weight)
            newest[name] = replace(of_now, name=name, other_id=label.name)
        else:
            unused += 1
    if replaced := len(labels) - len(newest) - unused:
        notes.append(f"Not used: {plural(replaced, 'older label')} of answers that have a newer one.")
    if unused:
        notes.append(f"Not used: {plural(unused, 'label')} of answers that this version of {evaluator} did not score.")
    if is_needed and not newest:
        older = f" ({plural(unused, 'label')} of other versions; rejudge scores their answers by the present one)"
        none = f"the page has no labels of {evaluator}{older if unused else ''}"
        raise ConfigError(f"{none}; label some evaluations there, or name a file of labels")
    return list(newest.values()), tuple(notes)


def calibration(
    options: CalibrateOptions, labels: Sequence[HumanLabel], ledger: Sequence[WeightedScore], scale: ScoreScale,
    notes: tuple[str, ...] = (),
) -> Calibration:  # fmt: skip
    """The figures; `ledger` holds all scores of the traffic that the labels were drawn from."""
    pairs = weighted_pairs(labels)
    at_random = [label for label in labels if label.probability is not None]
    why = why_withheld(labels_of_queue(labels), scale)
    threshold = None if scale.by_label else scale.threshold_for(pairs, options.target)
    fitted = scale if threshold is None else replace(scale, threshold=threshold)
    now, (bad_failed, good_failed) = _shares_failed(pairs, scale), _shares_failed(pairs, fitted)
    if scale.threshold is not None and now[0] >= max(bad_failed, options.target) and not now[1] > good_failed:
        threshold, bad_failed = scale.threshold, now[0]
    return Calibration(
        evaluator=options.evaluator, threshold=scale.threshold, by_label=scale.by_label,
        agreements=(agreement("", pairs, scale),),
        fitting_threshold=threshold, bad_failed=bad_failed, good_failed=good_failed, target=options.target,
        has_bad=any(scale.is_bad(one.human) for pair in pairs for one in pair.verdicts()),
        raw_mean=weighted_mean(ledger) if ledger else None,
        corrected_mean=None if why or not ledger else mean_by_people(at_random, ledger),
        notes=(*notes, *undecided(measured_labels(labels), scale), *_notes_on_mean(why, at_random, ledger),
               *(_notes_on_draw(labels, at_random) if at_random or ledger else ()),
               *_note_on_certificate(options.certify, ledger, scale)),
        certificate=_certificate(options.certify, at_random, ledger, scale),
    )  # fmt: skip


def _shares_failed(pairs: Sequence[LabelledScore], scale: ScoreScale) -> tuple[float, float]:
    """The shares that fail of what people label as bad, and as good."""
    of = verdict_agreement(pairs, scale)
    return of.specificity.value, 1.0 - of.sensitivity.value


def mean_by_people(labels: Sequence[HumanLabel], ledger: Sequence[WeightedScore]) -> CorrectedMean | None:
    """The mean as the page computes it, here of all the past."""
    totals = [
        (math.fsum(one.weight for one in scores), math.fsum(one.weight * one.score for one in scores))
        for scores in by_conversation(ledger)
    ]
    of_all = Sums(*map(math.fsum, zip(*((w, wy, w * w, w * wy, wy * wy) for w, wy in totals), strict=True)))
    return (people_sums(labels, are_scored=all(label.name for label in labels)) + sums_of_scores(of_all)).corrected()


def _notes_on_mean(why: str, at_random: Sequence[HumanLabel], ledger: Sequence[WeightedScore]) -> Iterator[str]:
    """Why there is no corrected mean, and what it rests on."""
    if not ledger:
        yield "No corrected mean, with or without --random: the log has no score by this version of the evaluator."
    elif why not in ("", "few"):
        yield f"Withheld: the corrected mean, because {WITHHELD[why]}."
    elif at_random and why:
        conversations = plural(len(by_conversation(one.weighted() for one in at_random)), "conversation")
        number = people_sums(at_random).audits
        yield (
            f"No corrected mean: it needs labels of about 32 conversations of equal weight, which count as "
            f"{FEWEST_AUDITS}. The drawn labels of {plural(len(at_random), 'answer')} in {conversations} count as "
            f"{at_least(number, 1)}: labels that are few, share a conversation or have unequal weights count less. "
            f"Label at least {max(1, math.ceil(FEWEST_AUDITS - number))} more, of other conversations."
        )
    if ledger and (strange := sum(not label.name for label in at_random)):
        what = f"Not checked: whether {plural(strange, 'drawn label')} of answers outside the log"
        yield f"{what} are of the same traffic as the log's scores. Means and certificate suppose that."


def _certificate(
    bound: float | None, labels: Sequence[HumanLabel], ledger: Sequence[WeightedScore], scale: ScoreScale
) -> Certificate | None:
    """The requested certificate. Raises ConfigError: there is nothing to certify it by."""
    if bound is None:
        return None
    decided = [label for label in labels if scale.decides(label.passed)]
    judged = [one for one in ledger if scale.decides(one.passed)]
    if not decided or not judged:
        what = "labels that were drawn at random (--random, or label_probability)" if judged else "scores in the log"
        raise ConfigError(f"--certify: needs {what}{' with a verdict' if labels and ledger else ''}; there are none")
    both = [one for label in decided for one in label.weighted().verdicts()]
    pairs = [VerdictPair(scale.fails(one.judge, one.passed), scale.is_bad(one.human), *one[2:4]) for one in both]
    verdicts = [JudgedVerdict(scale.fails(one.score, one.passed), one.weight, one.conversation) for one in judged]
    return replace(certify(pairs, verdicts, bound), labels=len(decided))


def _note_on_certificate(bound: float | None, ledger: Sequence[WeightedScore], scale: ScoreScale) -> Iterator[str]:
    if bound is not None and (number := sum(not scale.decides(one.passed) for one in ledger)):
        yield f"The certificate leaves out {plural(number, 'score')} without a verdict."


def _notes_on_draw(labels: Sequence[HumanLabel], at_random: Sequence[HumanLabel]) -> Iterator[str]:
    picked = len(labels) - len(at_random)
    if not picked:
        return
    what = "Not used" if len(at_random) >= FEWEST else "Not used for a mean" if at_random else "No corrected mean"
    verb = "does" if picked == 1 else "do"
    yield (
        f"{what}: {plural(picked, 'label')} {verb} not say how they were drawn, and what somebody picks says nothing "
        "about the mean. If they are a random draw, say so with --random, or with label_probability in each line."
    )


def as_json(result: Calibration) -> str:
    """One JSON object."""
    certificate = result.certificate
    document = {
        **fields_of(
            result, "evaluator", "threshold", "fitting_threshold", "bad_failed", "good_failed", "raw_mean", "notes"
        ),
        "segments": [
            {
                "segment": agreement.segment.partition(" ")[2] or None,
                "monitor": agreement.segment.removeprefix("monitor ") if "monitor " in agreement.segment[:8] else None,
                "labels": agreement.labels,
                **{name: {"value": value, "interval": bounds} for name, (value, bounds) in agreement.measures.items()},
            }
            for agreement in result.agreements
        ],
        "target_specificity": result.target,
        "corrected_mean": _as_numbers(result.corrected_mean),
        "monitors": {
            name: {"raw_mean": raw, "corrected_mean": _as_numbers(by_people), "withheld": why}
            for name, (raw, by_people, why) in result.monitors.items()
        },
        "certificate": certificate and {**asdict(certificate), "certified": certificate.certified},
    }
    return orjson.dumps(document).decode() + "\n"


def _as_numbers(mean: CorrectedMean | None) -> Mapping[str, object] | None:
    return None if mean is None else {**fields_of(mean, "mean", "error", "interval", "power"), "number": mean.audits}


def as_text(result: Calibration) -> str:
    """A table per segment and what follows from it."""
    tables = [_table(result.evaluator, agreement) for agreement in result.agreements]
    return report_text([*tables, *_conclusions(result)])


def _table(evaluator: str, of: Agreement) -> Table:
    whose = f"{evaluator}, {of.segment}" if of.segment else evaluator
    table = figures_table("measure", ("value", "95 % interval"), title=f"{whose}: {plural(of.labels, 'answer')}")
    for name, (value, bounds) in of.measures.items():
        interval = "–" if bounds is None else f"{bounds[0]:z.3f} … {bounds[1]:z.3f}"
        table.add_row(name.replace("_", " "), "–" if math.isnan(value) else f"{value:z.3f}", interval)
    return table


def _conclusions(result: Calibration) -> Iterator[str]:
    yield _suggestion(result)
    if result.raw_mean is not None and result.corrected_mean is not None:
        yield f"Mean score of the judge: {_means(result.raw_mean, result.corrected_mean)}."
    for monitor, means in result.monitors.items():
        yield f"Mean score of the judge in monitor {monitor}: {_means(*means)}."
    if result.certificate is not None:
        yield _certified(result.certificate)
    if result.agreements[0].labels < ENOUGH:
        yield f"Only {plural(result.agreements[0].labels, 'answer')}: below {ENOUGH} the intervals are too narrow."
    yield from result.notes


def _suggestion(result: Calibration) -> str:
    most, fitting = f"{result.target:.0%} of what people label as bad", result.fitting_threshold
    shares = ((result.bad_failed, "bad"), (result.good_failed, "good"))
    known = [f"{percent(share, 1)} of what people label as {side}" for share, side in shares if not math.isnan(share)]
    fails = " and ".join(known)
    if result.by_label:
        return f"No threshold is suggested, as the label decides{fails and f': it fails {fails}'}."
    if fitting is None:
        why = f"none fails {most}" if result.has_bad else "people label nothing as bad"
        return f"No threshold is suggested: {why}."
    if result.good_failed >= 0.5:
        fits = f"No threshold is suggested: any that fails {most} also fails half the good. The best, {fitting:.3f},"
    elif fitting == result.threshold:
        fits = f"No other threshold is suggested: {fitting:.3f}, the present one,"
    else:
        fits = f"Suggested threshold: {fitting:.3f}; it"
    return f"{fits} fails {fails}."


WITHHELD: Mapping[str, str] = {
    "few": f"the monitor's drawn labels count as fewer than {FEWEST_AUDITS}",
    "undecided": f"labels whose scores have a verdict count as fewer than {FEWEST}: too few to show if people agree",
    "weak": f"sensitivity + specificity - 1 is below {WEAKEST:g}: the judge's verdicts say too little about people's",
    "drift": f"newer labels differ from older ones by more than {DRIFT_ERRORS:g} standard errors; label new answers",
}


def _means(raw: float, by_people: CorrectedMean | None, why: str = "") -> str:
    if by_people is None:
        return f"{raw:.3f}, not corrected: {WITHHELD[why or 'few']}"
    return f"{raw:.3f}; corrected by the labels: {mean_text(by_people.mean, by_people.error, by_people.audits)}"


def _certified(of: Certificate) -> str:
    known = (
        f"by random labels of {plural(of.labels, 'answer')} and the judge the rate is {percent(of.rate, 1)}, and "
        f"below {at_most(100 * of.upper, 1)}% with 95 % confidence; the judge alone says {percent(of.judged, 1)}"
    )
    if of.certified:
        return f"Certified: the true failure rate is below {100 * of.bound:g}%; {known}."
    return f"Not certified: the true failure rate may be {100 * of.bound:g}% or more; {known}."
