"""The evaluation plan: monitors with their evaluators and judges, ready to use; and a job with its record."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, get_args

from collector.evaluate.budget.windows import Budget
from collector.evaluate.conversations.session_window import EndRule, SessionWindowSettings
from collector.evaluate.recovery.replay_point import ReplayPoint, SampleRates
from collector.evaluate.sampling.draw import UpstreamTrust, draw, keyed_salt
from collector.evaluate.sampling.strata import Strata
from collector.records.attributes import attributes_of, text_at
from collector.records.recorded_turn import TurnFields
from evaluators.cases import Conversation, Json, Scope, Turn
from evaluators.evaluation import Result, make_record
from evaluators.evaluator import Evaluator
from evaluators.identity import make_evaluation_id, retry_id
from evaluators.judge import Judge
from evaluators.judges.audited import Audited
from evaluators.results import Evaluation, Retry, Sampling

_KEYED = "\x1fkeyed"
"""Follows the salt in stored rates if the draws were made with the key."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """An evaluator, its judge, and the judge's name in the configuration ("" for an evaluator without a judge).

    `fallback` is a cheaper judge that takes over near the end of a budget. `rate` and `salt` are set if the evaluator
    does not share its monitor's draw. `expected_usd` is the expected cost of an evaluation before the first is made.
    `pack` names all evaluators that share its question, including itself; () if it asks alone. `deferred` says that its
    evaluations may wait for hours, for the price of batches. `monitor` tells its evaluations from an earlier monitor's
    evaluations with the same evaluator; "" is the first monitor. `sharers` are all monitors that share its verdict,
    including its own; () if there is no other.
    """

    evaluator: Evaluator[Any]
    judge: Judge
    version: str
    """The evaluator's version with this judge, computed once (see `judged_version`)."""
    fallback: Judge | None = None
    fallback_version: str | None = None
    rate: float | None = None
    salt: str | None = None
    expected_usd: float = 0.0
    judge_name: str = ""
    fallback_name: str = ""
    pack: tuple[str, ...] = ()
    deferred: bool = False
    monitor: str = ""
    sharers: tuple[str, ...] = ()

    @property
    def definition(self) -> Hashable:
        """The identity of its verdicts: the name and version of the evaluator, and the model of the judge."""
        return (self.evaluator.name, self.version, self.judge.model)

    @property
    def asks_judge(self) -> bool:
        """Whether a judge is asked, even if only by audits. Budgets limit these evaluators."""
        return self.evaluator.needs_judge or bool(self.judge_name)

    @property
    def audit_version(self) -> str | None:
        """The version of its audits; None if nobody audits it."""
        return self.judge.audit_version(self.evaluator) if isinstance(self.judge, Audited) else None

    def judge_of(self, *, fallback: bool) -> Judge:
        """The judge to ask."""
        return self.fallback if fallback and self.fallback is not None else self.judge

    def version_by(self, *, fallback: bool) -> str:
        """The evaluator's version with the judge to ask."""
        return self.fallback_version if fallback and self.fallback_version is not None else self.version

    def evaluation_id(
        self, subject_id: str, revision: str = "1", *, fallback: bool = False, monitor: str | None = None
    ) -> str:
        """The identity of this evaluator's evaluation of a subject: 32 hex digits, the same on every replay.

        `revision` stands for the turns of a conversation. Each monitor has its own evaluation, even if monitors share
        the verdict; `monitor` asks for the id that another monitor's evaluation has.
        """
        model = self.judge_of(fallback=fallback).model
        monitor = self.monitor if monitor is None else monitor
        part = f"{revision}\x1f{monitor}" if monitor else revision
        return make_evaluation_id(self.evaluator.name, self.version, model, subject_id, part)


