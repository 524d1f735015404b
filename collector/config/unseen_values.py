"""Refuses values that no traffic has, with what to write instead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from collector import plugins
from collector.config.attribute_names import receives_ready_made
from collector.config.configured import Config
from collector.config.settings import MonitorSettings
from collector.errors import ConfigError
from collector.wording import unknown
from evaluators.cases import Incomplete


def refuse_unseen_values(config: Config) -> None:
    """Refuse monitors that would match nothing.

    Ready-made turns may have any value: where a configuration receives some, nothing is refused.

    Raises:
        ConfigError: with one line per value that no turn has.
    """
    mistakes = [] if receives_ready_made(config) else list(_value_mistakes(config))
    if mistakes:
        raise ConfigError("\n".join(f"{config.source}: {mistake}" for mistake in mistakes))


def _value_mistakes(config: Config) -> Iterator[str]:
    known = {
        "dialect": ("dialect", plugins.names(plugins.DIALECTS)),
        "tenant": ("tenant", sorted(config.settings.receive.tenants)),
        "incomplete": ("missing reason", get_args(Incomplete)),
    }
    for name, monitor in config.settings.monitors.items():
        for where, field, values in _wanted(name, monitor):
            if field in known:
                thing, names = known[field]
                yield from (f"{where}: {unknown(thing, value, names)}" for value in values if value not in names)


def _wanted(name: str, monitor: MonitorSettings) -> Iterator[tuple[str, str, list[str]]]:
    """Yields the path in the file, the field and the values that each match names."""
    for field, values in monitor.match.items():
        yield f"monitors.{name}.match", field, [values] if isinstance(values, str) else values
    for settings in monitor.boost.matching:
        yield f"monitors.{name}.boost.matching", settings.field, settings.values
