"""`evalstream plan sampling`: the rates, boosts and audits or labels that reach a standard error at the least cost."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from statistics import fmean
from typing import Any

import yaml

from collector.alerting.rules.targets import ALIKE
from collector.calibration.page_labels import LabelIndex
from collector.commands.plan import past_figures
from collector.commands.plan.allocation import Allocation, allocate, cheapest, cheapest_boosts, rounded
from collector.config.command_options import WindowOptions, require_known, require_window
from collector.config.configured import Config
from collector.config.settings import BoostSettings, PlannedRate, UseSettings
from collector.errors import DONE, ConfigError, EvalstreamError
from collector.evaluate.planned_rates.learned_figures import DayFigures, rates_of
from collector.logs.log import Log
from collector.logs.whole_log import read_records
from collector.past.evaluations import EvaluationFilter, of_versions
from collector.records.audits import FEWEST_AUDITS, audit_by, audit_version_of
from collector.records.json import indented_json
from collector.service.open_logs import Logs, open_stored_logs
from collector.service.plan_builder import audit_version_in, evaluator_versions, lower_is_better, strata_of
from collector.statistics.bounded_sums import Weight
from collector.wording import hours, plural, usd
from evaluators.results import Evaluation

FEWEST = 200
"""Scores of an evaluator without which nothing is planned."""
FEWEST_IN_STRATUM = 30
"""With fewer conversations in a stratum, its boost stays as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions(WindowOptions):
    """The command's options: the standard error to reach, and the past from `since` to `until`.

    With `usd_per_label`, `error` is of the mean that people would give.
    """

    error: float
    monitor: str
    evaluator: str | None = None
    usd_per_label: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEvaluator:
    """An evaluator's past, and what its configuration and the proposed one come to.

    `second` is who scores a share again: `audits`, `labels` or None. `proposed` is None where the error is out of
    reach; `most` is the outcome of scoring everything, by both.
    """

    use: UseSettings
    version: str
    figures: past_figures.PastFigures
    day: DayFigures
    second: str | None
    present: Allocation
    most: Allocation
    notes: tuple[str, ...] = ()
    proposed: Allocation | None = None
    second_alone: Allocation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingPlan:
    """The plan for a monitor: boosts by stratum, now and proposed, and its evaluators; those `alike` have no plan."""

    strata: tuple[str, ...]
    present_boosts: tuple[float, ...]
    boosts: tuple[float, ...]
    evaluators: tuple[PlannedEvaluator, ...]
    too_few: Mapping[str, int]
    alike: tuple[str, ...] = ()


async def plan(config: Config, options: PlanOptions) -> SamplingPlan:
    """The cheapest sampling of a monitor for an error.

    Raises:
        ConfigError: a name is not in the configuration, there is no log, or a judge has no price.
        EvalstreamError: there are too few scores, or the labels' scores are all alike.
    """
    require_known("--monitor", "monitor", [options.monitor], config.settings.monitors)
    require_window(options.since, options.until)
    all_uses = config.settings.monitors[options.monitor].uses
    require_known("--evaluator", "evaluator", [options.evaluator], [use.name for use in all_uses])
    named = [use for use in all_uses if options.evaluator in (None, use.name)]
    uses = [use for use in named if config.evaluators[use.name].evaluator.has_scores]
    alike = tuple(use.name for use in named if use not in uses)
    if not uses:
        raise EvalstreamError(f"{options.monitor}/{alike[0]}: {ALIKE}")
    async with open_stored_logs(config.settings.log) as logs:
        past = await _read(logs.evaluations, config, options)
        labels = await _labels(logs, config) if options.usd_per_label is not None else None
    strata = strata_of(config.settings.monitors[options.monitor].boost, config).by_name
    counts = {use.name: sum(one.score is not None for one in past.get(use.name, [])) for use in uses}
    enough = [use for use in uses if counts[use.name] >= FEWEST]
    if not enough:
        most = max(counts.values(), default=0)
        raise EvalstreamError(
            f"monitor {options.monitor}: a plan needs {FEWEST} scores by an evaluator's present version, and this "
            f"time has at most {most:,}; name an earlier --from, or come back when there are more"
        )
    made = [_evaluator(use, past[use.name], config, options, strata, labels) for use in enough]
    too_few = {name: count for name, count in counts.items() if count < FEWEST}
    return replace(_planned(made, options, strata, too_few), alike=alike)


