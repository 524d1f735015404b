"""Renamed and removed keys: files that still have one are read, with a warning that says what to write instead."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from collector.errors import ConfigError

RENAMED: Mapping[str, str] = {
    "alerts.judge_shift": "judge_shift_tolerance", "alerts.min_n": "min_conversations",
    "alerts.no_traffic": "no_traffic_after", "alerts.page": "page_standard_errors",
    "alerts.unscored_share": "max_unscored_share", "alerts.usd_per_hour": "expected_usd_per_hour",
    "alerts.warn": "warn_standard_errors", "alerts.watcher.memory": "history", "assemble.linger": "allowed_lateness",
    "assemble.link.window": "idle_timeout", "assemble.quiet": "idle_timeout",
    "evaluate.budget.hard_cap": "hard_cap_factor", "evaluate.carry_after": "snapshot_after",
    "evaluate.carry_records": "snapshot_after_records", "evaluate.grace": "shutdown_grace",
    "evaluate.open_bytes": "max_open_bytes", "evaluate.open_conversations": "max_open_conversations",
    "evaluate.waiting": "max_waiting", "evaluate.waiting_bytes": "max_waiting_bytes",
    "export.otlp.batch": "batch_size", "export.prometheus.conversation_memory": "conversation_window",
    "export.prometheus.conversations": "max_conversations", "golden.every": "interval", "judges.*.cache": "cache_size",
    "monitors.*.alerts.burns": "burn_rates", "monitors.*.boost.having": "matching",
    "monitors.*.budget.hard_cap": "hard_cap_factor", "monitors.*.end": "end_markers",
    "monitors.*.idle": "idle_timeout", "monitors.*.lateness": "allowed_lateness",
    "page.evaluations": "max_evaluations", "page.hosts": "allowed_hosts", "page.keep": "max_age",
    "page.text": "show_text", "page.text_bytes": "max_text_bytes",
}  # fmt: skip
"""The new name by the path of the old one; `*` is any name."""

REMOVED: Mapping[str, str] = {"receive.shared_records": "traces always share records"}
"""Why a key is no longer needed, by its path."""


def with_current_names(values: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The values with the new names and without removed keys, and a warning for each old one.

    The given values stay as they are.

    Raises:
        ConfigError: a section has the old and the new name of a key.
    """
    current = cast("dict[str, Any]", _copy(values))
    warnings: list[str] = []
    for path, new in RENAMED.items():
        *parents, old = path.split(".")
        for where, section in _sections(current, parents):
            if old not in section:
                continue
            if new in section:
                raise ConfigError(f"{where}.{old}: is now called {new}, which is set as well; keep {new}")
            section[new] = section.pop(old)
            warnings.append(f"{where}.{old} is now called {where}.{new}; rename it")
    for path, why in REMOVED.items():
        *parents, old = path.split(".")
        for where, section in _sections(current, parents):
            if old in section:
                del section[old]
                warnings.append(f"{where}.{old} has no effect any more, because {why}; remove it")
    return current, tuple(warnings)


def _copy(value: Any) -> Any:
    """Copies the mappings and shares the rest, which nothing changes."""
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in cast("Mapping[str, Any]", value).items()}
    return value


def _sections(section: Any, path: list[str], where: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The mappings at a path, each with its own path."""
    if not isinstance(section, dict):
        return  # validation reports it
    mapping = cast("dict[str, Any]", section)
    if not path:
        yield where, mapping
        return
    for name in list(mapping) if path[0] == "*" else [path[0]]:
        yield from _sections(mapping.get(name), path[1:], f"{where}.{name}".lstrip("."))
