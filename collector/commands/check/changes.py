"""The changes by a configuration, as `evalstream check --diff` prints them: against what runs, or another file."""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import starmap
from pathlib import Path
from types import MappingProxyType
from typing import Any

from collector.alerting.rules.generate import rules_of
from collector.alerting.rules.model import AlertingRule
from collector.alerting.rules.targets import targets
from collector.commands.check import traffic as here
from collector.commands.check.capacity import beyond_daily_budget, capacity_of, costs_here
from collector.commands.check.check import Spent, beyond_budget, boosts, judge_calls, usd_per_1000
from collector.commands.check.summary import basis, for_turns
from collector.config import live_part
from collector.config.configured import Config
from collector.config.section_hashes import differing, section_hashes
from collector.config.settings import PlannedRate
from collector.errors import ConfigError
from collector.golden.runner import cases_for, read_cases
from collector.plugins.folder import folders
from collector.records.json import indented_json
from collector.service.app import earlier_than_others, require_startable
from collector.service.live.history import ConfigurationHistory, NumberedConfiguration, going_back_to
from collector.service.open_logs import open_stored_logs
from collector.service.plan_builder import audited_usd, evaluator_versions, judges_behind, known_usd, tokens_usd
from collector.wording import listed, plural, usd
from evaluators.results import Usage

Value = float | str | None
Versions = Mapping[tuple[str, str], str]
"""The version of each monitor's evaluators, by monitor and evaluator."""
Tokens = Mapping[str, Usage]
"""The tokens of the requests so far, and their number, by evaluator."""


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
    monitor_costs: tuple[NumberChange, ...]
    calls: NumberChange
    new_rules: tuple[str, ...]
    removed_rules: tuple[str, ...]
    changed_rules: tuple[str, ...]


def changes_of(
    old: Config, new: Config, spent: Spent, *, tokens: Tokens = MappingProxyType({}), knows_secrets: bool = True,
    running: Versions = MappingProxyType({}),
) -> Changes:  # fmt: skip
    """Compare two configurations. Without the secrets of the old one, they and the golden set are left out.

    `spent` and `tokens` are those of the old one so far, `running` the versions that it has by other code.
    """
    calls = ("".join(judge_calls(each.settings.monitors.values(), each)) for each in (old, new))
    earlier, rules = _rules(old), _rules(new)
    before, after = {**evaluator_versions(old), **running}, evaluator_versions(new)
    live = live_part.live_keys(old.settings, new.settings)
    own = {each for config in (old, new) for each in _own_samples(config)}
    return Changes(
        live=tuple(key for key in live if knows_secrets or not live_part.unlogged(key)),
        restart=tuple(live_part.restart_keys(old.settings, new.settings)),
        evaluators=tuple(EvaluatorChange(*use, *versions) for use, *versions in _differences(before, after)),
        sampling=tuple(starmap(NumberChange, _differences(*(dict(_sampling(each, own)) for each in (old, new))))),
        budgets=tuple(starmap(NumberChange, _differences(dict(_budgets(old)), dict(_budgets(new))))),
        targets=tuple(starmap(NumberChange, _differences(dict(_targets(old)), dict(_targets(new))))),
        cost=_cost(old, new, spent, tokens),
        monitor_costs=tuple(sorted(_monitor_costs(old, new, spent, tokens), key=lambda cost: cost.where)),
        calls=NumberChange(for_turns(new), *calls),
        new_rules=tuple(sorted(rules.keys() - earlier.keys())),
        removed_rules=tuple(sorted(earlier.keys() - rules.keys())),
        changed_rules=tuple(sorted(name for name in rules.keys() & earlier.keys() if rules[name] != earlier[name])),
    )


def _differences(before: Mapping[Any, Value], after: Mapping[Any, Value]) -> Iterator[tuple[Any, Any, Any]]:
    """The keys whose values differ, with both; None: there is none."""
    for key in dict.fromkeys((*before, *after)):
        if before.get(key) != after.get(key):
            yield key, before.get(key), after.get(key)


