"""The changes by a configuration, as `evalstream check --diff` prints it: against what runs, or another file."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import orjson

from collector.alerting.rules.generate import rules_of
from collector.alerting.rules.model import AlertingRule
from collector.alerting.rules.targets import targets
from collector.commands.check.capacity import capacity_of, costs_here
from collector.commands.check.check import judge_calls
from collector.commands.check.summary import Spent, basis, usd_per_1000
from collector.commands.check.traffic import running_sections, spent_so_far
from collector.config.configured import Config, judges_of
from collector.config.live_part import LIVE, SECRET_JUDGE_KEYS, live_keys, live_values, restart_keys, with_live_values
from collector.config.section_hashes import section_hashes
from collector.config.settings import BudgetSettings, PlannedRate
from collector.errors import ConfigError
from collector.logs.log import LogUnavailable
from collector.service.live.history import ConfigurationHistory
from collector.service.open_logs import open_logs, require_topics_of
from collector.service.plan_builder import evaluator_versions
from collector.wording import listed, usd

Value = float | str | None


@dataclass(frozen=True, slots=True)
class EvaluatorChange:
    """The change of a monitor's evaluator. A version is None where one configuration does not use it there."""

    monitor: str
    evaluator: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class NumberChange:
    """A figure of a monitor, or of one of its evaluators; None: there is none."""

    where: str
    before: Value
    after: Value


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes that another configuration would make.

    `live` are keys that a running service takes, `restart` are keys whose change makes it refuse the whole file. `cost`
    is in US dollars a day at the expected traffic, or for 1,000 matching turns where none is configured; None: not
    known.
    """

    live: tuple[str, ...]
    restart: tuple[str, ...]
    evaluators: tuple[EvaluatorChange, ...]
    sampling: tuple[NumberChange, ...]
    budgets: tuple[NumberChange, ...]
    targets: tuple[NumberChange, ...]
    cost: NumberChange
    calls: NumberChange
    new_rules: tuple[str, ...]
    removed_rules: tuple[str, ...]
    changed_rules: tuple[str, ...]


def changes_of(old: Config, new: Config, spent: Spent, *, knows_secrets: bool = True) -> Changes:
    """Compare two configurations. Without the secrets of the old one, they and the golden set are left out."""
    live = live_keys(old.settings, new.settings)
    calls = ("".join(judge_calls(each.settings.monitors.values(), each)) for each in (old, new))
    rules_before, rules_after = _rules(old), _rules(new)
    return Changes(
        live=tuple(each for each in live if knows_secrets or not _is_unknown(each)),
        restart=tuple(restart_keys(old.settings, new.settings)),
        evaluators=tuple(_evaluators(old, new)),
        sampling=tuple(_differences(dict(_sampling(old)), dict(_sampling(new)))),
        budgets=tuple(_differences(dict(_budgets(old)), dict(_budgets(new)))),
        targets=tuple(_differences(dict(_targets(old)), dict(_targets(new)))),
        cost=_cost(old, new, spent),
        calls=NumberChange("for 1,000 matching turns", *calls),
        new_rules=tuple(sorted(rules_after.keys() - rules_before.keys())),
        removed_rules=tuple(sorted(rules_before.keys() - rules_after.keys())),
        changed_rules=tuple(
            sorted(name for name in rules_before.keys() & rules_after.keys() if rules_before[name] != rules_after[name])
        ),
    )


def _evaluators(old: Config, new: Config) -> Iterator[EvaluatorChange]:
    before, after = evaluator_versions(old), evaluator_versions(new)
    for key in dict.fromkeys((*before, *after)):
        if before.get(key) != after.get(key):
            yield EvaluatorChange(*key, before.get(key), after.get(key))


def _differences(before: dict[str, Value], after: dict[str, Value]) -> Iterator[NumberChange]:
    for where in dict.fromkeys((*before, *after)):
        if before.get(where) != after.get(where):
            yield NumberChange(where, before.get(where), after.get(where))


def _sampling(config: Config) -> Iterator[tuple[str, Value]]:
    yield "the salt of the draw", config.settings.evaluate.sampling_salt
    for name, monitor in config.settings.monitors.items():
        yield name, monitor.sample
        if isinstance(rate := monitor.rate, PlannedRate):
            yield f"the standard error of {name}", rate.standard_error
        own = ((use.name, use.sample) for use in monitor.uses if use.sample not in (None, monitor.sample))
        yield from ((f"{evaluator} of {name}", sample) for evaluator, sample in own)


def _budgets(config: Config) -> Iterator[tuple[str, Value]]:
    def each(where: str, budget: BudgetSettings) -> Iterator[tuple[str, Value]]:
        yield f"{where} an hour", budget.usd_per_hour
        yield f"{where} a day", budget.usd_per_day

    yield from each("all", config.settings.evaluate.budget)
    for name, monitor in config.settings.monitors.items():
        yield from each(name, monitor.budget)


_THRESHOLD = "threshold of "


def _targets(config: Config) -> Iterator[tuple[str, Value]]:
    for target in targets(config):
        yield f"{target.evaluator} of {target.monitor}", target.mean
    for name, monitor in config.settings.monitors.items():
        for use in monitor.uses:
            yield f"{_THRESHOLD}{use.name} of {name}", config.evaluators[use.name].evaluator.threshold


def _cost(old: Config, new: Config, spent: Spent) -> NumberChange:
    """At the same traffic: that which the new one expects. Calls so far give the price of those that stay."""
    traffic = new.settings.traffic
    if traffic is None:
        same = {name for name in spent if judges_of(name, old.evaluators) == judges_of(name, new.evaluators)}
        known = {name: spent[name] for name in same} if old.settings.judges == new.settings.judges else {}
        before, after = usd_per_1000(old, known), usd_per_1000(new, known)
        return NumberChange(f"for 1,000 matching turns{f' ({basis(new, known)})' if after else ''}", before, after)
    expecting = replace(old, settings=old.settings.model_copy(update={"traffic": traffic}))
    costs = costs_here()
    needed, need = capacity_of(expecting, costs), capacity_of(new, costs)
    assert needed is not None
    assert need is not None
    return NumberChange("a day", needed.usd_per_day, need.usd_per_day)


def _rules(config: Config) -> dict[str, Counter[str]]:
    """The alerting rules of each name. Not those that only name the configuration's hash."""
    rules: dict[str, Counter[str]] = {}
    for group in rules_of(config).groups:
        for rule in group.rules:
            if isinstance(rule, AlertingRule) and rule.name != "EvalstreamRulesOutdated":
                rules.setdefault(rule.name, Counter())[repr(rule)] += 1
    return rules


