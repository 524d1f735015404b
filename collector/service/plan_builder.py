"""The plan of a configuration: its monitors, what is evaluated of their turns, how often, and by which judge."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from math import isnan
from typing import Any, Literal

from collector.config.configured import AuditSettings, Config, EvaluatorEntry, judges_of
from collector.config.packs import pack_of
from collector.config.settings import (
    BoostSettings,
    BudgetSettings,
    JudgeSettings,
    MonitorSettings,
    PlannedRate,
    UseSettings,
)
from collector.evaluate.budget.windows import Budget
from collector.evaluate.conversations.session_window import EndRule, SessionWindowSettings
from collector.evaluate.plan import Assignment, Monitor, Plan, distinguish_users
from collector.evaluate.sampling.draw import UpstreamTrust
from collector.evaluate.sampling.strata import Boost, Strata, disliked, failed, having, scored_below, slower_than
from collector.judging.batches import at_batch_prices
from collector.records.attributes import text_at
from collector.records.audits import read_by_auditor
from evaluators.asking.reading import ReadingSettings
from evaluators.asking.transcript import CHARACTERS_PER_TOKEN
from evaluators.evaluator import Evaluator
from evaluators.identity import judged_version
from evaluators.judge import Judge, NoJudge, WholeJudge
from evaluators.judges.audited import Audited
from evaluators.judges.cascade import cascade_model
from evaluators.judges.divided import divided_model
from evaluators.judges.endpoint import Prices
from evaluators.judges.jury import jury_model
from evaluators.packs.evaluate_pack import packed_version
from evaluators.results import Evaluation, Usage

GUESSED_TOKENS = (1500, 200)
"""Input and output tokens of an evaluation, assumed until the first one is paid."""


def build_plan(config: Config, judges: Mapping[str, Judge], key: str = "") -> Plan:
    """The monitors with their evaluators and judges, and the deployment's `key` of draws."""
    monitors = distinguish_users(
        _monitor(name, monitor, config, judges, key) for name, monitor in config.settings.monitors.items()
    )
    evaluate = config.settings.evaluate
    trust = _trust(config.settings.receive.trust_tracestate)
    return Plan(
        monitors, salt=evaluate.sampling_salt, key=key, budget=_limits(evaluate.budget), trust=trust,
        attributes=config.settings.assemble.declared_attributes,
    )  # fmt: skip


class _UnaskedJudge(WholeJudge):
    """A judge that is known by its model alone."""

    refusal = "nobody is asked here"

    def __init__(self, model: str) -> None:
        self.model = model


def build_unasked_plan(config: Config, key: str = "") -> Plan:
    """The plan with judges that cannot be asked: for commands that list due evaluations and judge none."""
    configured = {judge for evaluator in config.evaluators.values() for judge in evaluator.judges}
    names = {*config.settings.judge_names, *configured}
    return build_plan(config, {name: _UnaskedJudge(_model(config, name)) for name in names}, key)


def _trust(believed: Literal["never", "always"] | list[str]) -> UpstreamTrust:
    if isinstance(believed, str):
        return UpstreamTrust(everybody=believed == "always")
    return UpstreamTrust(tenants=frozenset(believed))


def _monitor(name: str, settings: MonitorSettings, config: Config, judges: Mapping[str, Judge], key: str) -> Monitor:
    deferred = settings.urgency == "hours"
    priced = at_batch_prices(config) if deferred else config
    assignments = (
        build_assignment(use, priced, judges, pack_of(use.name, settings, config.evaluators), key)
        for use in settings.uses
    )
    rate, ends = settings.rate, settings.end_markers
    return Monitor(
        name=name,
        assignments=tuple(
            replace(assignment, deferred=deferred and bool(assignment.judge_name)) for assignment in assignments
        ),
        match=_as_sets(settings.match),
        agent_runs=settings.subjects == "agent_runs",
        rate=settings.highest_rate,
        standard_error=rate.standard_error if isinstance(rate, PlannedRate) else None,
        window_settings=SessionWindowSettings(
            idle_gap=settings.idle_timeout,
            allowed_lateness=settings.allowed_lateness,
            max_age=settings.max_age,
            max_turns=settings.max_turns,
            max_bytes=settings.max_bytes,
        ),
        end_rule=EndRule(_as_sets(ends.attributes), frozenset(ends.tools), frozenset(ends.events)),
        strata=strata_of(settings.boost, config),
        budget=_limits(settings.budget),
        reference_wait=settings.references.wait if settings.references is not None else None,
        attributes=tuple(config.settings.assemble.declared_attributes),
        skip_unseen=settings.unseen_media == "skip",
    )