def _own_samples(config: Config) -> Iterator[tuple[str, str]]:
    """The monitors' evaluators that have another sample rate than the monitor."""
    for name, monitor in config.settings.monitors.items():
        yield from ((name, use.name) for use in monitor.uses if use.sample not in (None, monitor.sample))


def _sampling(config: Config, own: Collection[tuple[str, str]]) -> Iterator[tuple[str, Value]]:
    """The rates that count: each monitor's, and those of its evaluators that have, or had, one of their `own`."""
    yield "the salt of the draw", config.settings.evaluate.sampling_salt
    for name, monitor in config.settings.monitors.items():
        rate = monitor.rate
        yield name, f"auto (standard error {rate.standard_error:g})" if isinstance(rate, PlannedRate) else rate
        rates = ((use.name, use.sample or monitor.sample) for use in monitor.uses if (name, use.name) in own)
        yield from ((f"{evaluator} of {name}", sample) for evaluator, sample in rates)


def _budgets(config: Config) -> Iterator[tuple[str, Value]]:
    of_monitors = [(name, monitor.budget) for name, monitor in config.settings.monitors.items()]
    for where, budget in [("all", config.settings.evaluate.budget), *of_monitors]:
        yield f"{where} an hour", budget.usd_per_hour
        yield f"{where} a day", budget.usd_per_day


_THRESHOLD = "threshold of "


def _targets(config: Config) -> Iterator[tuple[str, Value]]:
    yield from ((f"{target.evaluator} of {target.monitor}", target.mean) for target in targets(config))
    for name, monitor in config.settings.monitors.items():
        for use in monitor.uses:
            yield f"{_THRESHOLD}{use.name} of {name}", config.evaluators[use.name].evaluator.threshold


def _cost(old: Config, new: Config, spent: Spent, tokens: Tokens) -> NumberChange:
    """At the traffic that the new one expects."""
    traffic = new.settings.traffic
    if traffic is None:
        again = _again(old, new, spent, tokens)
        after = usd_per_1000(new, again)
        # a guess is compared with a guess
        paid = {name: spent[name] for name in spent if after is None or name in again or name not in new.evaluators}
        same = all(spent.get(name) == calls for name, calls in again.items())
        source = basis(new, again, "by calls since the start" if same else "by the tokens of calls since the start")
        return NumberChange(f"{for_turns(new)}{f' ({source})' if after else ''}", usd_per_1000(old, paid), after)
    expecting = replace(old, settings=old.settings.model_copy(update={"traffic": traffic}))
    needs = (capacity_of(config, costs_here()) for config in (expecting, new))
    return NumberChange("a day", *(need.usd_per_day for need in needs if need is not None))


def _monitor_costs(old: Config, new: Config, spent: Spent, tokens: Tokens) -> Iterator[NumberChange]:
    """Those of several that change: the cost of them all is by the highest rate of each evaluator."""
    monitors = new.settings.monitors
    for name in monitors.keys() & old.settings.monitors.keys() if len(monitors) > 1 else ():
        cost = _cost(_alone(old, name), _alone(new, name), spent, tokens)
        if cost.before != cost.after:
            yield replace(cost, where=f"{cost.where.partition(' (')[0]} of {name}")  # the same source, said before


def _alone(config: Config, name: str) -> Config:
    settings = config.settings
    return replace(config, settings=settings.model_copy(update={"monitors": {name: settings.monitors[name]}}))


def _again(old: Config, new: Config, spent: Spent, tokens: Tokens) -> Spent:
    """The cost of the calls so far if the new one's judges answered them, without evaluators of which it is unknown."""
    again = {name: spent[name] for name in spent if judges_behind(old, name) == judges_behind(new, name)}
    for name, usage in tokens.items():
        own, rounds = 1.0 / _rounds(old, name), _rounds(new, name)
        before, after = (_usd(config, name, usage, own) for config in (old, new))
        if after is not None and (name not in again or own * rounds != 1.0):
            paid, calls = spent.get(name, (0.0, float(usage.calls)))
            again[name] = (paid * (after / before) if paid and before else after), calls * own * rounds
    return again