async def _read(log: Log, config: Config, options: PlanOptions) -> Mapping[str, list[past_figures.PricedEvaluation]]:
    """The evaluations of the monitor by evaluator, and their audits: those of the versions in force. A verdict that
    another monitor paid for has the mean price of those that were paid.
    """
    selection = EvaluationFilter(since=options.since, until=options.until)
    auditors = {name: audit_version_in(config, name) for name in config.evaluators}
    past = await of_versions(log, selection, evaluator_versions(config), partial(priced_evaluation, auditors))
    paid = defaultdict[tuple[str, bool | None], list[float]](list)
    for one in chain.from_iterable(past.values()):
        if one.usd and one.score is not None:
            paid[one.version, one.was_audited].append(one.usd)
    means = {of: fmean(costs) for of, costs in paid.items()}
    return {
        evaluator: [
            replace(one, usd=means.get((one.version, one.was_audited), 0.0)) if one.is_shared else one for one in made
        ]
        for (monitor, evaluator), made in past.items()
        if monitor == options.monitor
    }


def priced_evaluation(auditors: Mapping[str, str | None], evaluation: Evaluation) -> past_figures.PricedEvaluation:
    """An evaluation as far as planning needs it; `auditors` are the versions of who audits each evaluator now."""
    auditor, by = auditors.get(evaluation.evaluator), audit_version_of(evaluation)
    sampling = evaluation.sampling
    return past_figures.PricedEvaluation(
        time=evaluation.time.timestamp(), conversation=evaluation.subject.conversation_id,
        stratum=sampling.stratum, weight=Weight(1.0 / sampling.probability, Weight.of(sampling.of_subject).own),
        score=evaluation.score, usd=evaluation.cost_usd, audit=audit_by(evaluation, auditor),
        was_audited=(by == auditor or None) if by is not None else False,
        version=evaluation.evaluator_version, is_shared=evaluation.shares is not None,
    )  # fmt: skip


async def _labels(logs: Logs, config: Config) -> LabelIndex:
    index = LabelIndex(lower_is_better(config))
    async for record in read_records(logs.labels):
        index.add(record)
    return index


def _evaluator(
    use: UseSettings, past: Sequence[past_figures.PricedEvaluation], config: Config, options: PlanOptions,
    strata: Mapping[str, float], labels: LabelIndex | None,
) -> PlannedEvaluator:  # fmt: skip
    configured = config.evaluators[use.name]
    figures = past_figures.figures_of(past, tuple(strata))
    if configured.judge is not None and all(evaluation.usd is None for evaluation in past):
        raise ConfigError(
            f"judges.{configured.judge}: no evaluation of {use.name} has a cost; set "
            "usd_per_million_input_tokens and usd_per_million_output_tokens, and come back when there are some"
        )
    shared = plural(sum(evaluation.is_shared for evaluation in past), "verdict")
    notes = [f"another monitor paid for {shared}; each counts at the mean price here"] if shared[0] != "0" else []
    notes += _mixed_strata(past, strata)
    second, day, share = None, figures.day, 1.0
    if labels is not None:
        pairs = _labelled(labels, use.name, past[-1].version, options.monitor)
        day = past_figures.with_second_phase(figures.day, pairs, options.usd_per_label or 0.0) or figures.day
        second, share = "labels", min(1.0, len(pairs) / figures.scores)
        notes += _too_few(day, len(pairs), "label")
        if configured.audit is not None and figures.audit_usd:
            audits = usd(configured.audit.share * figures.audit_usd)
            notes.append(f"these costs leave out its audits: {audits} more for each score")
    elif configured.audit is not None:
        day = past_figures.with_second_phase(figures.day, figures.pairs, figures.audit_usd or 0.0) or figures.day
        second, share = "audits", configured.audit.share
        notes += _too_few(day, len(figures.pairs), "audit")
        if figures.audit_usd is None and day.second is not None:
            notes.append("every score is audited, so the cost of an audit is unknown; the plan leaves audits out")
            day = figures.day
    if day.second is None:
        second, share = None, 1.0
    monitor = config.settings.monitors[options.monitor]
    rate = _newest_rate(past, strata) if isinstance(monitor.rate, PlannedRate) else monitor.rate_of(use)
    rates = rates_of(rate, tuple(strata.values()))
    return PlannedEvaluator(
        use=use, version=past[-1].version, figures=figures, day=day, second=second,
        present=allocate(day, rates, share), most=allocate(day, (1.0,) * len(strata), 1.0), notes=tuple(notes),
    )  # fmt: skip