def build_assignment(
    use: UseSettings, config: Config, judges: Mapping[str, Judge], pack: Sequence[str] = (), key: str = ""
) -> Assignment:
    """An evaluator of the configuration with its judge; `pack` names those that it asks together with."""
    configured = config.evaluators[use.name]
    members = config.settings.members(configured.judge) if configured.judge else ()
    judge_settings = [config.settings.judges[member] for member in members]
    fallback = judge_settings[0].fallback if len(judge_settings) == 1 else None  # of several judges, none has one
    judge = _audited(configured, judges[configured.judge] if configured.judge else NoJudge(), config, judges, key)
    names = judges_of(use.name, config.evaluators)
    fallback = fallback if configured.audit is None else None  # whose scores no audit would be about
    alone = Assignment(
        evaluator=configured.evaluator, judge=judge, version=judged_version(configured.evaluator, judge.model),
        fallback=judges[fallback] if fallback else None,
        fallback_version=judged_version(configured.evaluator, judges[fallback].model) if fallback else None,
        rate=use.sample, salt=use.salt, expected_usd=expected_usd(config, use.name),
        judge_name=names[0] if names else "", fallback_name=fallback or "",
    )  # fmt: skip
    return with_pack(alone, pack, config)


def _audited(configured: EvaluatorEntry, judge: Judge, config: Config, judges: Mapping[str, Judge], key: str) -> Judge:
    """The judge, with the one that audits it if there is one."""
    audit = configured.audit
    if audit is None:
        return judge
    by, name = _auditor(audit, config)
    return Audited(judge, judges[name], audit.share, by, patience=audit.patience, salt=key)


def _auditor(audit: AuditSettings, config: Config) -> tuple[Evaluator[Any] | None, str]:
    """The evaluator that does an audit, None if it is the audited one itself, and the name of its judge."""
    if audit.evaluator is None:
        return None, audit.judge or ""
    other = config.evaluators[audit.evaluator]
    return other.evaluator, other.judge or ""


def with_pack(assignment: Assignment, pack: Sequence[str], config: Config) -> Assignment:
    """The assignment of an evaluator that asks together with a pack of others, with the version that says so."""

    def version(judge: Judge) -> str:
        return _version(config, assignment.evaluator, judge.model, pack)

    fallback = None if assignment.fallback is None else version(assignment.fallback)
    return replace(assignment, version=version(assignment.judge), fallback_version=fallback, pack=tuple(pack))


def _version(config: Config, evaluator: Evaluator[Any], model: str, pack: Sequence[str]) -> str:
    if not pack:
        return judged_version(evaluator, model)
    return packed_version(evaluator, model, [config.evaluators[member].evaluator for member in pack])


def expected_usd(config: Config, name: str) -> float:
    """The probable cost of an evaluation by a configured evaluator, before any was made."""
    configured = config.evaluators[name]
    usual = _guess_of(configured.judge, config)
    if configured.audit is None:
        return usual
    return usual + configured.audit.share * _guess_of(_auditor(configured.audit, config)[1], config)


def known_usd(config: Config, name: str) -> float | None:
    """The same, but None if a judge that it asks has no price."""
    return expected_usd(config, name) if all(judge.priced for judge in judges_behind(config, name).values()) else None


def judges_behind(config: Config, name: str) -> dict[str, JudgeSettings]:
    """The settings of all judges that a configured evaluator asks, by their names."""
    members = [config.settings.members(judge) for judge in judges_of(name, config.evaluators)]
    return {member: config.settings.judges[member] for member in chain.from_iterable(members)}


def tokens_usd(config: Config, name: str, usage: Usage | None) -> float | None:
    """The cost of tokens of a configured evaluator by its prices; None if unknown, as of several judges: nobody knows
    whose tokens they are.
    """
    judges = list(judges_behind(config, name).values())
    return _usd(judges[0], usage) if usage is not None and len(judges) == 1 else None


def _usd(judge: JudgeSettings, usage: Usage) -> float | None:
    cached, written = judge.usd_per_million_cached_input_tokens, judge.cache_write_price
    return None if judge.prices is None else Prices(*judge.prices, cached, written).cost(usage)


def audited_usd(config: Config, name: str, usage: Usage | None, own: float) -> float | None:
    """The cost of evaluations by a judge and its auditor, if the auditor reads as much of a case; None if unknown.

    `own` is the share of the tokens that no auditor took.
    """
    configured = config.evaluators.get(name)
    if configured is None or configured.audit is None or configured.judge is None or usage is None or isnan(own):
        return None
    members = [config.settings.members(of) for of in (configured.judge, _auditor(configured.audit, config)[1])]
    costs = [_usd(config.settings.judges[of[0]], usage) for of in members if len(of) == 1]
    judge, audit = costs if len(costs) == 2 else (None, None)
    return None if judge is None or audit is None else own * (judge + configured.audit.share * audit)


def usd_again(config: Config, name: str, past: Evaluation) -> float | None:
    """The cost of a past evaluation if a configured evaluator makes it again; None if unknown.

    By its tokens and today's prices if one judge is asked; else it is what this version paid, or what the tokens cost
    if a judge and its auditor are asked.
    """
    if (usd := tokens_usd(config, name, past.usage)) is not None:
        return usd
    monitor = past.monitor if past.monitor in config.settings.monitors else ""
    if past.cost_usd is not None and past.evaluator_version == evaluator_version_in(config, name, monitor):
        return past.cost_usd
    read = past.usage.input_tokens if past.usage is not None else 0
    return audited_usd(config, name, past.usage, 1.0 - read_by_auditor(past)[0] / read if read else 1.0)


