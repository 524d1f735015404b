"""From the file to a checked configuration: every mistake found at once, each as one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from collector import plugins
from collector.config.reading import read
from collector.config.sentences import sentences, unknown
from collector.config.settings import MonitorSettings, Settings
from collector.errors import ConfigError
from collector.evaluate.marks import longest_note
from collector.logs.log import Committed, LogError
from evaluators.evaluator import Evaluator


@dataclass(frozen=True, slots=True)
class Configured:
    """An evaluator of the file, and the name of its judge (None if it needs none)."""

    evaluator: Evaluator[Any]
    judge: str | None


@dataclass(frozen=True, slots=True)
class Config:
    """A whole configuration, checked: every name that is referred to exists."""

    source: str
    settings: Settings
    evaluators: Mapping[str, Configured]
    exporters: Mapping[str, BaseModel]
    """Settings of each exporter, by its name."""


def load(path: Path, environment: Mapping[str, str] | None = None) -> Config:
    """Read and check a configuration file.

    Raises:
        ConfigError: with one line per mistake: file, path in it, what to write instead.
    """
    return check(read(path, environment), str(path))


def check(values: dict[str, Any], source: str) -> Config:
    """Check a configuration given as plain values; `source` is what errors call it."""
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        raise _error(source, sentences(error, Settings)) from None
    mistakes: list[str] = []
    evaluators = {
        name: configured
        for name, definition in settings.evaluators.items()
        if (configured := _evaluator(name, definition, settings, mistakes)) is not None
    }
    for name, monitor in settings.monitors.items():
        mistakes += _monitor_mistakes(name, monitor, settings, evaluators)
        mistakes += _objective_mistakes(name, monitor, evaluators)
    exporters = {
        name: checked
        for name, definition in settings.export.items()
        if (checked := _exporter(name, definition, mistakes)) is not None
    }
    mistakes += _whole_mistakes(settings)
    if mistakes:
        raise _error(source, mistakes)
    return Config(source=source, settings=settings, evaluators=evaluators, exporters=exporters)


def _error(source: str, mistakes: Sequence[str]) -> ConfigError:
    return ConfigError("\n".join(f"{source}: {mistake}" for mistake in mistakes))


def _evaluator(name: str, definition: Mapping[str, Any], settings: Settings, mistakes: list[str]) -> Configured | None:
    where = f"evaluators.{name}"
    kind = definition.get("kind")
    if not isinstance(kind, str):
        mistakes.append(f"{where}.kind: is missing; {unknown('', plugins.names(plugins.EVALUATORS))}")
        return None
    try:
        cls = plugins.evaluator_class(kind)
    except ConfigError as error:
        mistakes.append(f"{where}.kind: {error}")
        return None
    fields = {key: value for key, value in definition.items() if key not in ("kind", "judge")}
    try:
        evaluator = cls.model_validate({"name": name, **fields})
    except ValidationError as error:
        mistakes += sentences(error, cls, ("evaluators", name))
        return None
    judge = _judge_of(where, evaluator, definition.get("judge"), settings, mistakes)
    return Configured(evaluator, judge)


def _judge_of(
    where: str, evaluator: Evaluator[Any], named: object, settings: Settings, mistakes: list[str]
) -> str | None:
    if not evaluator.needs_judge:
        if named is not None:
            mistakes.append(f"{where}.judge: this evaluator asks no judge; leave the key out")
        return None
    known = sorted({*settings.judges, *settings.juries})
    if named is None and len(known) == 1:
        return known[0]
    if named is None:
        mistakes.append(
            f"{where}.judge: is missing; name one of `judges` ({', '.join(known) or 'none is defined yet'})"
        )
    elif named not in known:
        mistakes.append(f"{where}.judge: no judge is called {named!r}; {unknown(str(named), known)}")
    else:
        return str(named)
    return None


def _monitor_mistakes(
    name: str, monitor: MonitorSettings, settings: Settings, evaluators: Mapping[str, Configured]
) -> Iterator[str]:
    known = sorted(settings.evaluators)
    for use in monitor.uses:
        if use.name not in settings.evaluators:
            yield f"monitors.{name}.evaluators: no evaluator is called {use.name!r}; {unknown(use.name, known)}"
    names = [use.name for use in monitor.uses]
    for key, named in (("targets", monitor.alerts.targets), ("objectives", monitor.alerts.objectives)):
        for each in named:
            if each not in names:
                where = f"monitors.{name}.alerts.{key}"
                yield f"{where}: {each!r} is none of this monitor's evaluators; {unknown(each, names)}"
    for each in monitor.boost.low_score:
        found = evaluators.get(each.evaluator)
        if each.evaluator not in settings.evaluators:
            yield (
                f"monitors.{name}.boost.low_score: no evaluator is called {each.evaluator!r}; "
                f"{unknown(each.evaluator, known)}"
            )
        elif found is not None and (found.judge is not None or found.evaluator.scope != "turn"):
            yield (
                f"monitors.{name}.boost.low_score: {each.evaluator} is asked before it is known what is judged; "
                "name one that scores turns and needs no judge"
            )
    yield from _budget_mistakes(name, monitor, settings, evaluators)


def _budget_mistakes(
    name: str, monitor: MonitorSettings, settings: Settings, evaluators: Mapping[str, Configured]
) -> Iterator[str]:
    if not (monitor.budget.limited or settings.evaluate.budget.limited):
        return
    where = f"monitors.{name}.budget" if monitor.budget.limited else "evaluate.budget"
    judges = {each.judge for use in monitor.uses if (each := evaluators.get(use.name)) and each.judge}
    members = {member for judge in judges for member in settings.members(judge)}
    for judge in sorted(members & set(settings.judges)):
        for each in filter(None, (judge, settings.judges[judge].fallback)):
            found = settings.judges.get(each)
            if found is not None and not found.priced:
                yield (
                    f"{where}: what judge {each} costs is not known; "
                    f"write judges.{each}.usd_per_million_input_tokens and usd_per_million_output_tokens"
                )


def _objective_mistakes(name: str, monitor: MonitorSettings, evaluators: Mapping[str, Configured]) -> list[str]:
    return [
        f"monitors.{name}.alerts.objectives: {each!r} has no threshold, so nothing passes; give it one"
        for each in monitor.alerts.objectives
        if each in evaluators and evaluators[each].evaluator.threshold is None
    ]


def _jury_mistakes(settings: Settings) -> Iterator[str]:
    known = sorted(settings.judges)
    for name, jury in settings.juries.items():
        if name in settings.judges:
            yield f"juries.{name}: a judge has this name too; give the jury another"
        for each in jury.judges:
            if each not in settings.judges:
                yield f"juries.{name}.judges: no judge is called {each!r}; {unknown(each, known)}"
        if jury.quorum is not None and jury.quorum > len(jury.judges):
            yield f"juries.{name}.quorum: {jury.quorum} of {len(jury.judges)} judges cannot be; write fewer"


def _source_mistakes(settings: Settings) -> Iterator[str]:
    """A topic holds one kind of thing, and none that this service writes itself."""
    log = settings.log.kafka if settings.log.kind == "kafka" else None
    own = {f"{log.prefix}.{name}" for name in _OWN_TOPICS} if log else set[str]()
    held: dict[tuple[str, str], str] = {}
    for number, source in enumerate(settings.receive.kafka):
        where = f"receive.kafka[{number}]"
        if not (source.traces or source.logs or source.turns):
            yield f"{where}: names no topic; write traces: [otlp_spans], logs: [otlp_logs] or turns: [...]"
        for kind in ("traces", "logs", "turns"):
            for topic in getattr(source, kind):
                others = {held.setdefault((broker, topic), kind) for broker in source.bootstrap_servers} - {kind}
                if others:
                    yield f"{where}.{kind}: {topic} is named under {others.pop()}, too; a topic holds one of the two"
                if log and topic in own and set(log.bootstrap_servers) & set(source.bootstrap_servers):
                    yield f"{where}.{kind}: {topic} is a log of evalstream's own; name the topic that others write"


_OWN_TOPICS = ("spans", "turns", "evaluations", "definitions", "dead_letters", "unlinked")


def _note_mistakes(settings: Settings) -> Iterator[str]:
    """What is committed holds the rates that budgets leave, and Kafka keeps only so much with a commit."""
    limited = [
        name for name, each in settings.monitors.items() if each.budget.limited or settings.evaluate.budget.limited
    ]
    if settings.log.kind == "kafka" and limited:
        from collector.logs.kafka.commits import to_kafka

        try:
            to_kafka(Committed(0, 1 << 50, longest_note(limited).text()))
        except LogError:
            yield (
                f"monitors: the names of the {len(limited)} with a budget, their own or evaluate.budget, are longer "
                "together than Kafka keeps with a commit; shorten them, or give fewer monitors a budget"
            )


def _whole_mistakes(settings: Settings) -> list[str]:
    mistakes: list[str] = []
    if not settings.monitors:
        mistakes.append("monitors: is empty, so nothing would be judged; define one with its evaluators")
    for name, judge in settings.judges.items():
        if judge.fallback is not None and (judge.fallback not in settings.judges or judge.fallback == name):
            others = sorted(set(settings.judges) - {name})
            mistakes.append(f"judges.{name}.fallback: {unknown(judge.fallback, others)}")
    if settings.log.kind == "kafka" and settings.log.kafka is None:
        mistakes.append("log.kafka: is missing; write bootstrap_servers: [host:9092]")
    if settings.receive.otlp_grpc is not None and find_spec("grpc") is None:
        mistakes.append("receive.otlp_grpc: the extra grpc is not installed: pip install 'evalstream[grpc]'")
    mistakes += _jury_mistakes(settings)
    mistakes += _note_mistakes(settings)
    mistakes += _source_mistakes(settings)
    if settings.page is not None and settings.page_auth is None and not settings.page.closed:
        mistakes.append(
            f"page.host: {settings.page.host} lets anybody read who reaches it; write page.auth: {{tokens: [...]}} or "
            "page.tls: {client_ca: ...}, or page.insecure: true where the network keeps others out"
        )
    return mistakes


def _exporter(name: str, definition: Mapping[str, Any], mistakes: list[str]) -> BaseModel | None:
    known = plugins.names(plugins.EXPORTERS)
    if name not in known:
        mistakes.append(f"export.{name}: no exporter is called {name!r}; {unknown(name, known)}")
        return None
    settings: type[BaseModel] = plugins.load(plugins.EXPORTERS, name).Settings
    try:
        return settings.model_validate(definition)
    except ValidationError as error:
        mistakes += sentences(error, settings, ("export", name))
        return None
