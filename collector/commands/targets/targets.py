"""`evalstream plan targets`: a target for each evaluator by its past scores, with the alerts that it would have raised.

Past scores go minute by minute through the service's own sums, drop detector and test of the mean over every window: as
they were, and with falls planted in them. Pages within a day of each other belong together. The target of an audited
evaluator is of its audits: these are then the scores. Alerts correct their mean by the cheap scores, which makes its
error smaller; here it is the mean of the audits alone.
"""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate, groupby
from statistics import fmean
from typing import Any

import yaml

from collector.alerting.rules.series import WINDOWS
from collector.alerting.rules.targets import ALIKE, Target, detector, segment_dimensions, targets
from collector.config.command_options import WindowOptions, require_known, require_window
from collector.config.configured import Config
from collector.errors import DONE, EvalstreamError
from collector.export.segments import ALL, Segments, count_segments
from collector.logs.log import Log
from collector.past.evaluations import EvaluationFilter, of_versions
from collector.records.audits import FEWEST_AUDITS, audit_by
from collector.records.grouping import group_by
from collector.records.json import indented_json
from collector.service.open_logs import open_stored_logs
from collector.service.plan_builder import audit_version_in, evaluator_versions
from collector.statistics.audited_sums import audited_weight
from collector.statistics.bounded_sums import BoundedSums, Sums, Weight
from collector.statistics.incident import DropDetector, evidence
from collector.statistics.intervals import mean_text
from collector.statistics.mean_error import WindowSums
from collector.statistics.score_history import DAY, HOUR, PastScore, ScoreHistory, history_of
from collector.wording import figure, hours, plural
from evaluators.results import Evaluation

MINUTE = 60.0
LONGEST = 7 * DAY
"""How long a planted fall is looked for."""


@dataclass(frozen=True, slots=True)
class Minute:
    """The sums of a minute's scores, for the mean and for the detector."""

    mean: Sums
    evidence: Sums
    scores: int


@dataclass(frozen=True, slots=True)
class PastAlerts:
    """The two alerts on a mean: `errors` standard errors page, from `least` effective conversations on."""

    detector: DropDetector
    errors: float
    least: float

    def pages(self, scores: Iterable[PastScore]) -> list[float]:
        """When they would have paged (s), the first page of each day."""
        pages: list[float] = []
        for time in self._pages(scores):
            if not pages or time - pages[-1] >= DAY:
                pages.append(time)
        return pages

    def delay(self, scores: Iterable[PastScore], start: float) -> float | None:
        """Seconds from `start` to the first page after it."""
        return next((time - start for time in self._pages(scores) if time > start), None)

    def _pages(self, scores: Iterable[PastScore]) -> Iterator[float]:
        detector, bets = self.detector, self.detector.bets
        states = detector.start()
        numbers: list[int] = []
        totals = [WindowSums()]
        starts = dict.fromkeys(WINDOWS, 0)
        for number, minute in minutes_of(scores):
            numbers.append(number)
            totals.append(WindowSums(totals[-1].sums + minute.mean, totals[-1].scores + minute.scores))
            states = detector.advance(states, [detector.log_gain_bound(bet, minute.evidence) for bet in bets])
            dropped = evidence(states) > detector.threshold
            if dropped:
                states = detector.start()
            for window, length in WINDOWS.items():
                while numbers[starts[window]] <= number - length / MINUTE:
                    starts[window] += 1
            last, earlier = totals[-1], [totals[first] for first in starts.values()]
            windows = [WindowSums(last.sums - before.sums, last.scores - before.scores) for before in earlier]
            if dropped or any(self._misses(window, day=windows[-1]) for window in windows):
                yield (number + 1) * MINUTE

    def _misses(self, window: WindowSums, day: WindowSums) -> bool:
        sums = window.sums
        if sums.w <= 0.0 or sums.n_eff < self.least:
            return False
        return self.detector.shortfall(1.0, sums.mean) > self.errors * window.stderr(day)


