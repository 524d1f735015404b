"""`evalstream diagnose`: reads scores from the log, and says which part of the traffic explains that they fell."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from collector.alerting.diagnosis.explain_drop import ERROR_RATE, SURE, DropExplanation, SliceDrop, explain_drop
from collector.alerting.diagnosis.recent_scores import Period, scored_item, scores_between, worst_of
from collector.alerting.diagnosis.slices import FEWEST_CONVERSATIONS, members
from collector.alerting.watch.stage import WatchFold, WatchStage
from collector.config.command_options import WindowOptions, require_known
from collector.config.configured import Config
from collector.errors import DONE, ConfigError, EvalstreamError
from collector.logs.log import Log
from collector.past.evaluations import EvaluationFilter, evaluations_in
from collector.records.attributes import STANDARD
from collector.records.json import indented_json
from collector.service.open_logs import open_stored_logs
from collector.service.plan_builder import evaluator_version_in
from collector.service.watch import watch_rules
from collector.statistics.intervals import change_half, mean_text, plus_minus
from collector.telemetry.plain import plain
from collector.telemetry.registry import Telemetry
from collector.wording import percent, plural
from evaluators.results import Evaluation

_INTERVAL, _DAY = 60.0, timedelta(days=1)
"""Seconds between two evaluations of alerts."""
_ROUNDING = 1e-6
"""Sums of equal scores differ by less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnoseOptions(WindowOptions):
    """The command's options: the window `since` to `until`, compared with `against` to `since`."""

    monitor: str
    against: datetime | None = None
    evaluators: Sequence[str] = ()

    @property
    def reference(self) -> datetime:
        """The start of the period that the window is compared with: seven times as long, unless an option says when."""
        return self.against or self.since - 7 * (self.until - self.since)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The slices that explain the change of one evaluator's mean, and for each slice the worst evaluations, to read."""

    evaluator: str
    explanation: DropExplanation
    to_read: tuple[tuple[str, ...], ...]
    other_versions: int = 0
    """Scores that are left out, as another version of the evaluator or another judge made them."""
    better_by: float = 0.0
    """By how much the mean got better; below 0 where it fell."""
    incidents: tuple[Period, ...] = ()
    """Incidents that began before the window, whose scores are left out."""
    has_judge: bool = False
    """Whether a judge scores: then that may have changed instead of the traffic."""


async def diagnose(config: Config, options: DiagnoseOptions, say: Callable[[str], None], *, as_json: bool) -> int:
    """Print what explains a drop of a monitor's scores; returns the exit status.

    Raises:
        ConfigError: there is no such monitor or evaluator, or the times make no window.
        EvalstreamError: there are too few scores to compare.
    """
    names = _names(config, options)
    memory = (options.until - options.reference + _DAY).total_seconds()
    alerts = WatchStage(watch_rules(config, _INTERVAL), Telemetry(), interval=_INTERVAL, memory=memory)
    async with open_stored_logs(config.settings.log) as logs, alerts.open_fold(0, None) as fold:
        evaluations = await _read(logs.evaluations, options, names, fold)
        list(alerts.evaluate(options.until.timestamp()))
        made = [each for name in names if (each := _diagnose(name, evaluations, options, config, alerts))]
    if not made:
        raise EvalstreamError(
            f"monitor {options.monitor}: one version of an evaluator needs {FEWEST_CONVERSATIONS} scored "
            "conversations in the window and as many before it; begin the window earlier with --from, or the time "
            "before it with --against"
        )
    if as_json:
        say(indented_json(_document(made, options)))
    else:
        for line in _lines(made, options):
            say(plain(line))
    return DONE


def _names(config: Config, options: DiagnoseOptions) -> Sequence[str]:
    monitors = config.settings.monitors
    require_known("--monitor", "monitor", [options.monitor], monitors)
    if not options.reference < options.since < options.until:
        raise ConfigError("--from, --to and --against: the window must begin before it ends, and after --against")
    used = [use.name for use in monitors[options.monitor].uses]
    require_known("--evaluator", "evaluator", options.evaluators, used)
    return options.evaluators or used