def _usd(config: Config, name: str, usage: Usage, own: float) -> float | None:
    known = tokens_usd(config, name, usage)
    return audited_usd(config, name, usage, own) if known is None else known * own * _rounds(config, name)


def _rounds(config: Config, name: str) -> float:
    """How often an evaluator is asked about a case: once, and by its auditor."""
    audit = config.evaluators[name].audit if name in config.evaluators else None
    return 1.0 + (audit.share if audit is not None else 0.0)


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

    `knows_secrets`: those of its judges are known. `restart` are keys and sections read at a start alone that
    differ, besides those of `config`; `unseen` says why not all of these are known. `versions` are those that it
    has by other code: an earlier release, or a plug-in as it was. `since` ends the sentence that nothing changes.
    `refusal` is that of the service's own file at present. `ignored` says why a start takes `config` and not the
    file. `code`: the plug-ins there have other code. `uncounted` says why no cost is known. `unlogged`
    are keys that a service takes and the log lacks: a secret that the file has no more, an address of alerts.
    """

    config: Config
    name: str
    knows_secrets: bool = True
    restart: tuple[str, ...] = ()
    unseen: str = ""
    since: str = ""
    refusal: str = ""
    ignored: str = ""
    spent: Spent = field(default_factory=dict[str, tuple[float, float]])
    tokens: Tokens = field(default_factory=dict[str, Usage])
    versions: Versions = field(default_factory=dict[tuple[str, str], str])
    code: bool = False
    uncounted: str = "no priced call of the service is known since its start"
    unlogged: tuple[str, ...] = ()

    def changes_by(self, config: Config) -> Changes:
        """The changes that another configuration would make to it."""
        changes = changes_of(
            self.config, config, self.spent, tokens=self.tokens, knows_secrets=self.knows_secrets, running=self.versions
        )
        live, restart = {*changes.live, *self.unlogged}, {*changes.restart, *self.restart}
        return replace(changes, live=tuple(sorted(live)), restart=tuple(sorted(restart)))


async def running_configuration(config: Config) -> Compared:
    """The newest configuration that the logs of a deployment have. Only reads.

    Raises:
        ConfigError: the logs cannot be read, no service has run with them, or the one that runs has others.
    """
    try:
        newest, ignored, earlier = await _newest(config)
    except ConfigError as error:
        _, running, _ = await asyncio.to_thread(here.running_sections, config)
        keys = _of_log(differing(section_hashes(config), running)) if running else []
        # a start refuses other partitions, too, and the error says why
        if set(keys) - {"log.partitions", "log.kafka.partitions"}:
            raise _other_log(config, keys) from None
        raise ConfigError(f"{config.source}: {error}") from None
    source = f"configuration {newest.number}"
    at = f"{datetime.fromtimestamp(newest.since, UTC):%Y-%m-%d %H:%M:%S} UTC"
    name = f"{source}, in force since {at}"
    since = f": the service took this file at {at}; to see changes before they apply, check a copy"
    try:
        compared = Compared(live_part.with_live_values(config, newest.values, source), name, since=since)
    except ConfigError:  # a judge of then is not in this file, so its key is not known here
        values = live_part.with_live_values(config, newest.values, source, answering=False)
        compared = Compared(values, name, knows_secrets=False)
    compared = await asyncio.to_thread(_with_start_keys, compared, config, newest.values)
    # a service here takes a changed file, but this may be its own file, which it refuses
    is_refused = going_back_to(earlier) in compared.refusal
    return replace(compared, ignored=ignored) if compared.unseen or is_refused else compared


async def _newest(config: Config) -> tuple[NumberedConfiguration, str, int]:
    """The newest configuration, why a start takes it instead of the file, and the earlier number that the file has; ""
    and the newest number if a start takes the file.
    """
    async with open_stored_logs(config.settings.log) as logs:
        steps = await logs.generated_steps()
        await require_startable(steps, config.settings.log, noted=False)
        history = ConfigurationHistory(steps, config)
        newest = await history.refresh()
        is_shared = logs.turns.shared
    if newest is None:
        raise ConfigError("log: no service has taken a configuration there yet; compare with a file (--against)")
    earlier = await earlier_than_others(history, config) if is_shared else None
    if earlier is None:
        return newest, "", newest.number
    way = "to go back, write the file to a process that evaluates; if none runs, start after log.kafka.session_timeout"
    return newest, f"it has {history.replaced(earlier)}; {way}", earlier.number


_NO_COSTS = "the process on this port has no stage export, which counts costs; use the port of one that has it"
_SPENT = "; what was spent in the last hour or day still counts"
_CODE = "the code of "
_AT_START = "read only at a start; a running service refuses the changed file"


def _of_log(names: Sequence[str]) -> list[str]:
    return [name for name in names if name.startswith("log.")]


def _other_log(config: Config, keys: Sequence[str]) -> ConfigError:
    """The log of the file is not that of the service, so that it does not know what runs."""
    remedy = "write the running service's value to see what else changes"
    return ConfigError(f"{config.source}: {listed(keys)}: {_AT_START}; {remedy}")


def _with_start_keys(compared: Compared, config: Config, stored: Mapping[str, Any]) -> Compared:
    """Add what a start alone reads: what all processes share, from the log, and the rest, from /metrics."""
    shared = live_part.start_changes(stored, config)
    metrics, running, unseen = here.running_sections(config)
    compared = replace(
        compared, spent=here.spent_at_present(compared.config, metrics), tokens=here.tokens_so_far(metrics),
        refusal=here.running_refusal(config),
    )  # fmt: skip
    if here.lacks_exporters(metrics):
        compared = replace(compared, uncounted=_NO_COSTS)
    other = shared if unseen else differing(section_hashes(compared.config), running)
    if (keys := _of_log(other)) and any(name.startswith(("evaluators.", "monitors.")) for name in other):
        raise _other_log(config, keys)  # an older copy, or that of another service
    # a service has loaded the code of plug-ins: of a new file it compares the folder's name alone
    code = {"plugins"}.intersection(other, section_hashes(config), running or stored.get(live_part.STARTED, ()))
    unloaded = here.other_packages(metrics) | {folder.package: "plug-ins" for folder in folders() if "plugins" in other}
    in_use = unloaded.keys() & {_module(config, name) for name in config.evaluators}
    new = {f"{_CODE}{name}" for name in _new_code(compared.config, config, unloaded)}
    restart = {*shared, *(name for name in other if not live_part.is_live(name))} - code | new
    addresses = (name for name in other if name.startswith("alerts.") and live_part.is_live(name))
    live = *_removed_secrets(stored, config), *addresses
    compared = replace(compared, restart=tuple(restart), code=bool(code or in_use) and not new, unlogged=live)
    if unseen:
        return replace(compared, unseen=f"{unseen}; the port itself may have changed")
    if code and not new:
        unseen = "plugins names another folder"
    now, running_now = evaluator_versions(compared.config), here.running_versions(metrics)
    same = {use: versions for use, versions in running_now.items() if f"evaluators.{use[1]}" not in other}
    versions = {use: listed(same[use]) for use in now.keys() & same.keys() if now[use] not in same[use]}
    return replace(compared, unseen=unseen, versions=versions)


def _removed_secrets(stored: Mapping[str, Any], config: Config) -> Iterator[str]:
    """The keys with a secret that judges had, of which the log has only the names, and that the file's judges lack."""
    theirs = stored.get("judges", {})
    for name, judge in config.settings.judges.items():
        lost = theirs.get(name, {}).get("secret", {}).keys() - judge.model_fields_set
        yield from (f"judges.{name}.{key}" for key in lost)