def minutes_of(scores: Iterable[PastScore]) -> Iterator[tuple[int, Minute]]:
    """Each minute with scores, which are in order of time, and its sums."""
    sums = BoundedSums()
    for number, group in groupby(scores, key=lambda each: int(each.time // MINUTE)):
        mean, evidence_, count = Sums(), Sums(), 0
        for score in group:
            count += 1
            grown = sums.add(None, score.conversation, weight=score.weight, score=score.score, time=score.time)
            mean += grown.mean
            evidence_ += grown.evidence
        yield number, Minute(mean, evidence_, count)


def with_fall(
    scores: Sequence[PastScore], start: float, fall: float, mean: float, *, lower_is_better: bool, seed: int = 0
) -> Iterator[PastScore]:
    """Past scores as they would have been, had their mean got worse by `fall` at `start` (s).

    A share of the conversations is as bad as can be from then on. They begin a day before, and go round at their end.
    """
    chance = random.Random(seed)
    room = 1.0 - mean if lower_is_better else mean
    share = min(1.0, fall / room) if room > 0.0 else 0.0
    bad: dict[str, bool] = {}
    for score in _round(scores, start - DAY, start + LONGEST):
        if score.time < start:
            yield score
            continue
        if score.conversation not in bad:
            bad[score.conversation] = chance.random() < share
        yield score._replace(score=float(lower_is_better)) if bad[score.conversation] else score


def _round(scores: Sequence[PastScore], begin: float, end: float) -> Iterator[PastScore]:
    """Scores of a time span: where there are none left, those of whole days earlier or later again."""
    first, last = scores[0].time, scores[-1].time
    span = max(1.0, (last - first) // DAY + ((last - first) % DAY > 0)) * DAY
    lap = int((begin - first) // span)
    while first + lap * span < end:
        for score in scores:
            time = score.time + lap * span
            if begin <= time < end:
                yield score._replace(time=time, conversation=f"{lap}/{score.conversation}")
        lap += 1


AlertsOf = Callable[[Target, float], PastAlerts]
"""The alerts on an evaluator's mean with a target."""

FEWEST = 200
"""Scores without which nothing is proposed."""
_MOST_NAMED = 5
"""If there are too few of each, the evaluators or segments whose number of scores is printed: those with the most."""
FALLS = (0.05, 0.1, 0.2)
MARGIN = 0.02
"""How far a target is from the worst hour of the day, at least: means move a little."""
_ERRORS = 3.0
"""How many standard errors worse than measured the mean may be."""
_STARTS = 8
"""Times at which each fall is planted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetsOptions(WindowOptions):
    """The command's options: the history from `since` to `until`."""

    monitor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FallDelay:
    """How long a fall takes to page, in half and in nine of ten cases (h); None is longer than a week."""

    fall: float
    half: float | None
    most: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The alerts that a target would have raised: the times of pages, and how soon they would have found falls."""

    target: float
    pages: tuple[float, ...]
    delays: tuple[FallDelay, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A target that is proposed for an evaluator, beside the one that it has, if any, with a segment's scores.

    If an alert would have fired, the scores before the fall (`fell`, s) count; without enough, nothing is proposed.
    """

    of: Target
    history: ScoreHistory
    proposed: Trial | None
    present: Trial | None
    fell: float | None = None
    segment: str = ALL


async def propose(config: Config, options: TargetsOptions, say: Callable[[str], None], *, as_json: bool) -> int:
    """Print a proposal for every evaluator of every monitor that alerts; returns the exit status.

    Raises:
        ConfigError: there is no such monitor, or no log.
        EvalstreamError: there are too few scores.
    """
    every = targets(config)
    require_known("--monitor", "monitor", [options.monitor], {target.monitor for target in every})
    require_window(options.since, options.until)
    # an audited evaluator has two targets: the second one, of its audits, is the one with alerts
    alerting = {(target.monitor, target.source): target for target in every if target.label is None}
    chosen = [target for target in alerting.values() if options.monitor in (None, target.monitor)]
    alerts_of = partial(_alerts_of, config, every)
    async with open_stored_logs(config.settings.log) as logs:
        scores = await _read(logs.evaluations, config, options)
    alike = [target for target in chosen if not _has_scores(target, config)]
    chosen = [target for target in chosen if target not in alike]
    past = {target: scores.get((target.monitor, target.source)) or {ALL: []} for target in chosen}
    made = [proposal for target, parts in past.items() for proposal in _for_segments(target, parts, alerts_of)]
    if alike and not chosen:
        raise EvalstreamError(f"{_name(alike[0])}: {ALIKE}")
    if not made:
        most = [line for _, line in sorted(_too_few(past), key=lambda each: -each[0])]
        raise EvalstreamError(
            f"no evaluator's present version has {FEWEST} scores (or {FEWEST} audits, if it is audited)"
            f"{' in one segment' * bool(segment_dimensions(config))} in this time: {'; '.join(most[:_MOST_NAMED])}. "
            "Name an earlier --from, or come back when there are more"
        )
    json = indented_json({"targets": [_document(proposal) for proposal in made]})
    for line in [json] if as_json else _lines(made, past, alike):
        say(line)
    return DONE


_Parts = Mapping[str, Sequence[PastScore]]
"""Scores by segment, in order of time."""


async def _read(log: Log, config: Config, options: TargetsOptions) -> Mapping[tuple[str, str], _Parts]:
    """The scores of each monitor's evaluators, or their audits: those of the versions in force."""
    selection = EvaluationFilter(since=options.since, until=options.until)
    auditors = {name: audit_version_in(config, name) for name in config.evaluators}
    convert = partial(_past_score, auditors, Segments(segment_dimensions(config)))
    scores = await of_versions(log, selection, evaluator_versions(config), convert)
    return {key: group_by(sorted(past), lambda score: score.segment) for key, past in scores.items()}


def _past_score(auditors: Mapping[str, str | None], segments: Segments, evaluation: Evaluation) -> PastScore | None:
    score, weight, auditor = evaluation.score, Weight.of(evaluation.sampling), auditors.get(evaluation.evaluator)
    if (audit := audit_by(evaluation, auditor)) is not None:
        score, weight = audit.score, audited_weight(evaluation.sampling, audit)
    elif auditor is not None or score is None:
        return None
    segment = segments.of(evaluation.attributes)
    return PastScore(evaluation.time.timestamp(), evaluation.subject.conversation_id, weight, score, segment)


def _for_segments(of: Target, parts: _Parts, alerts_of: AlertsOf) -> list[Proposal]:
    """The proposal with each segment's scores. Alerts hold every segment to one target, which is the easiest one."""
    enough = {segment: part for segment, part in sorted(parts.items()) if len(part) >= FEWEST}
    made = [replace(_propose(of, part, alerts_of), segment=segment) for segment, part in enough.items()]
    own = [proposal.proposed.target for proposal in made if proposal.proposed]
    if len(set(own)) < 2:
        return made
    easiest = max(own) if of.lower_is_better else min(own)
    return [replace(_propose(of, part, alerts_of, easiest), segment=segment) for segment, part in enough.items()]


def _propose(of: Target, scores: Sequence[PastScore], alerts_of: AlertsOf, target: float | None = None) -> Proposal:
    """The proposal from the scores before a fall that would have paged. If these missed the target, too, none fell."""
    made = _proposed_from(scores, of, alerts_of, target)
    paged = min(((trial.pages[0], trial.target) for trial in (made.proposed, made.present) if trial and trial.pages),
                default=None)  # fmt: skip
    if paged is None:
        return made
    until = [score for score in scores if score.time < paged[0]]
    mean, sign = fmean(score.score for score in until), -1.0 if of.lower_is_better else 1.0
    risen = list(accumulate(sign * (score.score - mean) for score in until))
    calm = until[: risen.index(max(risen)) + 1]
    if sign * (fmean(score.score for score in calm) - paged[1]) <= 0.0:
        return made
    again = _proposed_from(calm, of, alerts_of, target) if len(calm) >= FEWEST else replace(made, proposed=None)
    return replace(again, present=made.present, fell=calm[-1].time)


def _proposed_from(scores: Sequence[PastScore], of: Target, alerts_of: AlertsOf, target: float | None) -> Proposal:
    history = history_of(scores)
    away = history.wave + max(MARGIN, _ERRORS * history.error)
    level = history.mean + away if of.lower_is_better else history.mean - away
    # to two decimals, away from the mean
    rounded = math.ceil(level * 100.0 - 1e-9) if of.lower_is_better else math.floor(level * 100.0 + 1e-9)
    proposed = target or min(0.99, max(0.01, rounded / 100.0))
    return Proposal(
        of=of,
        history=history,
        proposed=_try(of, proposed, scores, history, alerts_of),
        present=None if of.mean in (None, proposed) else _try(of, of.mean, scores, history, alerts_of),
    )


def _alerts_of(config: Config, every: Sequence[Target], of: Target, mean: float) -> PastAlerts:
    alerts = config.settings.alerts
    watching = [target for target in every if target.mean is not None or target is of]
    detecting = detector(replace(of, mean=mean), watching, alerts, count_segments(segment_dimensions(config)))
    fewest = max(alerts.min_conversations, FEWEST_AUDITS if of.audited else 0)
    return PastAlerts(detecting, alerts.page_standard_errors, fewest)


def _try(of: Target, mean: float, scores: Sequence[PastScore], history: ScoreHistory, alerts_of: AlertsOf) -> Trial:
    past = alerts_of(of, mean)
    after: list[FallDelay] = []
    # scores of a part of a day leave the rest of it empty when they are repeated
    for fall in FALLS if history.end - history.begin >= DAY else ():
        delays = sorted(_delay(past, scores, history, fall, number) for number in range(_STARTS))
        half, most = delays[(_STARTS - 1) // 2], delays[-(-9 * _STARTS // 10) - 1]
        after.append(FallDelay(fall=fall, half=_hours(half), most=_hours(most)))
    return Trial(target=mean, pages=tuple(past.pages(scores)), delays=tuple(after))


def _delay(past: PastAlerts, scores: Sequence[PastScore], history: ScoreHistory, fall: float, number: int) -> float:
    start = history.begin + (history.end - history.begin) * (number + 0.5) / _STARTS
    lower = past.detector.lower_is_better
    if past.detector.shortfall(1.0, history.mean + fall if lower else history.mean - fall) <= 0.0:
        return math.inf  # no worse than the target
    delay = past.delay(with_fall(scores, start, fall, history.mean, lower_is_better=lower, seed=number), start)
    return math.inf if delay is None or delay > LONGEST else delay


def _hours(seconds: float) -> float | None:
    return None if math.isinf(seconds) else seconds / HOUR


def _document(made: Proposal) -> dict[str, Any]:
    figures = {name: value for name, value in asdict(made).items() if name != "of"}
    return {"monitor": made.of.monitor, "evaluator": made.of.source, "audited": made.of.audited, **figures}


def _lines(made: Sequence[Proposal], past: Mapping[Target, _Parts], alike: Sequence[Target]) -> Iterator[str]:
    for proposal in made:
        yield from _proposal_lines(proposal)
    yield from (f"{line}, too few to propose a target" for _, line in _too_few(past))
    yield from (f"{_name(target)}: no target is proposed: {ALIKE}" for target in alike)
    usable = {proposal.of: proposal.proposed.target for proposal in made if proposal.proposed}.items()
    if usable:
        monitors = {
            monitor: {"alerts": {"targets": {of.source: target for of, target in own}}}
            for monitor, own in group_by(usable, lambda pair: pair[0].monitor).items()
        }
        yield (
            "\n" + yaml.safe_dump({"monitors": monitors}, sort_keys=False, default_flow_style=None, width=100).rstrip()
        )


def _too_few(past: Mapping[Target, _Parts]) -> Iterator[tuple[int, str]]:
    """The targets, or their segments, of which nothing can be proposed, with their number of scores."""
    for target, parts in past.items():
        for segment, known in parts.items():
            if len(known) < FEWEST:
                yield len(known), f"{_name(target, segment)}: {plural(len(known), target.unit)}"


def _has_scores(target: Target, config: Config) -> bool:
    audit = config.evaluators[target.source].audit
    scorer = audit.evaluator if audit is not None and audit.evaluator is not None else target.source
    return config.evaluators[scorer].evaluator.has_scores


def _name(of: Target, segment: str = ALL) -> str:
    return f"{of.monitor}/{of.evaluator}" + ("" if segment == ALL else f", segment {segment}")


def _proposal_lines(made: Proposal) -> Iterator[str]:
    history, of = made.history, made.of
    yield (
        f"{_name(of, made.segment)}: mean {mean_text(history.mean, history.error, history.conversations)} of "
        f"{plural(history.scores, of.unit)} in {hours(history.hours)} ({figure(history.per_hour)}/h), "
        f"daily wave {history.wave:.3f} up and down, variance {history.clustering:.1f} times that of independent scores"
    )
    if history.end - history.begin < 2 * DAY:
        yield "  less than two days of scores: a daily wave would not be seen yet"
    if made.fell is not None:
        why = "the proposal is" if made.proposed else "nothing is proposed, as too few scores are"
        at = datetime.fromtimestamp(made.fell, UTC)
        yield f"  an alert would have fired: {why} from before the fall at {at:%Y-%m-%d %H:%M}"
    if made.proposed is not None:
        yield f"  proposed target {made.proposed.target:g}: {_trial(made.proposed, made)}"
    if made.present is not None:
        yield f"  present target {made.present.target:g}: {_trial(made.present, made)}"


def _trial(trial: Trial, made: Proposal) -> str:
    count = len(trial.pages)
    would = "would not have paged" if not count else f"would have paged {plural(count, 'time')}"
    last = "" if not count else f", last at {datetime.fromtimestamp(trial.pages[-1], UTC):%Y-%m-%d %H:%M}"
    word = "rise" if made.of.lower_is_better else "fall"
    times = ((delay.fall, dict.fromkeys((_span(delay.half), _span(delay.most)))) for delay in trial.delays)
    parts = ((fall, " (".join(spans).replace("(after ", "("), ")" * (len(spans) - 1)) for fall, spans in times)
    falls = "; ".join(f"by {fall:g} {spans}{end}" for fall, spans, end in parts)
    sentence = f"half of the {word}s (in brackets: 9 of 10) are noticed: {falls}"
    return f"{would}{last}; {sentence if falls else 'how soon falls are noticed needs a day of scores'}"


def _span(delay: float | None) -> str:
    return "not within a week" if delay is None else f"after {hours(delay)}"