def _mixed_strata(past: Sequence[past_figures.PricedEvaluation], strata: Mapping[str, float]) -> Iterator[str]:
    """Notes on scores that were sampled by other boosts: their part of the traffic is told apart otherwise, or not."""
    in_order = sorted((one for one in past if one.score is not None), key=lambda one: one.time)
    if strange := sum(one.stratum not in strata for one in in_order):
        yield f"Mixed strata: {plural(strange, 'score')} of a boost that is not set now count as the rest; {_LATER}"
    for name in list(strata)[1:]:
        first = next((number for number, one in enumerate(in_order) if one.stratum == name), len(in_order))
        since = in_order[first:]
        total = math.fsum(one.weight.full for one in since)
        share = math.fsum(one.weight.full for one in since if one.stratum == name) / (total or 1.0)
        if (1.0 - share) ** first < _UNLIKELY:
            at = f"{datetime.fromtimestamp(since[0].time, UTC):%Y-%m-%dT%H:%MZ}"
            none = f"{plural(first, 'score')} before {at} have none in stratum {name}, which is too small here"
            yield f"Mixed strata: {none}; {_LATER}"


_UNLIKELY = 0.01
_LATER = "set --from to after boost changed"


def _newest_rate(past: Sequence[past_figures.PricedEvaluation], strata: Mapping[str, float]) -> float:
    """The rate that `sample: auto` had planned when the newest evaluation was drawn."""
    newest = max(past, key=lambda each: each.time)
    return min(1.0, 1.0 / (newest.weight.own * strata.get(newest.stratum, 1.0)))


def _labelled(labels: LabelIndex, evaluator: str, version: str, monitor: str) -> list[past_figures.ScoredTwice]:
    """The scores by judge and people of what was drawn to be labelled; the stratum is not noted (-1)."""
    return [
        past_figures.ScoredTwice(label.judge, label.human, label.weight / label.probability, -1)
        for label in labels.labels((evaluator, version))
        if label.probability is not None and label.segment == monitor
    ]


def _too_few(day: DayFigures, number: int, noun: str) -> Iterator[str]:
    if day.second is None:
        yield f"{plural(number, noun)} of this version, but {FEWEST_AUDITS} needed; planned for the mean of its scores"


def _planned(
    made: Sequence[PlannedEvaluator], options: PlanOptions, strata: Mapping[str, float], too_few: Mapping[str, int]
) -> SamplingPlan:
    seen = [max(planned.figures.conversations[number] for planned in made) for number in range(len(strata))]
    free = [number for number, count in enumerate(seen) if number and count >= FEWEST_IN_STRATUM]
    present = tuple(strata.values())
    boosts = cheapest_boosts([planned.day for planned in made], options.error, present, free)
    return SamplingPlan(
        strata=tuple(strata), present_boosts=present, boosts=boosts,
        evaluators=tuple(_proposed(planned, boosts, options.error) for planned in made), too_few=too_few,
    )  # fmt: skip


