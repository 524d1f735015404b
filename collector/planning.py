"""From the configuration to the plan: what is watched, what is judged of it, how often, and by whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from collector.config.loading import Config, Configured
from collector.config.settings import BoostSettings, BudgetSettings, JudgeSettings, MonitorSettings, UseSettings
from collector.evaluate.budget import Limits
from collector.evaluate.conversations import Ends
from collector.evaluate.plan import Assignment, EndRule, Monitor, NoJudge, Plan, text_at, version_of
from collector.evaluate.strata import Boost, Strata, disliked, failed, having, scored_below, slower_than
from evaluators.judge import Judge
from evaluators.judges.panel import panel_model

GUESSED_TOKENS = (1500, 200)
"""Tokens in and out of an evaluation, as long as none was paid for."""


def plan_of(config: Config, judges: Mapping[str, Judge]) -> Plan:
    """The monitors with their evaluators and judges."""
    monitors = tuple(_monitor(name, each, config, judges) for name, each in config.settings.monitors.items())
    evaluate = config.settings.evaluate
    return Plan(monitors, salt=evaluate.sampling_salt, limits=_limits(evaluate.budget))


def _monitor(name: str, settings: MonitorSettings, config: Config, judges: Mapping[str, Judge]) -> Monitor:
    return Monitor(
        name=name,
        assignments=tuple(assignment_of(each, config, judges) for each in settings.uses),
        match=_wanted(settings.match),
        rate=settings.sample,
        ends=Ends(
            idle=settings.idle,
            lateness=settings.lateness,
            max_age=settings.max_age,
            max_turns=settings.max_turns,
            max_bytes=settings.max_bytes,
        ),
        end_rule=EndRule(
            _wanted(settings.end.attributes), frozenset(settings.end.tools), frozenset(settings.end.events)
        ),
        strata=_strata(settings.boost, config.evaluators),
        limits=_limits(settings.budget),
    )


def assignment_of(use: UseSettings, config: Config, judges: Mapping[str, Judge]) -> Assignment:
    """An evaluator of the configuration with its judge."""
    configured = config.evaluators[use.name]
    members = config.settings.members(configured.judge) if configured.judge else ()
    asked = [config.settings.judges[each] for each in members]
    fallback = asked[0].fallback if len(asked) == 1 else None  # a jury has no stand-in
    judge = judges[configured.judge] if configured.judge else NoJudge()
    return Assignment(
        evaluator=configured.evaluator,
        judge=judge,
        version=version_of(configured.evaluator, judge.model),
        fallback=judges[fallback] if fallback else None,
        fallback_version=version_of(configured.evaluator, judges[fallback].model) if fallback else None,
        rate=use.sample,
        salt=use.salt,
        expected_usd=sum(map(_guess, asked)),
        judge_name=configured.judge or "",
        fallback_name=fallback or "",
    )


def version_in(config: Config, name: str) -> str:
    """The version of a configured evaluator with its judge, as evaluations have it."""
    configured = config.evaluators[name]
    return version_of(configured.evaluator, _model(config, configured.judge) if configured.judge else "")


def _model(config: Config, judge: str) -> str:
    """The model of a judge or jury by its name in the configuration."""
    settings = config.settings
    if judge in settings.judges:
        return settings.judges[judge].model
    jury = settings.juries[judge]
    return panel_model(jury.combine, [settings.judges[each].model for each in jury.judges])


def _guess(settings: JudgeSettings) -> float:
    prices = (settings.usd_per_million_input_tokens or 0.0, settings.usd_per_million_output_tokens or 0.0)
    return sum(tokens * price for tokens, price in zip(GUESSED_TOKENS, prices, strict=True)) / 1e6


def _limits(settings: BudgetSettings) -> Limits:
    return Limits(
        usd_per_hour=settings.usd_per_hour,
        usd_per_day=settings.usd_per_day,
        hard_cap=settings.hard_cap,
        fallback_at=settings.fallback_at,
    )


def _strata(settings: BoostSettings, evaluators: Mapping[str, Configured]) -> Strata:
    cheap = {each.evaluator: evaluators[each.evaluator].evaluator for each in settings.low_score}
    return Strata(tuple(each for each in _boosts(settings) if each.factor > 1.0), tuple(cheap.values()))


def _boosts(settings: BoostSettings) -> Iterator[Boost]:
    yield Boost("error", settings.error, failed)
    yield Boost("negative_feedback", settings.negative_feedback, disliked)
    yield Boost("slow", settings.slow, slower_than(settings.slow_after))
    for low in settings.low_score:
        yield Boost("low_score", low.factor, scored_below(low.evaluator, low.below))
    for has in settings.having:
        yield Boost(has.field, has.factor, having(partial(text_at, path=has.field), has.values))


def _wanted(values: Mapping[str, str | list[str]]) -> dict[str, frozenset[str]]:
    return {name: frozenset([each] if isinstance(each, str) else each) for name, each in values.items()}