@dataclass(frozen=True)  # without slots, for what is cached
class Monitor:
    """The turns that are watched, their rate and their evaluators.

    `match` maps a turn's field, or `attributes.<name>`, to its accepted values; all of them must match.
    `rate` is the probability with which a conversation is judged.
    """

    name: str
    assignments: tuple[Assignment, ...]
    match: Mapping[str, frozenset[str]]
    rate: float = 1.0
    standard_error: float | None = None
    """The standard error that a day's mean should have (`sample: auto`). None if `rate` is fixed."""
    window_settings: SessionWindowSettings = field(default_factory=SessionWindowSettings)
    end_rule: EndRule = field(default_factory=EndRule)
    strata: Strata = field(default_factory=Strata)
    budget: Budget = field(default_factory=Budget)
    reference_wait: float | None = None
    """Seconds that an evaluation waits for a reference with the fields that its subject lacks; None if it does not
    wait."""
    attributes: tuple[str, ...] = ()
    """Names of the application's own attributes; evaluations carry them."""
    agent_runs: bool = False
    """Whether it watches the runs of agents inside turns, instead of turns."""
    skip_unseen: bool = False
    """Whether it skips turns with pictures or other media that the judge is not shown."""

    def of_scope(self, scope: Scope) -> tuple[Assignment, ...]:
        """The assignments whose evaluators judge turns, or conversations."""
        return self._by_scope[scope]

    @cached_property
    def _by_scope(self) -> Mapping[Scope, tuple[Assignment, ...]]:
        scopes: tuple[Scope, ...] = get_args(Scope)
        return {
            scope: tuple(assignment for assignment in self.assignments if assignment.evaluator.scope == scope)
            for scope in scopes
        }

    def matches(self, turn: TurnFields) -> bool:
        """Whether this monitor watches the turn."""
        if (turn.agent_run_of is not None) != self.agent_runs:
            return False
        return not self.match or all(text_at(turn, path) in accepted for path, accepted in self.match.items())

    def probability(self, assignment: Assignment, factor: float, boost: float) -> float:
        """The probability with which an evaluator's subjects are judged while a budget leaves `factor` of the rates.

        The probability is rate × factor × boost, at most 1.
        """
        rate = self.rate
        if assignment.rate is not None:
            rate = assignment.rate
            factor = factor if assignment.asks_judge else 1.0  # a budget does not reduce evaluations that cost nothing
        return min(1.0, rate * factor * boost)

    def with_assignments(self, change: Callable[["Monitor", Assignment], Assignment]) -> "Monitor":
        """The same monitor with changed assignments."""
        return replace(self, assignments=tuple(change(self, assignment) for assignment in self.assignments))

    @property
    def view_settings(self) -> Hashable:
        """The settings that decide how much of a subject a judge is shown."""
        return (self.skip_unseen, self.reference_wait)

    @property
    def reads_content(self) -> bool:
        """Whether this monitor's sampling depends on more than the turn's key."""
        return bool(self.match or self.strata.boosts or self.agent_runs)


def distinguish_users(monitors: Iterable[Monitor]) -> tuple[Monitor, ...]:
    """Distinguish the monitors that use one evaluator and judge, in the ids of their evaluations.

    Monitors share a verdict only if both show the judge the same: with or without pictures, and after the same wait for
    references.
    """
    monitors = tuple(monitors)
    users: dict[Hashable, list[Monitor]] = defaultdict(list)
    for monitor in monitors:
        for assignment in monitor.assignments:
            users[assignment.definition].append(monitor)

    def distinguish(monitor: Monitor, assignment: Assignment) -> Assignment:
        first, *others = users[assignment.definition]
        sharers = (
            "" if user is first else user.name
            for user in (first, *others)
            if user.view_settings == monitor.view_settings
        )
        shared = tuple(sharers) if assignment.asks_judge and others else ()
        name = "" if monitor is first else monitor.name
        return replace(assignment, monitor=name, sharers=shared if len(shared) > 1 else ())

    return tuple(monitor.with_assignments(distinguish) for monitor in monitors)


