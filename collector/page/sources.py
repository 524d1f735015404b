"""Sources of the page beside the logs: functions from the parts of the service that have something to show."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from collector.evaluate.sampling.draw_key import PUBLIC, DrawKey
from collector.page.requests import GateRequest
from collector.statistics.audited_sums import AuditedSums
from collector.statistics.confusion import VerdictAgreement
from evaluators.cases import Conversation, Json, Turn
from evaluators.results import Evaluation


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A part of the traffic that explains a fall, in words, and its `share` of the fall.

    `traffic` is its share of the traffic, `before` and `mean` its mean before and since, `read` three evaluations.
    """

    part: str
    share: float
    traffic: float
    before: float | None
    mean: float
    read: tuple[str, ...]
    first_seen: float | None = None
    """When a value that took over all of the traffic was first seen (s)."""
    with_fall: bool = False
    """Whether that was when the fall began, to ten minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertView:
    """An alert that fires now; with the severity info, a line in its place (see `not_evaluated`).

    `since` is in seconds since the epoch; `evaluator` None means the whole monitor.
    """

    name: str
    severity: Literal["page", "warning", "info"] = "page"
    monitor: str | None = None
    evaluator: str | None = None
    summary: str = ""
    since: float | None = None
    causes: tuple[Cause, ...] = ()
    runbook: str | None = None
    dashboard: str | None = None
    """Addresses (http or https) of what to do, and of the dashboard that shows it."""


def not_evaluated(name: str, within: float) -> AlertView:
    """The line in place of alerts that a process has not evaluated since its start; it does so `within` (s)."""
    summary = f"not evaluated since the start; one that fires is here in about {within:g} s"
    return AlertView(name=name, severity="info", summary=summary)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetView:
    """Money that may be spent in any `period` (hour or day), and that was in the last. `monitor` None means all.

    `spent_usd` is None while it is not known yet, as in the first seconds of a process.
    """

    monitor: str | None = None
    period: str
    limit_usd: float
    spent_usd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DropView:
    """Records that this process could not process, by stage and reason, since its start."""

    stage: str
    reason: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeferredView:
    """Evaluations of this process that wait for batches: not submitted yet, and submitted; the oldest one's age, s.

    `batches` are under way.
    """

    gathering: int
    submitted: int
    oldest: float
    batches: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficView:
    """A monitor's turns since the start, by outcome; the monitor "" counts the turns that no monitor watches.

    `evaluations` are those without a new record, by evaluator and by why: sampled_out, waiting, judged_already (such as
    before a kill). `resumed` ones, recorded or not, were left unfinished by another process, which counted their turns.
    """

    monitor: str
    counts: dict[str, int]
    evaluations: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])


@dataclass(frozen=True, slots=True)
class Traffic:
    """The turns of all monitors; or, in a sentence, the reason why this process does not know them."""

    monitors: Sequence[TrafficView] = ()
    unknown: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseView:
    """A version compared with its baseline by one evaluator. `started` in seconds since the epoch.

    Each pair is of the baseline and the version: means, effective numbers of conversations, and `lost`, the shares of
    cases without a score.
    """

    monitor: str
    evaluator: str
    attribute: str
    within: str
    baseline: str
    version: str
    started: float
    means: tuple[float | None, float | None]
    conversations: tuple[float, float]
    difference: float | None
    low: float | None
    high: float | None
    method: str | None
    state: str
    lost: tuple[float, float] = (0.0, 0.0)
    beside: bool = False
    """Whether neither came after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleView:
    """The results of people's labels for one monitor's scores: `sums` correct the mean, unless it is `withheld`.

    With `correct_audits` that is the mean by audits, else the judge's.
    """

    withheld: str
    sums: AuditedSums
    correct_audits: bool = False
    agreements: Mapping[str, VerdictAgreement]
    """By segment; "" is all of them."""
    biases: Sequence[str] = ()
    """The judge's biases, and the labels that the mean leaves out or that were drawn otherwise, in sentences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationView:
    """The configuration that runs: its number, 0 if it has none, and when it was taken (s since the epoch)."""

    number: int
    since: float
    by_segment: bool = False
    """Whether Prometheus' alerts are on segments: then the page, which knows the whole, does not know what fires."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Functions that return the current values; None where this process has none."""

    alerts: Callable[[], Sequence[AlertView]] | None = None
    configuration: Callable[[], ConfigurationView] | None = None
    releases: Callable[[], Sequence[ReleaseView]] | None = None
    gate: Callable[[GateRequest], Mapping[str, Json] | None] | None = None
    """The decision on a version; None of an attribute that no monitor compares."""
    questions: Callable[[Evaluation, Turn | Conversation], Awaitable[Mapping[str, Json] | None]] | None = None
    """The questions of an evaluation; None where its evaluator is gone, and no function where texts are not stored."""
    budgets: Callable[[], Sequence[BudgetView]] | None = None
    dead_letters: Callable[[], Sequence[DropView]] | None = None
    deferred: Callable[[], DeferredView | None] | None = None
    people: Callable[[], Mapping[tuple[str, str], PeopleView]] | None = None
    """By monitor and evaluator."""
    traffic: Callable[[], Traffic] = Traffic
    draw_key: DrawKey = PUBLIC
    """Draws what people are asked to label."""
