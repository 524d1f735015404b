"""Packs: the evaluators of a monitor that ask their questions in one request."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from collector import plugins
from collector.config.configured import Evaluators
from collector.config.settings import MonitorSettings, Settings
from collector.wording import not_of_monitor

MOST_OF_A_PACK = 12
"""Evaluators that `pack: auto` puts together: with more questions, chat models begin to answer carelessly."""


def packs_of(monitor: MonitorSettings, evaluators: Evaluators) -> Sequence[Sequence[str]]:
    """The packs of a monitor: those of `packs`, and with `pack: auto` packs of the other evaluators.

    Evaluators share a pack if they have the same scope and judge and are sampled by the same draw.
    """
    packs = [tuple(pack) for pack in monitor.packs]
    if monitor.pack != "auto":
        return packs
    packed = {name for pack in packs for name in pack}
    alike: dict[tuple[object, ...], list[str]] = {}
    for use in monitor.uses:
        evaluator = evaluators[use.name]
        if evaluator.judge is not None and evaluator.audit is None and use.name not in packed:
            alike.setdefault((evaluator.evaluator.scope, evaluator.judge, use.sample, use.salt), []).append(use.name)
    for names in alike.values():
        count = -(-len(names) // MOST_OF_A_PACK)
        ends = [round(len(names) * part / count) for part in range(count + 1)]
        packs += [part for part in [tuple(names[start:end]) for start, end in pairwise(ends)] if len(part) > 1]
    return packs


def pack_of(name: str, monitor: MonitorSettings, evaluators: Evaluators) -> Sequence[str]:
    """The pack that an evaluator of a monitor is in; () if it asks alone."""
    return next((pack for pack in packs_of(monitor, evaluators) if name in pack), ())


def pack_mistakes(name: str, monitor: MonitorSettings, settings: Settings, evaluators: Evaluators) -> Iterator[str]:
    """The mistakes in the packs of a monitor, one sentence each."""
    where, names = f"monitors.{name}.packs", [use.name for use in monitor.uses]
    packed: set[str] = set()
    for pack in monitor.packs:
        yield from not_of_monitor(where, pack, names, settings.evaluators)
        for member in pack:
            if member in packed:
                yield f"{where}: {member} is there twice; keep one of them"
            packed.add(member)
        members = [evaluators[member] for member in pack if member in names and member in evaluators]
        for member in pack:
            if member in evaluators and evaluators[member].judge is None:
                yield f"{where}: {member} uses no judge, so it has no question; remove it"
            if member in evaluators and evaluators[member].audit is not None:
                yield f"{where}: {member} has an audit, which asks for itself; remove it here, or its audit"
        if len({evaluator.evaluator.scope for evaluator in members}) > 1:
            yield f"{where}: {', '.join(pack)} score turns and conversations; make one pack for either"
        if len({evaluator.judge for evaluator in members if evaluator.judge}) > 1:
            yield f"{where}: {', '.join(pack)} ask several judges; make a pack for each judge"
        for judge in sorted(
            {member for evaluator in members if evaluator.judge for member in settings.members(evaluator.judge)}
        ):
            if judge in settings.judges and not _takes_packs(settings.judges[judge].kind):
                yield f"{where}: judge {judge} takes no packs; if it can, set `takes_packs = True` in its class"


def _takes_packs(kind: str) -> bool:
    return kind == "openai" or (":" in kind and bool(getattr(plugins.judge_class(kind), "takes_packs", False)))