def _proposed(planned: PlannedEvaluator, boosts: Sequence[float], error: float) -> PlannedEvaluator:
    day = planned.day
    if not any(day.usd) and day.second is None and planned.most.error <= error:
        return replace(planned, proposed=planned.most)  # it costs nothing to score everything
    proposed, alone = cheapest(day, boosts, error), day.second_alone()
    cheaper = None if alone is None or planned.second != "audits" else cheapest(alone, boosts, error)
    proposed = None if proposed is None else rounded(day, boosts, proposed)
    is_better = proposed is None or (cheaper is not None and cheaper.usd < proposed.usd)
    return replace(planned, proposed=proposed, second_alone=cheaper if is_better else None)


async def print_plan(config: Config, options: PlanOptions, say: Callable[[str], None], *, as_json: bool) -> int:
    """Print the plan of a monitor, with the lines of configuration to paste; returns the exit status. See `plan`."""
    made = await plan(config, options)
    piece = configuration(config, options.monitor, made)
    if as_json:
        say(indented_json(_document(made, options, piece)))
        return DONE
    for line in _lines(made, config, options):
        say(line)
    if piece:
        say("")
        say(yaml.safe_dump(piece, sort_keys=False, default_flow_style=None, width=100, allow_unicode=True).rstrip())
    return DONE


def configuration(config: Config, monitor: str, made: SamplingPlan) -> dict[str, Any]:
    """The piece of configuration to paste; empty if no evaluator reaches the error."""
    reached = {planned.use.name: (planned, planned.proposed) for planned in made.evaluators if planned.proposed}
    if not reached:
        return {}
    settings = config.settings.monitors[monitor]
    uses: list[Any] = []
    for use in settings.uses:
        rate = reached[use.name][1].rate if use.name in reached else use.sample
        entry = use.model_dump(exclude_none=True) | ({} if rate is None else {"sample": rate})
        uses.append(use.name if list(entry) == ["name"] else entry)
    watched: dict[str, Any] = {} if isinstance(settings.rate, PlannedRate) else {"evaluators": uses}
    if len(made.strata) > 1:
        watched["boost"] = _boosts(settings.boost, dict(zip(made.strata, made.boosts, strict=True)))
    piece: dict[str, Any] = {"monitors": {monitor: watched}} if watched else {}
    for name, (planned, proposed) in reached.items():
        audit = config.evaluators[name].audit
        if planned.second == "audits" and audit is not None:
            changed = audit.model_dump(exclude_none=True) | {"share": proposed.share}
            piece.setdefault("evaluators", {})[name] = {"audit": changed}
    labelled = [proposed.share for planned, proposed in reached.values() if planned.second == "labels"]
    if labelled:
        # The plan pays for labels drawn alike, each by one person: no other share may draw more of them.
        piece["page"] = {"queue": {"random": max(0.001, *labelled), "doubtful": 0, "audited": 0, "twice": 0}}
    return piece


def _boosts(present: BoostSettings, boosts: Mapping[str, float]) -> dict[str, Any]:
    """The boosts with new factors, and all that they have beside these."""
    changed: dict[str, Any] = present.model_dump(exclude_unset=True)
    changed |= {name: boosts[name] for name in ("error", "negative_feedback", "slow") if name in boosts}
    for key in ("low_score", "matching"):
        for entry in changed.get(key, ()):
            name = "low_score" if key == "low_score" else entry["field"]
            entry["factor"] = boosts.get(name, entry.get("factor", 1.0))
    return changed


def _document(made: SamplingPlan, options: PlanOptions, piece: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "monitor": options.monitor, "error": options.error,
        "boosts": dict(zip(made.strata, made.boosts, strict=True)),
        "present_boosts": dict(zip(made.strata, made.present_boosts, strict=True)),
        "evaluators": [
            {
                "evaluator": evaluator.use.name, "version": evaluator.version, "mean": evaluator.figures.mean,
                "scores": evaluator.figures.scores, "days": evaluator.figures.days, "second": evaluator.second,
                "correlation": evaluator.day.second.correlation if evaluator.day.second else None,
                "present": _outcome(evaluator.present), "proposed": _outcome(evaluator.proposed),
                "most": _outcome(evaluator.most), "notes": evaluator.notes,
            }
            for evaluator in made.evaluators
        ],
        "too_few": dict(made.too_few), "alike": made.alike,
        "configuration": piece,
    }  # fmt: skip