async def _read(log: Log, options: DiagnoseOptions, names: Sequence[str], alerts: WatchFold) -> list[Evaluation]:
    """The scores of the monitor in both windows, each once, without those that another stands in for.

    `alerts` take those of a day before, too: an incident may have been on when the period before began.
    """
    scores: dict[str, Evaluation] = {}
    superseded: set[str] = set()
    both = EvaluationFilter(since=options.reference, until=options.until, monitors=[options.monitor], evaluators=names)
    async for past in evaluations_in(log):
        evaluation = past.evaluation
        superseded.update(evaluation.supersedes)
        if evaluation.monitor == options.monitor and options.reference - _DAY <= evaluation.time < options.until:
            alerts.take(evaluation, evaluation.time.timestamp())
        if evaluation.score is not None and both.matches(evaluation):
            scores[evaluation.evaluation_id] = evaluation
    return [score for name, score in scores.items() if name not in superseded]


def _diagnose(
    name: str, evaluations: Sequence[Evaluation], options: DiagnoseOptions, config: Config, alerts: WatchStage
) -> Diagnosis | None:
    of_name = [evaluation for evaluation in evaluations if evaluation.evaluator == name]
    versions = Counter(evaluation.evaluator_version for evaluation in of_name if evaluation.time >= options.since)
    current = evaluator_version_in(config, name)
    attributes = {*STANDARD, *config.settings.assemble.declared_attributes}
    begin, since = options.reference.timestamp(), options.since.timestamp()
    for version in sorted(versions, key=lambda version: (version != current, -versions[version])):
        own = [
            scored_item(made, made.score, made.time.timestamp(), attributes)
            for made in of_name
            if made.evaluator_version == version and made.score is not None
        ]
        # who says what to compare with gets that
        known = alerts.incidents((options.monitor, name, version)) if options.against is None else ()
        # one that the window begins in is what it is about, unless most of it came before the window
        incidents = tuple((first, end) for first, end in known if begin < end and first + end < 2.0 * since)
        before = scores_between(own, begin, since, incidents)
        after = scores_between(own, since, options.until.timestamp(), incidents)
        if min(len({item.conversation for item in items}) for items in (before, after)) >= FEWEST_CONVERSATIONS:
            break
    else:
        return None
    lower = config.evaluators[name].evaluator.direction == "lower_is_better"
    rate = ERROR_RATE / len(_names(config, options))
    explanation = explain_drop(before, after, lower_is_better=lower, error_rate=rate)
    better_by = explanation.change * (-1.0 if lower else 1.0)
    to_read = tuple(
        worst_of(members(after, drop.slice, drop.without), lower_is_better=lower) for drop in explanation.drops
    )
    return Diagnosis(
        evaluator=name, explanation=explanation, to_read=to_read, other_versions=len(of_name) - len(own),
        better_by=better_by, incidents=incidents,
        has_judge=config.evaluators[name].judge is not None,
    )  # fmt: skip


def _document(made: Sequence[Diagnosis], options: DiagnoseOptions) -> dict[str, Any]:
    return {
        "monitor": options.monitor, "from": options.since, "to": options.until, "against": options.reference,
        "error_rate": ERROR_RATE, "evaluators": {diagnosis.evaluator: _one(diagnosis) for diagnosis in made},
    }  # fmt: skip


def _one(made: Diagnosis) -> dict[str, Any]:
    explanation = made.explanation
    return {
        "before": {"mean": explanation.before.mean, "conversations": explanation.before.conversations},
        "after": {"mean": explanation.after.mean, "conversations": explanation.after.conversations},
        "incidents": [tuple(map(_moment, period)) for period in made.incidents],
        "other_versions": made.other_versions, "change": explanation.change, "error": explanation.error,
        "first_candidate": None if explanation.move is None else asdict(explanation.move),
        "looked_at": {"values": explanation.values, "pairs": explanation.pairs},
        "slices": [
            {
                "slice": dict(drop.slice), "without": [dict(each) for each in drop.without],
                "before": drop.mean_before, "after": drop.mean, "error": drop.error,
                "share_before": drop.share_before, "share": drop.share, "explains": abs(drop.explained),
                "read": to_read,
            }
            for drop, to_read in zip(explanation.drops, made.to_read, strict=True)
        ],
    }  # fmt: skip