@dataclass(frozen=True, slots=True)
class Plan:
    """All monitors, in the order of the configuration, and the salt of the sampling draw.

    `key` is secret, so that a sender who chooses ids cannot predict the draws. Earlier releases drew without a key.
    """

    monitors: tuple[Monitor, ...]
    salt: str = "evalstream"
    key: str = ""
    budget: Budget = field(default_factory=Budget)
    """The budget of all monitors together."""
    trust: UpstreamTrust = field(default_factory=UpstreamTrust)
    attributes: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """The application's own attributes of turns, and the keys under which ready-made turns may have them."""

    def assignment_of(self, monitor: str, evaluator: str) -> tuple[Monitor, Assignment] | None:
        """The monitor and its assignment of an evaluator, by their names; None if the monitor does not use it."""
        uses = ((user, assignment) for user in self.monitors for assignment in user.assignments)
        return next((use for use in uses if (use[0].name, use[1].evaluator.name) == (monitor, evaluator)), None)

    def successor_of(self, job: "Job") -> "Job | None":
        """The job that this plan makes of another plan's job; None if this plan no longer has the evaluator."""
        use = self.assignment_of(job.monitor.name, job.assignment.evaluator.name)
        if use is None or use[1].evaluator.scope != job.assignment.evaluator.scope:
            return None
        monitor, assignment = use
        if assignment is job.assignment:
            return job
        fallback = job.fallback and assignment.fallback is not None
        name = job.evaluation_id
        if job.retry is None:
            name = assignment.evaluation_id(*job.subject, fallback=fallback)
        earlier = (
            assignment.evaluation_id(job.subject[0], digest, fallback=reduced and assignment.fallback is not None)
            for digest, reduced in job.earlier
        )
        return replace(
            job, evaluation_id=name, monitor=monitor, assignment=assignment, fallback=fallback,
            supersedes=tuple(dict.fromkeys((*job.supersedes, *earlier))),
        )  # fmt: skip

    @property
    def has_shared_evaluators(self) -> bool:
        """Whether several monitors use one evaluator."""
        return any(assignment.monitor for monitor in self.monitors for assignment in monitor.assignments)

    @property
    def judge_names(self) -> frozenset[str]:
        """The names of the judges in use; "" for evaluators without a judge."""
        return frozenset(
            name
            for assignment in [assignment for monitor in self.monitors for assignment in monitor.assignments]
            for name in (assignment.judge_name, assignment.fallback_name or assignment.judge_name)
        )

    @property
    def sample_rates(self) -> SampleRates:
        """The rates and the salt that this plan draws with, and whether it draws with its key."""
        rates: dict[str, float | str] = {"": self.salt + (_KEYED if self.key else "")}
        for monitor in self.monitors:
            rates[monitor.name] = monitor.rate
            own = {f"{monitor.name}/{assignment.evaluator.name}": assignment.rate for assignment in monitor.assignments}
            rates |= {name: rate for name, rate in own.items() if rate is not None}
        return rates

    def drawing_with(self, rates: SampleRates) -> "Plan":
        """The same plan with the rates of another configuration, where that has the same monitors and evaluators."""

        def assignment(monitor: Monitor, each: Assignment) -> Assignment:
            own = rates.get(f"{monitor.name}/{each.evaluator.name}", None if monitor.name in rates else each.rate)
            return replace(each, rate=own if own is None else float(own))

        def former(monitor: Monitor) -> Monitor:
            return replace(monitor.with_assignments(assignment), rate=float(rates.get(monitor.name, monitor.rate)))

        salt = str(rates.get("", self.salt + (_KEYED if self.key else "")))
        key = self.key if salt.endswith(_KEYED) else ""
        return replace(self, monitors=tuple(map(former, self.monitors)), salt=salt.removesuffix(_KEYED), key=key)

    @property
    def versions(self) -> Mapping[str, Sequence[str | None]]:
        """The version of each evaluator, by its judge and by its fallback, under `monitor/evaluator`."""
        return {
            f"{monitor.name}/{each.evaluator.name}": [each.version, each.fallback_version]
            for monitor in self.monitors
            for each in monitor.assignments
        }

    def with_versions(self, versions: Mapping[str, Sequence[str | None]]) -> "Plan":
        """The same plan with the `versions` that other code has given its evaluators."""

        def former(monitor: Monitor, each: Assignment) -> Assignment:
            version, fallback = versions.get(f"{monitor.name}/{each.evaluator.name}", (None, None))
            return replace(each, version=version or each.version, fallback_version=fallback or each.fallback_version)

        return replace(self, monitors=tuple(monitor.with_assignments(former) for monitor in self.monitors))

    def salt_of(self, assignment: Assignment) -> str:
        """The salt that an evaluator's draws are made with."""
        return keyed_salt(self.key, assignment.salt or self.salt)

    def draw(self, assignment: Assignment, key: str) -> float:
        """The draw of a conversation for an evaluator, which judges it if the draw is below the probability."""
        return draw(self.salt_of(assignment), key)

    def selects(self, monitor: Monitor, assignment: Assignment, key: str, factor: float, boost: float) -> bool:
        """Whether a conversation is in the sample of an evaluator while a budget leaves `factor` of the rates."""
        return self.draw(assignment, key) < monitor.probability(assignment, factor, boost)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One evaluation to be made: one evaluator, one subject.

    `replay_point` belongs to the oldest record that the job was made from: the low watermark may not pass it before the
    evaluation is in the ledger. `trigger_offset` is the offset of the record that triggered the job, `triggered_at` the
    time (s since the epoch) at which the log received that record. `size` is roughly the bytes of memory that its case
    takes while it waits. `supersedes` are the ids of evaluations of fewer turns of the same conversation, and of the
    failed evaluation that this one is the `retry` of. `skip` is the reason why the evaluation is not made, if there is
    one. `happened_at` is set for a backfill, as the time when its subject ended; budgets do not pay backfills, and
    overload does not shed them. `subject` is the id and revision of what is judged; the evaluation's id follows from
    them, except for a retry. `earlier` are the revisions before this one, each with whether the fallback judge was in
    use.
    """

    evaluation_id: str
    monitor: Monitor
    assignment: Assignment
    case: Callable[[], Turn | Conversation]
    replay_point: ReplayPoint
    trigger_offset: int
    triggered_at: float = 0.0
    size: int = 0
    sampling: Sampling = field(default_factory=Sampling)
    fallback: bool = False
    supersedes: tuple[str, ...] = ()
    retry: Retry | None = None
    happened_at: datetime | None = None
    skip: str | None = None
    attributes: Mapping[str, Json] = field(default_factory=dict[str, Json])
    subject: tuple[str, str] = ("", "")
    earlier: tuple[tuple[str, bool], ...] = ()

    @property
    def deferred(self) -> bool:
        """Whether it waits for batches. An evaluation that a command requested does not, because the command waits for
        it.
        """
        return self.assignment.deferred and self.retry is None and self.happened_at is None and self.skip is None

    @property
    def verdict_ids(self) -> tuple[str, ...]:
        """The ids of all evaluations with the same verdict, in the monitors' order; () if it is the only one."""
        return () if self.skip is not None else tuple(map(self.id_for, self.assignment.sharers))

    def id_for(self, monitor: str) -> str:
        """The id of its evaluation for a monitor; for "", the one that it would have if its monitor were the first."""
        name = self.assignment.evaluation_id(*self.subject, fallback=self.fallback, monitor=monitor)
        for _ in range(self.retry.attempt - 1 if self.retry is not None else 0):
            name = retry_id(name)
        return name

    @property
    def judge(self) -> Judge:
        """The judge to ask."""
        return self.assignment.judge_of(fallback=self.fallback)

    @property
    def pack(self) -> tuple[Hashable, ...] | None:
        """The key that the jobs of one pack share: same subject, same record. None if the job asks alone."""
        if not self.assignment.pack or self.skip is not None:
            return None
        return (self.monitor.name, self.assignment.pack, self.subject, self.trigger_offset, self.fallback)

    @property
    def judge_name(self) -> str:
        """The name of the judge; "" for an evaluator without a judge."""
        return self.assignment.fallback_name if self.fallback else self.assignment.judge_name