@dataclass(frozen=True, slots=True)
class Compared:
    """A configuration to compare with, and its name.

    `knows_secrets`: those of its judges are known. `restart` are keys and sections that a start alone reads, and in
    which it differs beyond `config`; `unseen` says why not all of these are known.
    """

    config: Config
    name: str
    knows_secrets: bool = True
    restart: tuple[str, ...] = ()
    unseen: str = ""
    spent: Spent = field(default_factory=dict[str, tuple[float, float]])

    def changes_by(self, config: Config) -> Changes:
        """The changes that another configuration would make to it."""
        changes = changes_of(self.config, config, self.spent, knows_secrets=self.knows_secrets)
        return replace(changes, restart=tuple(sorted({*changes.restart, *self.restart})))


async def running_configuration(config: Config) -> Compared:
    """The newest configuration that the logs of a deployment have. Only reads.

    Raises:
        ConfigError: the logs cannot be read, or no service has run with them.
    """
    linking = config.optional_logs["linking"]
    require_topics_of(config.settings.log, linking=linking)
    async with open_logs(config.settings.log, linking=linking) as logs:
        try:
            newest = await ConfigurationHistory(await logs.generated_steps(), config).refresh()
        except LogUnavailable as error:
            raise ConfigError(f"log: {error}; start the broker, or try again") from error
    if newest is None:
        raise ConfigError(
            "log: no configuration was taken there yet, so there is none to compare with; name a file with --against"
        )
    source = f"configuration {newest.number}"
    since = datetime.fromtimestamp(newest.since, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    name = f"{source}, in force since {since}"
    try:
        compared = Compared(with_live_values(config, newest.values, source), name)
    except ConfigError:  # a judge of then is not in this file, so its key is not known here
        before = with_live_values(config, newest.values, source, answering=False)
        compared = Compared(before, name, knows_secrets=False)
    return await asyncio.to_thread(_with_start_keys, compared, config, newest.values)


def _with_start_keys(compared: Compared, config: Config, stored: Mapping[str, Any]) -> Compared:
    """With what a start alone reads: of that the log has the declared attributes, and /metrics hashes of sections."""
    declares_others = stored.get("attributes", []) != live_values(config).get("attributes", [])
    attributes = ("assemble.attributes",) if declares_others else ()
    metrics, running, unseen = running_sections(config)
    compared = replace(compared, spent=spent_so_far(metrics))
    if unseen:
        return replace(compared, restart=attributes, unseen=unseen)
    before = section_hashes(compared.config)
    other = {name for name in before.keys() | running.keys() if before.get(name) != running.get(name)}
    sections = tuple(name for name in other if name.partition(".")[0] not in (*LIVE, "assemble" if attributes else ""))
    if "alerts" in other:
        unseen = "alerts.watcher or an address of alerts differs"
    return replace(compared, restart=(*attributes, *sections), unseen=unseen)


def change_lines(config: Config, compared: Compared) -> Iterator[str]:
    """The changes, line by line."""
    changes = compared.changes_by(config)
    yield f"{config.source}: valid; compared with {compared.name}"
    yield ""
    unseen = f", unless a key that a start alone reads differs as well ({compared.unseen})" if compared.unseen else ""
    if not changes.live and not changes.restart:
        yield f"changes    nothing{unseen}"
        return
    if changes.restart:
        yield f"restart    {listed(changes.restart)}: read at a start alone; a running service refuses the whole file"
    if any(key.startswith("export") for key in changes.restart):
        yield "           a new exporter (not one that changes) first sends all evaluations that the log still has"
    if changes.live and changes.restart:
        yield f"refused    {listed(changes.live)}: until the restart"
    elif changes.live:
        yield f"taken      {listed(changes.live)}{unseen}"
    for evaluator in changes.evaluators:
        yield f"evaluator  {_evaluator(evaluator)}"
    yield from (f"sampling   {_figure(change)}" for change in changes.sampling)
    yield from (f"budget     {_figure(change)}, in USD" for change in changes.budgets)
    for change in changes.targets:
        of_each = change.where.startswith(_THRESHOLD)
        name, whose = ("threshold ", "of each score") if of_each else ("target    ", "of the mean")
        yield f"{name} {_figure(change).removeprefix(_THRESHOLD)} ({whose})"
    yield f"cost       {_money(changes.cost)}"
    if changes.calls.before != changes.calls.after:
        yield f"calls      {_figure(changes.calls)}"
    rules = {"new": changes.new_rules, "removed": changes.removed_rules, "changed": changes.changed_rules}
    yield from (f"rules      {what}: {listed(names)}" for what, names in rules.items() if names)
    if any(rules.values()):
        yield "           run `evalstream rules` again and reload Prometheus"
    if any(evaluator.before and evaluator.after for evaluator in changes.evaluators):
        yield "past       nothing that is finished is judged again; `evalstream rejudge` judges a stretch of it"


def changes_json(config: Config, compared: Compared) -> str:
    """The same as one JSON object."""
    compared_with = {"compared_with": compared.name, "unseen": compared.unseen or None}
    document = {"configuration": config.source, **compared_with, **asdict(compared.changes_by(config))}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"


def _is_unknown(key: str) -> bool:
    """Whether the log lacks this key's value, or the key is of no use without such a value."""
    section, _, rest = key.partition(".")
    return section == "golden" or (section == "judges" and rest.partition(".")[2] in SECRET_JUDGE_KEYS)


def _evaluator(change: EvaluatorChange) -> str:
    where = f"{change.evaluator} of {change.monitor}"
    if change.before is None:
        return f"{where}: new, version {change.after}, for new subjects"
    if change.after is None:
        return f"{where}: removed, version {change.before}; unfinished evaluations are not made"
    return f"{where}: version {change.before} → {change.after}, for new subjects and unfinished evaluations"


def _figure(change: NumberChange) -> str:
    return f"{change.where}: {_text(change.before)} → {_text(change.after)}"


def _text(value: Value) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float | int) else value


def _money(cost: NumberChange) -> str:
    def amount(value: Value) -> str:
        return usd(value) if isinstance(value, float | int) else "unknown (a judge has no price)"

    if cost.before == cost.after:
        return f"{amount(cost.after)} {cost.where}{'' if cost.after is None else ', as before'}"
    return f"{amount(cost.before)} → {amount(cost.after)} {cost.where}"
