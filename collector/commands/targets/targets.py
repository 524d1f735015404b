"""`evalstream plan targets`: proposes each evaluator's target from its own history, with what alerts had done."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import orjson

from collector.alerting.rules.targets import Target, detector, segment_count, targets
from collector.commands.targets.past_alerts import LONGEST, PastAlerts, with_fall
from collector.config.configured import Config
from collector.errors import ConfigError, EvalstreamError
from collector.logs.log import Log
from collector.past.evaluations import EvaluationFilter, selected_in
from collector.service.open_logs import open_stored_logs
from collector.statistics.bounded_sums import Weight
from collector.statistics.intervals import Z
from collector.statistics.score_history import DAY, HOUR, PastScore, ScoreHistory, history_of
from collector.wording import plural, unknown

DONE = 0
FEWEST = 200
"""Scores without which nothing is proposed."""
FALLS = (0.05, 0.1, 0.2)
MARGIN = 0.02
"""How far a target is from the worst hour of the day, at least: means move a little."""
_ERRORS = 3.0
"""Standard errors of the mean by which it may be worse than it looks."""
_STARTS = 8
"""Times at which each fall is planted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetsOptions:
    """The command's options: the history from `since` to `until`."""

    since: datetime
    until: datetime
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
    """A target that is proposed for an evaluator, beside the one that it has, if any."""

    of: Target
    history: ScoreHistory
    proposed: Trial
    present: Trial | None


async def propose(config: Config, options: TargetsOptions, say: Callable[[str], None], *, as_json: bool) -> int:
    """Print a proposal for every evaluator of every monitor that alerts; returns the exit status.

    Raises:
        ConfigError: there is no such monitor, or no log.
        EvalstreamError: there are too few scores.
    """
    every = targets(config)
    chosen = _chosen(every, options)
    async with open_stored_logs(config.settings.log) as logs:
        scores = await _read(logs.evaluations, options)
    made: list[Proposal] = []
    for target in chosen:
        known = scores.get((target.monitor, target.evaluator), [])
        if len(known) >= FEWEST:
            made.append(_propose(target, known, config, every))
    if not made:
        raise EvalstreamError(
            f"no evaluator has {FEWEST} scores in this time; name an earlier --from, or come back when there are more"
        )
    if as_json:
        say(orjson.dumps({"targets": [_document(proposal) for proposal in made]}, option=orjson.OPT_INDENT_2).decode())
        return DONE
    for line in _lines(made, chosen, scores):
        say(line)
    return DONE


def _chosen(every: Sequence[Target], options: TargetsOptions) -> list[Target]:
    monitors = sorted({target.monitor for target in every})
    if options.monitor is not None and options.monitor not in monitors:
        raise ConfigError(f"--monitor: {unknown('monitor', options.monitor, monitors)}")
    if options.since >= options.until:
        raise ConfigError("--from and --to: the time must begin before it ends")
    return [target for target in every if not target.is_derived and options.monitor in (None, target.monitor)]


async def _read(log: Log, options: TargetsOptions) -> Mapping[tuple[str, str], list[PastScore]]:
    """The scores of each monitor's evaluators in order of time: those of the version that scored last."""
    scored: dict[str, tuple[tuple[str, str], str, PastScore]] = {}
    async for evaluation in selected_in(log, EvaluationFilter(since=options.since, until=options.until)):
        if evaluation.score is not None:
            weight, conversation = Weight.of(evaluation.sampling), evaluation.subject.conversation_id
            past = PastScore(evaluation.ended_at.timestamp(), conversation, weight, evaluation.score)
            key = evaluation.monitor, evaluation.evaluator
            scored[evaluation.evaluation_id] = (key, evaluation.evaluator_version, past)
    newest: dict[tuple[str, str], tuple[float, str]] = {}
    for key, version, past in scored.values():
        newest[key] = max(newest.get(key, (0.0, "")), (past.time, version))
    scores: dict[tuple[str, str], list[PastScore]] = {}
    for key, version, past in scored.values():
        if newest[key][1] == version:
            scores.setdefault(key, []).append(past)
    return {key: sorted(score) for key, score in scores.items()}


def _propose(of: Target, scores: Sequence[PastScore], config: Config, every: Sequence[Target]) -> Proposal:
    history = history_of(scores)
    away = history.wave + max(MARGIN, _ERRORS * history.error)
    level = history.mean + away if of.lower_is_better else history.mean - away
    # to two decimals, away from the mean
    rounded = math.ceil(level * 100.0 - 1e-9) if of.lower_is_better else math.floor(level * 100.0 + 1e-9)
    proposed = min(0.99, max(0.01, rounded / 100.0))
    return Proposal(
        of=of,
        history=history,
        proposed=_try(of, proposed, scores, history, config, every),
        present=None if of.mean in (None, proposed) else _try(of, of.mean, scores, history, config, every),
    )


