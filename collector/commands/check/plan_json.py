"""The plan of a configuration as data, as `evalstream check --json` prints it."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from collector.alerting.rules.targets import targets
from collector.commands.check.capacity import capacity_of, costs_here
from collector.config.configured import Config
from collector.config.packs import packs_of
from collector.config.settings import MonitorSettings, PlannedRate, UseSettings
from collector.config.unused_keys import unused_notes
from collector.golden.runner import read_cases
from collector.service.plan_builder import evaluator_version_in

_PRICES = {"usd_per_million_input_tokens", "usd_per_million_output_tokens"}
_OF_A_JUDGE = {"model", "base_url", "concurrency", "fallback", *_PRICES}
_OF_A_BUDGET = {"usd_per_hour", "usd_per_day", "hard_cap_factor"}

Counts = Mapping[tuple[str, str], Mapping[str, float]]
"""Counts by outcome, by monitor and evaluator ("" for the turns themselves)."""


def plan_json(config: Config, counts: Counts | None) -> str:
    """One JSON object; `counts` are the running service's, None where it did not answer."""
    settings = config.settings
    needed = capacity_of(config, costs_here())
    document = {
        "configuration": config.source,
        "log": settings.log.model_dump(mode="json"),
        "receive": settings.receive.model_dump(mode="json"),
        "judges": {name: judge.model_dump(include=_OF_A_JUDGE) for name, judge in settings.judges.items()},
        "cascades": {name: cascade.model_dump(mode="json") for name, cascade in settings.cascades.items()},
        "juries": {name: jury.model_dump(mode="json") for name, jury in settings.juries.items()},
        "monitors": {name: _monitor(name, monitor, config) for name, monitor in settings.monitors.items()},
        "budget": settings.evaluate.budget.model_dump(include=_OF_A_BUDGET),
        "export": list(settings.export),
        "page": None if settings.page is None else f"http://{settings.page.host}:{settings.page.port}/",
        "alerts": [
            {"monitor": target.monitor, "evaluator": target.evaluator, "mean": target.mean}
            for target in targets(config)
        ],
        "golden_cases": None if settings.golden is None else len(read_cases(Path(settings.golden.path))),
        "unused_evaluators": sorted(set(config.evaluators) - _used(config)),
        "notes": list(unused_notes(config)),
        "traffic": None if counts is None else _traffic(counts),
        "capacity": None if needed is None else asdict(needed),
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"


def _monitor(name: str, monitor: MonitorSettings, config: Config) -> dict[str, Any]:
    rate = monitor.rate
    return {
        "match": monitor.match,
        "sample": monitor.sample,
        "standard_error": rate.standard_error if isinstance(rate, PlannedRate) else None,
        "evaluators": [_use(use, name, config) for use in monitor.uses],
        "packs": [list(pack) for pack in packs_of(monitor, config.evaluators)],
        "idle_seconds": monitor.idle_timeout,
        "budget": monitor.budget.model_dump(include=_OF_A_BUDGET),
    }


def _use(use: UseSettings, monitor: str, config: Config) -> dict[str, Any]:
    configured = config.evaluators[use.name]
    return {
        "name": use.name,
        "kind": configured.evaluator.kind,
        "version": evaluator_version_in(config, use.name, monitor),
        "scope": configured.evaluator.scope,
        "judge": configured.judge,
        "audit": configured.audit.model_dump(exclude_none=True) if configured.audit else None,
        "threshold": configured.evaluator.threshold,
        "sample": use.sample,
    }


def _used(config: Config) -> set[str]:
    return {use.name for monitor in config.settings.monitors.values() for use in monitor.uses}


def _traffic(counts: Counts) -> list[dict[str, Any]]:
    return [
        {"monitor": monitor or None, "evaluator": evaluator or None, "counts": dict(outcomes)}
        for (monitor, evaluator), outcomes in counts.items()
    ]
