"""Which evaluators of a monitor ask their questions together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from collector import plugins
from collector.config.configured import Configured
from collector.config.settings import MonitorSettings, Settings
from collector.wording import suggestion

MOST_OF_A_PACK = 12
"""Evaluators that `pack: auto` puts together: with more questions, chat models begin to answer carelessly."""


def packs_of(monitor: MonitorSettings, evaluators: Mapping[str, Configured]) -> Sequence[Sequence[str]]:
    """The packs of a monitor: those of `packs`, and with `pack: auto` those of everybody else who has company.

    Evaluators have company in whoever judges the same scope by the same judge and is sampled by the same draw.
    """
    packs = [tuple(pack) for pack in monitor.packs]
    if monitor.pack != "auto":
        return packs
    packed = {name for pack in packs for name in pack}
    company: dict[tuple[object, ...], list[str]] = {}
    for use in monitor.uses:
        each = evaluators[use.name]
        if each.judge is not None and each.audit is None and use.name not in packed:
            company.setdefault((each.evaluator.scope, each.judge, use.sample, use.salt), []).append(use.name)
    for names in company.values():
        count = -(-len(names) // MOST_OF_A_PACK)
        ends = [round(len(names) * part / count) for part in range(count + 1)]
        parts = [tuple(names[start:end]) for start, end in pairwise(ends)]
        packs += [part for part in parts if len(part) > 1]
    return packs


def pack_of(name: str, monitor: MonitorSettings, evaluators: Mapping[str, Configured]) -> Sequence[str]:
    """The pack that an evaluator of a monitor is in; () if it asks alone."""
    return next((each for each in packs_of(monitor, evaluators) if name in each), ())


def pack_mistakes(
    name: str, monitor: MonitorSettings, settings: Settings, evaluators: Mapping[str, Configured]
) -> Iterator[str]:
    """What is wrong with the packs of a monitor, one sentence each."""
    where, names = f"monitors.{name}.packs", [use.name for use in monitor.uses]
    packed: set[str] = set()
    for pack in monitor.packs:
        for each in pack:
            if each not in names:
                yield f"{where}: {each!r} is not an evaluator of this monitor; {suggestion(each, names)}"
            if each in packed:
                yield f"{where}: {each} is there twice; keep one of them"
            packed.add(each)
        members = [evaluators[each] for each in pack if each in names and each in evaluators]
        for each in pack:
            if each in evaluators and evaluators[each].judge is None:
                yield f"{where}: {each} uses no judge, so it has no question; remove it"
            if each in evaluators and evaluators[each].audit is not None:
                yield f"{where}: {each} has an audit, which asks for itself; remove it here, or its audit"
        if len({evaluator.evaluator.scope for evaluator in members}) > 1:
            yield f"{where}: {', '.join(pack)} score turns and conversations; make a pack of each"
        if len({evaluator.judge for evaluator in members if evaluator.judge}) > 1:
            yield f"{where}: {', '.join(pack)} ask several judges; make a pack for each judge"
        for judge in sorted(
            {member for evaluator in members if evaluator.judge for member in settings.members(evaluator.judge)}
        ):
            if judge in settings.judges and not _takes_packs(settings.judges[judge].kind):
                yield f"{where}: judge {judge} takes no packs; its class says that it does by `takes_packs = True`"


def _takes_packs(kind: str) -> bool:
    return kind == "openai" or (":" in kind and bool(getattr(plugins.judge_class(kind), "takes_packs", False)))