def reading_usd(config: Config, name: str) -> float | None:
    """The most that reading a run adds to an evaluation; None without prices, or where nobody reads."""
    evaluator, judge = config.evaluators[name].evaluator, config.evaluators[name].judge or ""
    if not isinstance(evaluator, ReadingSettings) or evaluator.reads is None or known_usd(config, name) is None:
        return None
    prices = [config.settings.judges[member].prices or (0.0, 0.0) for member in config.settings.members(judge)]
    of_run = evaluator.most_read / CHARACTERS_PER_TOKEN * sum(price[0] for price in prices) / 1e6
    return of_run + evaluator.reads * _guess_of(judge, config)


def _guess_of(judge: str | None, config: Config) -> float:
    return sum(_guess(config.settings.judges[member]) for member in (config.settings.members(judge) if judge else ()))


def evaluator_version_in(config: Config, name: str, monitor: str = "") -> str:
    """The version of a configured evaluator with its judge, as evaluations have it.

    It is that of a monitor, where the evaluator may be in a pack: of the first one that uses it unless named.
    """
    configured, monitors = config.evaluators[name], config.settings.monitors
    users = [each for each in monitors.values() if name in [use.name for use in each.uses]]
    settings = monitors[monitor] if monitor else next(iter(users), None)
    pack = () if settings is None else pack_of(name, settings, config.evaluators)
    return _version(config, configured.evaluator, _model(config, configured.judge) if configured.judge else "", pack)


def lower_is_better(config: Config) -> frozenset[str]:
    """The names of the evaluators whose best score is 0."""
    evaluators = config.evaluators.items()
    return frozenset(name for name, configured in evaluators if configured.evaluator.direction == "lower_is_better")


def evaluator_versions(config: Config) -> dict[tuple[str, str], str]:
    """The version of each monitor's evaluators with their judges, by monitor and evaluator."""
    return {
        (name, use.name): evaluator_version_in(config, use.name, name)
        for name, monitor in config.settings.monitors.items()
        for use in monitor.uses
    }


def audit_version_in(config: Config, name: str) -> str | None:
    """The version of who audits a configured evaluator, as the details of evaluations have it; None if nobody does."""
    configured = config.evaluators[name]
    if configured.audit is None:
        return None
    by, judge = _auditor(configured.audit, config)
    return judged_version(by or configured.evaluator, _model(config, judge))


def _model(config: Config, judge: str) -> str:
    """The model of a judge, a jury, a cascade or a pair by its name in the configuration."""
    settings = config.settings
    if judge in settings.cascades:
        cascade = settings.cascades[judge]
        first, then = _model(config, cascade.first), _model(config, cascade.then)
        return cascade_model(first, then, cascade.doubt, cascade.share)
    if judge in settings.judges:
        return settings.judges[judge].identity
    models = [settings.judges[member].identity for member in settings.members(judge)]
    if judge in settings.juries:
        return jury_model(settings.juries[judge].combine, models)
    decide, extract = models
    return divided_model(extract, decide)


def _guess(settings: JudgeSettings) -> float:
    prices = settings.prices or (0.0, 0.0)
    return sum(tokens * price for tokens, price in zip(GUESSED_TOKENS, prices, strict=True)) / 1e6


def _limits(settings: BudgetSettings) -> Budget:
    return Budget(
        usd_per_hour=settings.usd_per_hour,
        usd_per_day=settings.usd_per_day,
        hard_cap=settings.hard_cap_factor,
        fallback_at=settings.fallback_at,
    )


def strata_of(settings: BoostSettings, config: Config) -> Strata:
    """The boosts above 1, and the evaluators that these need."""
    cheap = {low.evaluator: config.evaluators[low.evaluator].evaluator for low in settings.low_score}
    return Strata(tuple(boost for boost in _boosts(settings, config) if boost.factor > 1.0), tuple(cheap.values()))


def _boosts(settings: BoostSettings, config: Config) -> Iterator[Boost]:
    yield Boost("error", settings.error, failed)
    yield Boost("negative_feedback", settings.negative_feedback, partial(disliked, config.settings.feedback.scales))
    yield Boost("slow", settings.slow, slower_than(settings.slow_after))
    for low in settings.low_score:
        lower = config.evaluators[low.evaluator].evaluator.direction == "lower_is_better"
        yield Boost("low_score", low.factor, scored_below(low.evaluator, low.below, lower_is_better=lower))
    for has in settings.matching:
        yield Boost(has.field, has.factor, having(partial(text_at, path=has.field), has.values))


def _as_sets(values: Mapping[str, str | list[str]]) -> dict[str, frozenset[str]]:
    return {name: frozenset([value] if isinstance(value, str) else value) for name, value in values.items()}