def _new_code(old: Config, new: Config, unloaded: Mapping[str, str]) -> Iterator[str]:
    """The `unloaded` code, by module, of each evaluator that is new, or has a new key: the code that a service has may
    not know it.
    """
    for name, definition in new.settings.evaluators.items():
        then, module = old.settings.evaluators.get(name, {}), _module(new, name)
        is_known = definition.keys() <= then.keys() and definition.get("kind") == then.get("kind")
        if not is_known and module in unloaded:
            yield unloaded[module]


def _module(config: Config, name: str) -> str:
    """The package of an evaluator's code."""
    return type(config.evaluators[name].evaluator).__module__.partition(".")[0]


def change_lines(config: Config, compared: Compared) -> Iterator[str]:
    """The changes, line by line."""
    changes, monitors = compared.changes_by(config), config.settings.monitors
    yield f"{config.source}: valid; compared with {compared.name}"
    yield ""
    if compared.refusal:
        yield f"at present {compared.refusal}"
    if compared.ignored:
        yield f"start      takes {compared.name}, not this file: {compared.ignored}"
    unseen = f", unless keys that only a start reads differ ({compared.unseen})" if compared.unseen else ""
    if not (changes.live or changes.restart or changes.evaluators or compared.code):
        yield f"changes    nothing{unseen or compared.since}"
        return
    if compared.code or (compared.versions and not changes.restart):
        versions = ", which makes new versions of the evaluators below" if compared.versions else ""
        yield f"restart    the next start loads changed code, of evalstream or a plug-in{versions}"
    if changes.restart:
        yield f"restart    {listed(changes.restart)}: {_AT_START}"
    if any(key.startswith("export") for key in changes.restart):
        yield "           a changed exporter continues; a new one first sends all evaluations that the log still has"
    if compared.code and not (compared.versions or changes.evaluators):
        yield "           no version changes: if a plug-in's evaluator now scores otherwise, raise its `revision`"
    if changes.live and changes.restart:
        # what needs new code would need that restart alone, too
        needs_code = any(key.startswith(_CODE) for key in changes.restart)
        why = "" if needs_code else ", as a file is read as a whole; alone, it would need no restart"
        yield f"waits      {listed(changes.live)}: for that restart{why}"
    elif changes.live and not compared.ignored:
        yield f"no restart {listed(changes.live)}: in force seconds after the file is saved{unseen}"
    yield from (f"evaluator  {_evaluator(evaluator)}" for evaluator in changes.evaluators)
    yield from (f"sampling   {_figure(change, 'not judged')}" for change in changes.sampling)
    for change in changes.budgets:
        yield f"budget     {_figure(change, 'no limit')}, in USD{_SPENT if change.before and change.after else ''}"
    spent = _again(compared.config, config, compared.spent, compared.tokens)
    yield from (f"           {line}" for line in (_paid_shares(config, spent) if changes.budgets else ()))
    for change in changes.targets:
        of_each = change.where.startswith(_THRESHOLD)
        name, whose = ("threshold ", "of each score, earlier ones too") if of_each else ("target    ", "of the mean")
        yield f"{name} {_figure(change).removeprefix(_THRESHOLD)} ({whose})"
    yield f"cost       {_money(changes.cost)}"
    yield from (f"           {_money(cost)}" for cost in changes.monitor_costs)
    if compared.since and not (compared.spent or config.settings.traffic) and _bear_on_cost(changes, config):
        yield f"           {compared.uncounted}"
    yield from (f"           {name}: {line}" for name, each in monitors.items() for line in boosts(each.boost, config))
    if changes.calls.before != changes.calls.after:
        yield f"calls      {_figure(changes.calls)}"
    yield from _golden(changes, config, spent)
    rules = {"new": changes.new_rules, "removed": changes.removed_rules, "changed": changes.changed_rules}
    yield from (f"rules      {what}: {listed(names)}" for what, names in rules.items() if names)
    if any(rules.values()):
        yield "           run `evalstream rules` again and reload Prometheus"
    if any(evaluator.before and evaluator.after for evaluator in changes.evaluators):
        yield "past       finished evaluations stay as they are; `evalstream rejudge` judges past traffic again"


