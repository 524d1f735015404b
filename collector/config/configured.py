"""A configuration that has been checked, and lookups that many modules share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from collector.config.audits import AuditSettings
from collector.config.settings import Settings
from evaluators.evaluator import Evaluator


@dataclass(frozen=True, slots=True)
class Configured:
    """An evaluator of the file, and the name of its judge (None if it needs none)."""

    evaluator: Evaluator[Any]
    judge: str | None
    audit: AuditSettings | None = None

    @property
    def judges(self) -> tuple[str, ...]:
        """The names of the judges that it asks itself: its own, and that of its audit."""
        return tuple(judge for judge in (self.judge, self.audit.judge if self.audit else None) if judge)


@dataclass(frozen=True, slots=True)
class Config:
    """A whole configuration, checked: every name that is referred to exists."""

    source: str
    settings: Settings
    evaluators: Mapping[str, Configured]
    exporters: Mapping[str, BaseModel]
    """Settings of each exporter, by its name."""
    warnings: tuple[str, ...] = ()
    """Advice on a valid file: keys with an old name, searches for redacted text."""
    folder: Path = Path()
    """The folder that the paths of plug-ins are relative to."""


def without_audits(config: Config) -> Config:
    """The configuration without audits: for subjects that are judged once and compared."""
    evaluators = {name: replace(evaluator, audit=None) for name, evaluator in config.evaluators.items()}
    return replace(config, evaluators=evaluators)


def judges_of(name: str, evaluators: Mapping[str, Configured]) -> tuple[str, ...]:
    """The names of the judges that an evaluator asks, with those of the evaluator that does its audit."""
    configured = evaluators.get(name)
    if configured is None:
        return ()
    auditor = evaluators.get(configured.audit.evaluator or "") if configured.audit is not None else None
    return (*configured.judges, *(auditor.judges if auditor is not None else ()))