def _try(
    of: Target,
    mean: float | None,
    scores: Sequence[PastScore],
    history: ScoreHistory,
    config: Config,
    every: Sequence[Target],
) -> Trial:
    assert mean is not None
    alerts = config.settings.alerts
    watching = [target for target in every if target.mean is not None or target is of]
    detecting = detector(replace(of, mean=mean), watching, alerts, segment_count(config))
    past = PastAlerts(detecting, alerts.page_standard_errors, alerts.min_conversations)
    after: list[FallDelay] = []
    for fall in FALLS:
        delays = sorted(_delay(past, scores, history, fall, number) for number in range(_STARTS))
        half, most = delays[(_STARTS - 1) // 2], delays[-(-9 * _STARTS // 10) - 1]
        after.append(FallDelay(fall=fall, half=_hours(half), most=_hours(most)))
    return Trial(target=mean, pages=tuple(past.pages(scores)), delays=tuple(after))


def _delay(past: PastAlerts, scores: Sequence[PastScore], history: ScoreHistory, fall: float, number: int) -> float:
    start = history.begin + (history.end - history.begin) * (number + 0.5) / _STARTS
    lower = past.detector.lower_is_better
    end = history.mean + fall if lower else history.mean - fall
    if past.detector.shortfall(1.0, end) <= 0.0:
        return math.inf  # no worse than the target
    fallen = with_fall(scores, start, fall, history.mean, lower_is_better=lower, seed=number)
    delay = past.delay(fallen, start)
    return math.inf if delay is None or delay > LONGEST else delay


def _hours(seconds: float) -> float | None:
    return None if math.isinf(seconds) else seconds / HOUR


def _document(made: Proposal) -> dict[str, Any]:
    return {
        "monitor": made.of.monitor,
        "evaluator": made.of.evaluator,
        "history": asdict(made.history),
        "proposed": asdict(made.proposed),
        "present": asdict(made.present) if made.present else None,
    }


def _lines(
    made: Sequence[Proposal], chosen: Sequence[Target], scores: Mapping[tuple[str, str], Sequence[PastScore]]
) -> Iterator[str]:
    for proposal in made:
        yield from _proposal_lines(proposal)
    for target in chosen:
        count = len(scores.get((target.monitor, target.evaluator), ()))
        if count < FEWEST:
            yield f"{target.monitor}/{target.evaluator}: {plural(count, 'score')}, too few to propose a target"
    yield ""
    yield "monitors:"
    for monitor in dict.fromkeys(proposal.of.monitor for proposal in made):
        proposed = ", ".join(
            f"{proposal.of.evaluator}: {proposal.proposed.target:g}"
            for proposal in made
            if proposal.of.monitor == monitor
        )
        yield f"  {monitor}: {{alerts: {{targets: {{{proposed}}}}}}}"


def _proposal_lines(made: Proposal) -> Iterator[str]:
    history, of = made.history, made.of
    yield (
        f"{of.monitor}/{of.evaluator}: mean {history.mean:.3f} ± {Z * history.error:.3f} of "
        f"{plural(history.scores, 'score')} in {history.hours:.0f} h ({history.per_hour:.3g}/h), "
        f"daily wave ±{history.wave:.3f}, {history.clustering:.1f} times the variance of independent scores"
    )
    if history.end - history.begin < 2 * DAY:
        yield "  less than two days of scores: a daily wave would not be seen yet"
    yield f"  proposed target {made.proposed.target:g}: {_trial(made.proposed, made)}"
    if made.present is not None:
        yield f"  present target {made.present.target:g}: {_trial(made.present, made)}"


def _trial(trial: Trial, made: Proposal) -> str:
    count = len(trial.pages)
    would = "would not have paged" if not count else f"would have paged {plural(count, 'time')}"
    last = "" if not count else f", last at {datetime.fromtimestamp(trial.pages[-1], UTC):%Y-%m-%d %H:%M}"
    word = "rise" if made.of.lower_is_better else "fall"
    falls = "; ".join(f"of {delay.fall:g} after {_span(delay.half)}, {_span(delay.most)}" for delay in trial.delays)
    return f"{would}{last}; a {word} (half, 9 of 10) {falls}"


def _span(hours: float | None) -> str:
    if hours is None:
        return "never in a week"
    return f"{hours * 60:.0f} min" if hours < 1 else f"{hours:.1f} h"