def _paid_shares(config: Config, spent: Spent) -> Iterator[str]:
    """The shares of the cost of the expected traffic that the budgets pay for, which the line about the cost omits."""
    settings, needed = config.settings, capacity_of(config, costs_here())
    if needed is not None:
        yield from beyond_daily_budget(config, needed)
    parts = [("all", settings.evaluate.budget, [*settings.monitors.values()])]
    parts += [(name, monitor.budget, [monitor]) for name, monitor in settings.monitors.items()]
    for name, budget, monitors in parts:
        yield from (f"{name}: {line}" for line in beyond_budget(budget, monitors, config, spent))


def _golden(changes: Changes, config: Config, spent: Spent) -> Iterator[str]:
    """The cost of the run of the golden set that new evaluators and versions, or a new set, begin."""
    uses = {use.name for monitor in config.settings.monitors.values() for use in monitor.uses}
    if not {"golden", "golden.path", "golden.interval"} & {*changes.live}:
        uses &= {each.evaluator for each in changes.evaluators if each.after}
    golden, judged, calls, costs = config.settings.golden, list[str](), 0.0, list[float | None]()
    cases = read_cases(Path(golden.path)) if golden is not None and uses else ()
    for name in sorted(uses):
        evaluator, judge = config.evaluators[name].evaluator, config.evaluators[name].judge
        number = len(cases_for(evaluator, cases))
        if judge is None or not number:
            continue
        requests = number * evaluator.rounds * len(config.settings.members(judge))
        (paid, made), guess = spent.get(name, (0.0, 0.0)), known_usd(config, name)
        costs.append(requests * paid / made if made else None if guess is None else number * guess)
        judged.append(name)
        calls += requests
    if judged:
        cost = "a judge has no price" if None in costs else f"≈ {usd(sum(filter(None, costs)))}"
        yield f"golden     ≈ {plural(round(calls), 'judge call')} once, {cost}: the golden set, by {listed(judged)}"