def _lines(made: Sequence[Diagnosis], options: DiagnoseOptions) -> Iterator[str]:
    yield (
        f"monitor {options.monitor}, {_time(options.since)} to {_time(options.until)}, "
        f"compared with {_time(options.reference)} to {_time(options.since)}"
    )
    for diagnosis in made:
        yield ""
        yield from _evaluator_lines(diagnosis)
    looked_at = max(diagnosis.explanation.looked_at for diagnosis in made)
    yield ""
    yield (
        f"{plural(looked_at, 'part')} of the traffic compared for each evaluator. If no part fell more than the rest, "
        f"the chance that any is named is {ERROR_RATE:.0%} in all"
    )


def _evaluator_lines(made: Diagnosis) -> Iterator[str]:
    explanation = made.explanation
    before, after = explanation.before, explanation.after
    half = change_half(*((each.mean, each.error, each.effective) for each in (before, after)))
    yield (
        f"{made.evaluator}: {before.mean:.3f} before ({plural(before.conversations, 'conversation')}), "
        f"{after.mean:.3f} now ({plural(after.conversations, 'conversation')}), "
        f"a change of {explanation.change:+z.3f} {plus_minus(half)}"
    )
    if made.other_versions:
        others = plural(made.other_versions, "score")
        yield f"  {others} of another version or judge left out: a mean is of one version and judge"
    for begin, end in made.incidents:
        yield f"  the incident from {_time(_moment(begin))} to {_time(_moment(end))} is left out"
    if made.better_by > 0.0:
        but = "but not in every part" if explanation.drops else "no part surely fell"
        yield f"  the mean got better by {made.better_by:.3f}; {but}"
    elif explanation.move is not None:
        first = _time(_moment(explanation.move.first_seen))
        yield f"  first candidate: {explanation.move.text}, first seen {first}, in nearly all of the traffic since"
    elif not explanation.drops:
        is_real = abs(explanation.change) > SURE * explanation.error + _ROUNDING
        chance = f"the change itself is within {SURE:g} standard errors, so it may be chance"
        if explanation.error < _ROUNDING:
            chance = "all scores are equal, before and now"
        judge = " or of the judge; if it is known whether the judge has changed, the alert says so" * made.has_judge
        yield f"  no part fell more than the rest: {f'the change is of all traffic{judge}' if is_real else chance}"
        yield f"  {explanation.none_named}"
    for drop, to_read in zip(explanation.drops, made.to_read, strict=True):
        yield f"  {drop.text}: {_level(drop)}"
        now, before = percent(drop.share, 1), percent(drop.share_before, 1)
        yield f"    {_explained(drop, explanation)}; {now} of the traffic, {before} before"
        yield f"    read: {', '.join(to_read)}"


def _level(drop: SliceDrop) -> str:
    before, now = drop.mean_before, mean_text(drop.mean, drop.error, drop.conversations)
    known = f"{before:.3f} before" if before is not None else "few scores before" if drop.share_before else "new"
    return f"{known}, {now} now ({plural(drop.conversations, 'conversation')})"


def _explained(drop: SliceDrop, explanation: DropExplanation) -> str:
    side = "higher" if drop.explained < 0.0 else "lower"
    rest = "the rest, which is in no named part" if len(explanation.drops) > 1 else "the rest"
    part = f"if it had changed like {rest}, the mean would be {abs(drop.explained):.3f} {side} now"
    share = drop.explained / explanation.change if abs(explanation.change) > 2 * explanation.error else 0.0
    if share <= 0.0:
        return part
    return f"{part}, {percent(share)} of the change" if share <= 1.0 else f"{part}, more than the whole change"


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