def _outcome(allocation: Allocation | None) -> dict[str, float | None] | None:
    if allocation is None:
        return None
    error = None if math.isinf(allocation.error) else allocation.error
    return {"sample": allocation.rate, "share": allocation.share, "error": error, "usd_per_day": allocation.usd}


def _lines(made: SamplingPlan, config: Config, options: PlanOptions) -> Iterator[str]:
    for evaluator in made.evaluators:
        yield from _evaluator_lines(evaluator, made, config, options)
    for name, count in made.too_few.items():
        yield f"{options.monitor}/{name}: {plural(count, 'score')}, too few to plan with"
    yield from (f"{options.monitor}/{name}: not planned: {ALIKE}" for name in made.alike)
    monitor = config.settings.monitors[options.monitor]
    if isinstance(rate := monitor.rate, PlannedRate):
        yield f"sample: auto plans the rate for an error of {rate.standard_error:g}; `present` has the newest rate"
    if monitor.budget.limited or config.settings.evaluate.budget.limited:
        yield "the budget may lower these rates, and then errors grow"


def _evaluator_lines(each: PlannedEvaluator, made: SamplingPlan, config: Config, options: PlanOptions) -> Iterator[str]:
    figures, day = each.figures, each.day
    subjects = sum(day.arrived)
    length = f"{figures.days:.1f} days" if figures.days >= 1.0 else hours(24.0 * figures.days)
    yield (
        f"{options.monitor}/{each.use.name}: mean {figures.mean:.3f} of {plural(figures.scores, 'score')} by version "
        f"{each.version} in {length}; "
        f"{subjects:,.0f} scores a day if all were judged, {usd(sum(day.usd) / subjects)} each"
    )
    if figures.days < 1.0:
        yield "  less than a day of scores: the plan supposes that all hours are like these"
    for number, name in enumerate(made.strata):
        if day.subjects[number]:
            deviation = math.sqrt(max(0.0, day.products[number][number]) / max(day.squares[number], 1e-9))
            few = figures.conversations[number] < FEWEST_IN_STRATUM and number
            note = ", too few to change its boost" if few else ""
            yield f"  stratum {name}: {day.subjects[number]:,.0f} a day, deviation {deviation:.2f}{note}"
    if (second := day.second) is not None:
        known = f"{second.pairs:,} with a correlation of {second.correlation:z.2f} to the scores"
        yield f"  {each.second}: {known}, {usd(sum(second.usd) / subjects)} each"
    yield from (f"  {note}" for note in each.notes)
    yield f"  present:  {_sampling(each, each.present, made, made.present_boosts)}"
    if each.proposed is None:
        yield (
            f"  an error of {options.error:g} is out of reach in a day: scoring everything reaches "
            f"{each.most.error:.2g} for {usd(each.most.usd)} a day"
        )
    else:
        yield f"  proposed: {_sampling(each, each.proposed, made, made.boosts)}"
    if each.second_alone is not None:
        audit = config.evaluators[each.use.name].audit
        who = "the auditor" if audit is None else audit.judge or audit.evaluator
        yield (
            f"  {who} alone on a sample of {each.second_alone.rate:.2g} is cheaper for this error: "
            f"{usd(each.second_alone.usd)} a day"
        )


def _sampling(each: PlannedEvaluator, of: Allocation, made: SamplingPlan, boosts: Sequence[float]) -> str:
    parts = [f"sample {of.rate:.3g}"]
    parts += [f"boost {name} {boost:g}" for name, boost in list(zip(made.strata, boosts, strict=True))[1:]]
    if each.second is not None:
        parts.append(f"{each.second} {of.share:.2g}")
    reached = f"unknown (too few {each.second})" if math.isinf(of.error) else f"{of.error:.2g}"
    return f"{', '.join(parts)}: error {reached} for {usd(of.usd)} a day"
