"""Attributes that a configuration reads: each must be one that turns or evaluations have.

Refuses values that no traffic has, with what to write instead.
"""

from collections.abc import Iterator
from dataclasses import fields
from typing import get_args

from collector import plugins
from collector.config.configured import Config
from collector.config.settings import MonitorSettings
from collector.errors import ConfigError
from collector.records.attributes import OF_EVALUATIONS, RECORDED, STANDARD, is_undeclared
from collector.wording import suggestion, unknown
from evaluators.cases import Incomplete, Turn

_PREFIX = "attributes."
_TEXTS = (str, str | None, Incomplete | None)
_FIELDS = {field.name for field in fields(Turn) if field.type in _TEXTS} | {"tenant", "language"}


def refuse_unknown_attributes(config: Config) -> None:
    """Refuse attributes that no turn or evaluation has.

    Ready-made turns may have any attribute: where a configuration receives some, names of theirs are not refused.

    Raises:
        ConfigError: with one line per name that no turn or evaluation has.
    """
    if sentences := [f"{config.source}: {mistake}" for mistake in _mistakes(config)]:
        raise ConfigError("\n".join(sentences))


def traffic_mistakes(config: Config) -> Iterator[str]:
    """Yields the attributes that no turn or evaluation has, and the monitors that would match nothing.

    Ready-made turns may have any: where a configuration receives some, neither is a mistake.
    """
    yield from _mistakes(config)
    if not receives_ready_made(config):
        yield from _value_mistakes(config)


def receives_ready_made(config: Config) -> bool:
    """Returns whether ready-made turns may arrive, which bring any attributes."""
    receive = config.settings.receive
    return bool(receive.files) or any(settings.turns for settings in receive.kafka)


def _mistakes(config: Config) -> Iterator[str]:
    declared = set(config.settings.assemble.declared_attributes)
    for name, monitor in config.settings.monitors.items():
        for where, path in _paths(name, monitor):
            yield from _path_mistake(where, path, declared, config)
        for attribute in monitor.compare:
            if attribute not in {*STANDARD, *OF_EVALUATIONS, *declared}:
                yield f"monitors.{name}.compare: {_unknown(attribute, {*STANDARD, *OF_EVALUATIONS, *declared})}"
    if not receives_ready_made(config):
        yield from _evaluator_mistakes(config, declared)
    for dimension in config.dimensions:
        known = {*STANDARD, *OF_EVALUATIONS, *declared}
        if dimension.attribute not in known:
            yield f"export.prometheus.segment_by: {_unknown(dimension.attribute, known)}"


def _paths(name: str, monitor: MonitorSettings) -> Iterator[tuple[str, str]]:
    yield from ((f"monitors.{name}.match", path) for path in monitor.match)
    yield from ((f"monitors.{name}.boost.matching", settings.field) for settings in monitor.boost.matching)
    for attribute in monitor.end_markers.attributes:
        yield f"monitors.{name}.end_markers.attributes", f"{_PREFIX}{attribute}"


def _path_mistake(where: str, path: str, declared: set[str], config: Config) -> Iterator[str]:
    if not path.startswith(_PREFIX):
        if path not in _FIELDS:
            hint = f"{_PREFIX}{path}" if path in {*declared, *RECORDED} else ""
            advice = f"write {hint}" if hint else _field_advice(path)
            yield f"{where}: {path!r} is no field that can be matched; {advice}"
        return
    attribute = path.removeprefix(_PREFIX)
    if attribute in {*declared, "language"} or is_undeclared(attribute) or receives_ready_made(config):
        return
    if attribute in _FIELDS:
        yield f"{where}: {attribute} is a field, not an attribute; write {attribute}"
    else:
        yield f"{where}: {_unknown(attribute, {*declared, *RECORDED, 'language'})}"


def _field_advice(path: str) -> str:
    advice = suggestion(path, sorted(_FIELDS))
    if advice.startswith("did you mean"):
        return advice
    return (
        f"{advice}; for an attribute of the application's own, write assemble.attributes: [{path}] and {_PREFIX}{path}"
    )


def _evaluator_mistakes(config: Config, declared: set[str]) -> Iterator[str]:
    used = {use.name for monitor in config.settings.monitors.values() for use in monitor.uses}
    for name in sorted(used & config.evaluators.keys()):
        for path in sorted(config.evaluators[name].evaluator.requires):
            attribute = path.removeprefix("turns.").removeprefix(_PREFIX)
            is_attribute = path.removeprefix("turns.").startswith(_PREFIX)
            if is_attribute and attribute not in declared and not is_undeclared(attribute):
                yield f"evaluators.{name}: {_unknown(attribute, {*declared, *RECORDED})}"


def _unknown(attribute: str, known: set[str]) -> str:
    return (
        f"no turn has the attribute {attribute!r}; {suggestion(attribute, sorted(known))}; the application's own are "
        "declared under assemble.attributes"
    )


def _value_mistakes(config: Config) -> Iterator[str]:
    known = {
        "dialect": ("dialect", plugins.names(plugins.DIALECTS)),
        "tenant": ("tenant", sorted(config.settings.receive.tenants)),
        "incomplete": ("missing reason", get_args(Incomplete)),
    }
    for name, monitor in config.settings.monitors.items():
        for where, field, values in selectors(name, monitor):
            if field in known:
                thing, names = known[field]
                yield from (f"{where}: {unknown(thing, value, names)}" for value in values if value not in names)


def selectors(name: str, monitor: MonitorSettings) -> Iterator[tuple[str, str, list[str]]]:
    """The path in the file, the field and the values that each match and boost of a monitor names."""
    for field, values in monitor.match.items():
        yield f"monitors.{name}.match", field, [values] if isinstance(values, str) else values
    yield from ((f"monitors.{name}.boost.matching", each.field, each.values) for each in monitor.boost.matching)
