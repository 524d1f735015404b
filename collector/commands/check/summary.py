"""A configuration in about ten lines: first the things that need attention, then what is received and what is
judged.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import chain, pairwise
from types import MappingProxyType

from collector.alerting.rules.targets import Target, targets, unalerted
from collector.commands.check import check as plan
from collector.commands.check.capacity import capacity_of, costs_here
from collector.config.configured import Config
from collector.records.json import indented_json
from collector.service.plan_builder import GUESSED_TOKENS, judges_behind
from collector.wording import listed, plural, usd

_MOST = 3
"""Monitors and judges that have a line; of more the number is said."""
_INDENT = 11
"""Columns before the text of a line: what it is about, if it is not the same as before."""
_UNREACHABLE = "now unknown ("


def summary(config: Config, details: Iterable[str], spent: plan.Spent = MappingProxyType({})) -> Iterator[str]:
    """The lines. `details` are the lines of the whole plan; those that ask for attention are repeated."""
    settings = config.settings
    yield f"{config.source}: valid"
    yield from dict.fromkeys(_attention(details))
    yield f"receive    {'; '.join(plan.receivers(config))}"
    monitors = list(settings.monitors.items())
    for name, monitor in monitors[:_MOST]:
        yield f"monitor    {name}: {plan.matched(monitor)}; {plan.samples(monitor)}"
        yield from (f"           {line}" for line in plan.boosts(monitor.boost, config))
    if len(monitors) > _MOST:
        yield f"           and {plural(len(monitors) - _MOST, 'more monitor')}"
    yield from _judges(config, spent)
    yield from _alerts(config)
    page = [] if settings.page is None else [f"page at http://{settings.page.host}:{settings.page.port}/"]
    yield f"out        {', '.join([*settings.export, *page]) or 'nothing: no exporter and no page'}"
    yield f"log        {plan.logs_text(config, brief=True)}"


def plan_json(config: Config, details: Iterable[str]) -> str:
    """The whole plan as one JSON object: its lines by what they are about, and the capacity in figures."""
    lines: dict[str, list[str]] = {}
    about = ""
    for line in details:
        about, text = line[:_INDENT].strip() or about, line[_INDENT:].strip()
        if text and line != f"{config.source}: valid":
            lines.setdefault(about, []).append(text)
    needed = capacity_of(config, costs_here())
    document = {"configuration": config.source, "plan": lines, "capacity": None if needed is None else asdict(needed)}
    return indented_json(document)


def _attention(details: Iterable[str]) -> Iterator[str]:
    """The lines that ask for attention; a cluster that does not answer has one."""
    near = False  # whether a retention is, so that a remedy follows
    for line, following in pairwise((*details, "")):
        near = following.startswith(" ") if line.startswith("retention") else near and line.startswith(" ")
        if line.strip().startswith(_UNREACHABLE):
            yield f"kafka      not checked: {line.strip().removeprefix(_UNREACHABLE).removesuffix(')')}"
        elif line.startswith(("note", "lost", "traces")) or near:
            yield line


def _judges(config: Config, spent: plan.Spent) -> Iterator[str]:
    judges = config.settings.judges
    yield from (f"judge      {name}: {plan.judge_text(judge)}" for name, judge in list(judges.items())[:_MOST])
    if len(judges) > _MOST:
        yield f"           and {plural(len(judges) - _MOST, 'more judge')}"
    calls, more = plan.judge_calls(monitors := config.settings.monitors.values(), config)
    of_turns = plan.asking(monitors, config, "turn")
    if more or of_turns:
        dollars = plan.usd_per_1000(config, spent) if of_turns else None
        cost = "" if dollars is None else f", ≈ {usd(dollars)} ({basis(config, spent)})"
        yield f"           ≈ {calls}{cost} {for_turns(config)}{more}"


def for_turns(config: Config) -> str:
    """The turns that a cost is of; it counts an evaluator of several monitors once."""
    return f"for 1,000 {'matching turns' if len(config.settings.monitors) < 2 else 'turns, if all monitors match them'}"


def basis(config: Config, spent: plan.Spent, paid: str = "by calls since the start") -> str:
    """The source of `usd_per_1000`; `paid` is that of `spent`."""
    asking = {*chain(*plan.asking(config.settings.monitors.values(), config, "turn"))}
    past = f"{paid}, with the same share skipped" if asking & spent.keys() else ""
    if past and any(len(judges_behind(config, name)) != 1 for name in asking & spent.keys()):
        past += ", whichever judges answered"  # whose tokens they were is not counted
    guess = "assuming {:,} tokens in and {} out per evaluation".format(*GUESSED_TOKENS)
    if asking <= spent.keys():
        return past
    return f"{past}; evaluators without calls: {guess}" if past else guess


def _alerts(config: Config) -> Iterator[str]:
    """Targets, and what has none; how small a drop pages is in the details."""
    every = targets(config)
    aims = [f"{_named(target, every)} {target.mean:g}" for target in every if target.mean is not None]
    without = [_named(target, every) for target in unalerted(every)]
    if aims:
        yield f"alerts     if a mean or share gets worse than its target: {', '.join(dict.fromkeys(aims))}"
    if without:
        yield f"           no score alert: {listed(list(dict.fromkeys(without)))} (no threshold written, no target)"


def _named(target: Target, every: Iterable[Target]) -> str:
    """Its evaluator, with the monitor if another monitor has another target for it."""
    alike = all(other.mean == target.mean for other in every if other.evaluator == target.evaluator)
    return target.evaluator if alike else f"{target.monitor}/{target.evaluator}"
