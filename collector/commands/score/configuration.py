"""The configuration of `evalstream score`: the file's, or one made from the options if there is no file."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from collector import plugins
from collector.config.configured import Config
from collector.config.loading import check, judge_of_environment
from collector.config.settings import MonitorSettings
from collector.errors import ConfigError

WITHOUT_FILE = "--evaluator"
"""The source of a configuration that options and environment variables make."""


def without_file(kinds: Sequence[str], criteria: str | None, environment: Mapping[str, str]) -> Config:
    """Evaluators of these kinds, with the judge that the environment names as for the `openai` library.

    Raises:
        ConfigError: no kind is given, a kind is unknown, or it needs more than `criteria`.
    """
    if not kinds:
        raise ConfigError(
            "evalstream.yaml: no such file; write one with evalstream init, or name a kind of evaluator: "
            '--evaluator g_eval --criteria "The answer is right and complete."'
        )
    evaluators: dict[str, Any] = {}
    for kind in kinds:
        cls = plugins.evaluator_class(kind, None)
        fields = {name: value for name, value in cls.example.items() if name == "evaluation_params"}
        own_criteria = {"criteria": criteria} if criteria is not None and "criteria" in cls.model_fields else {}
        evaluators[kind] = {"kind": kind, **fields, **({"judge": "main"} if cls.needs_judge else {}), **own_criteria}
    judges = {"main": judge_of_environment(environment)}
    return check({"judges": judges, "evaluators": evaluators}, WITHOUT_FILE, folder=Path(), complete=False)


def with_a_monitor(config: Config, named: Sequence[str] = ()) -> Config:
    """The configuration, with a monitor for those `named` evaluators that none uses; without monitors, for all."""
    monitors = config.settings.monitors
    used = {use.name for monitor in monitors.values() for use in monitor.uses}
    added = [name for name in config.evaluators if name not in used and (name in named or not monitors)]
    if not added:
        return config
    monitors = {**monitors, "--evaluator": MonitorSettings(evaluators=[*added])}
    return replace(config, settings=config.settings.model_copy(update={"monitors": monitors}))