FALLBACK_ATTRIBUTE = "fallback_judge"
"""The attribute that names the judge if it was a budget's fallback."""


def evaluation_of(job: Job, case: Turn | Conversation, result: Result) -> Evaluation:
    """The record of a job that is done."""
    return make_record(
        job.assignment.evaluator,
        case,
        result,
        evaluator_version=job.assignment.version_by(fallback=job.fallback),
        sampling=job.sampling,
        **_own_fields(job, case),
    )


def repeat_verdict(job: Job, case: Turn | Conversation, verdict: Evaluation) -> Evaluation:
    """The record of a job whose verdict another monitor has paid for."""
    return replace(
        verdict,
        sampling=job.sampling.with_own_draw(verdict.sampling.own),
        usage=None,
        cost_usd=0.0,
        shares=verdict.shares or verdict.evaluation_id,
        **_own_fields(job, case),
    )


def _own_fields(job: Job, case: Turn | Conversation) -> dict[str, Any]:
    """The fields that a record has from its job, whoever made its verdict."""
    fallback = {FALLBACK_ATTRIBUTE: job.judge.model} if job.fallback else {}
    return {
        "evaluation_id": job.evaluation_id,
        "supersedes": job.supersedes,
        "retry": job.retry,
        "happened_at": job.happened_at,
        "monitor": job.monitor.name,
        "attributes": {**attributes_of(case, job.monitor.attributes), **job.attributes, **fallback},
    }
