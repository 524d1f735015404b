"""A configuration that has been checked, with lookups that many modules share.

In an audit an expensive judge repeats a cheap one's verdicts on a random share, which corrects the means.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict

from pydantic import BaseModel, Field

from collector.config.settings import Settings
from collector.durations import Seconds
from collector.export.prometheus import PrometheusSettings
from collector.export.segments import Dimension
from collector.section import Section
from collector.wording import unknown
from evaluators.evaluator import Evaluator
from evaluators.judges.audited import PATIENCE


class AuditSettings(Section):
    """A second judgement of a random share of an evaluator's subjects, by an expensive judge or another evaluator.

    A corrected mean needs at least 30 audits in a window, better 200.
    """

    judge: str | None = None
    """The expensive judge: a name from `judges`, `juries` or `cascades`. It asks the same questions."""
    evaluator: str | None = None
    """Another evaluator that does the audit with its judge, if this one asks no judge or asks something else."""
    patience: Seconds = Field(default=PATIENCE, gt=0.0, le=3600.0)
    """How long a score waits for its audit. Then it proceeds without, and only one audit at a time is tried until one
    ends in time."""
    share: float = Field(default=0.05, gt=0.0, le=1.0)
    """Share of the scored subjects that is judged again."""


def audit_mistakes(
    where: str, evaluator: Evaluator[Any], judge: str | None, audit: AuditSettings, known: Collection[str]
) -> Iterator[str]:
    """The mistakes in an evaluator's own part of its audit, one sentence each. `known` are judges, juries and
    cascades.
    """
    if (audit.judge is None) == (audit.evaluator is None):
        yield f"{where}: name either the judge of the audit or another evaluator"
    if audit.judge is not None and audit.judge not in known:
        yield f"{where}.judge: {unknown('judge', audit.judge, sorted(known))}"
    if audit.judge is not None and not evaluator.needs_judge:
        yield f"{where}.judge: this evaluator uses no judge; name an evaluator that does, as {where}.evaluator"
    if audit.judge is not None and audit.judge == judge:
        yield f"{where}.judge: {judge} would audit itself; name another judge"
    if evaluator.label_names:
        yield f"{where}: labels are not audited: {evaluator.name} has labels; remove the key"


def auditor_mistakes(
    where: str, scored: Evaluator[Any], name: str, others: Mapping[str, tuple[Evaluator[Any], str | None]]
) -> Iterator[str]:
    """The mistakes in the evaluator that does an audit, one sentence each."""
    if name not in others or name == scored.name:
        yield f"{where}.evaluator: {unknown('evaluator', name, sorted(set(others) - {scored.name}))}"
        return
    auditor, judge = others[name]
    if auditor.scope != scored.scope:
        yield f"{where}.evaluator: {name} scores a {auditor.scope}; name one that scores a {scored.scope}"
    if judge is None:
        yield f"{where}.evaluator: {name} asks no judge, so it can score everything itself; name one that asks a judge"
    if auditor.direction != scored.direction:
        yield f"{where}.evaluator: {name} has another direction; name one with {scored.direction}"


@dataclass(frozen=True, slots=True)
class EvaluatorEntry:
    """An evaluator of a configuration, and the name of its judge (None if it needs none)."""

    evaluator: Evaluator[Any]
    judge: str | None
    audit: AuditSettings | None = None

    @property
    def judges(self) -> tuple[str, ...]:
        """The names of the judges that it asks itself: its own, and that of its audit."""
        return tuple(judge for judge in (self.judge, self.audit.judge if self.audit else None) if judge)


Evaluators = Mapping[str, EvaluatorEntry]
"""The evaluators of a configuration by their names."""


class OptionalLogs(TypedDict):
    """Whether there are the logs of unlinked turns and of judged spans, as `open_logs` takes it."""

    linking: bool
    judged_spans: bool


@dataclass(frozen=True, slots=True)
class Config:
    """A whole configuration, checked: every name that is referred to exists."""

    source: str
    settings: Settings
    evaluators: Evaluators
    exporters: Mapping[str, BaseModel]
    """Settings of each exporter, by its name."""
    warnings: tuple[str, ...] = ()
    """Advice on a valid file: files of `plugins` without a plug-in, searches for redacted text."""
    folder: Path = Path()
    """The folder that the paths of plug-ins are relative to."""

    @property
    def optional_logs(self) -> OptionalLogs:
        """The logs that this configuration has beside those that all have."""
        return OptionalLogs(linking=self.settings.assemble.link is not None, judged_spans="spans" in self.exporters)

    @property
    def prometheus(self) -> PrometheusSettings | None:
        """The exporter that serves /metrics."""
        exporter = self.exporters.get("prometheus")
        return exporter if isinstance(exporter, PrometheusSettings) else None

    @property
    def dimensions(self) -> Sequence[Dimension]:
        """The attributes whose segments have series of their own."""
        return self.prometheus.dimensions if self.prometheus else ()


def without_audits(config: Config) -> Config:
    """The configuration without audits: for subjects that are judged once and compared."""
    evaluators = {name: replace(evaluator, audit=None) for name, evaluator in config.evaluators.items()}
    return replace(config, evaluators=evaluators)


def judges_of(name: str, evaluators: Evaluators) -> tuple[str, ...]:
    """The names of the judges that an evaluator asks, and its auditing evaluator's."""
    configured = evaluators.get(name)
    if configured is None:
        return ()
    auditor = evaluators.get(configured.audit.evaluator or "") if configured.audit is not None else None
    return (*configured.judges, *(auditor.judges if auditor is not None else ()))