def _bear_on_cost(changes: Changes, config: Config) -> bool:
    """Whether other judges are asked, otherwise, or of more or fewer cases."""
    judged = (each for each in changes.evaluators if each.after and judges_behind(config, each.evaluator))
    return any(judged) or any(key.startswith(("judges", "juries", "cascades", "monitors")) for key in changes.live)


def changes_json(config: Config, compared: Compared) -> str:
    """The same as one JSON object."""
    known = {"configuration": config.source, "compared_with": compared.name, "unseen": compared.unseen or None}
    return indented_json(known | asdict(compared.changes_by(config))) + "\n"


def _evaluator(change: EvaluatorChange) -> str:
    where = f"{change.evaluator} of {change.monitor}"
    if change.before is None:
        return f"{where}: new, version {change.after}, for new subjects"
    if change.after is None:
        return f"{where}: removed, version {change.before}; unfinished evaluations are not made"
    return f"{where}: version {change.before} → {change.after}, for new subjects and unfinished evaluations"


def _figure(change: NumberChange, missing: str = "none") -> str:
    before, after = (
        missing if each is None else f"{each:g}" if isinstance(each, float | int) else each
        for each in (change.before, change.after)
    )
    return f"{change.where}: {before} → {after}"


def _money(cost: NumberChange) -> str:
    no_price = "unknown (a judge has no price)"
    before, after = (usd(of) if isinstance(of, float | int) else no_price for of in (cost.before, cost.after))
    if cost.before == cost.after:
        return f"{after} {cost.where}{'' if cost.after is None else ', the same for both'}"
    return f"{before} → {after} {cost.where}"
