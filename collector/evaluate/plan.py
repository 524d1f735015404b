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
from evaluators.results import Evaluation, Retry, Sampling

_KEYED = "\x1fkeyed"
"""Behind the salt in stored rates: the draws were made with the key."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """An evaluator with the judge that answers it, and that judge's name in the configuration ("": it asks nobody).

    `fallback` is a cheaper judge that takes over near the end of a budget. `rate` and `salt` are the evaluator's own
    where it does not share its monitor's draw. `expected_usd` is what an evaluation probably costs, before any was
    made. `pack` names the evaluators that it asks together with, itself among them; () if it asks alone. `deferred`
    says that its evaluations may wait for hours, for the price of batches. `monitor` tells its evaluations from those
    of an earlier monitor with the same evaluator; "" is the first one. `sharers` are all such monitors that ask for
    the same verdict, this one among them; () if there is no other.
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
        """The identity of its verdicts: the evaluator's name, its version, and the judge's model."""
        return (self.evaluator.name, self.version, self.judge.model)

    @property
    def asks_judge(self) -> bool:
        """Whether a judge is asked, and be it by audits alone: budgets are about these."""
        return self.evaluator.needs_judge or bool(self.judge_name)

    def judge_of(self, *, fallback: bool) -> Judge:
        """The judge to ask."""
        return self.fallback if fallback and self.fallback is not None else self.judge

    def version_by(self, *, fallback: bool) -> str:
        """The version with the judge to ask."""
        return self.fallback_version if fallback and self.fallback_version is not None else self.version

    def evaluation_id(
        self, subject_id: str, revision: str = "1", *, fallback: bool = False, monitor: str | None = None
    ) -> str:
        """The identity of this evaluator's evaluation of a subject: 32 hex digits, the same on every replay.

        `revision` stands for the turns of a conversation. Each monitor has an evaluation of its own, which may repeat
        another one's verdict; `monitor` asks for that of another one.
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
    """The target for a day's mean; rates are planned for it. None: `rate` counts."""
    window_settings: SessionWindowSettings = field(default_factory=SessionWindowSettings)
    end_rule: EndRule = field(default_factory=EndRule)
    strata: Strata = field(default_factory=Strata)
    budget: Budget = field(default_factory=Budget)
    reference_wait: float | None = None
    """Seconds that an evaluation waits for what its subject lacks and a reference may bring; None: it does not."""
    attributes: tuple[str, ...] = ()
    """Names of the application's own attributes, which its evaluations have, too."""
    agent_runs: bool = False
    """Whether it watches the runs of agents inside turns instead of turns."""
    skip_unseen: bool = False
    """Whether turns with pictures or the like that a judge is not shown are skipped by it."""

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

        It is the rate, times the factor, times the boost, and at most 1.
        """
        rate = self.rate
        if assignment.rate is not None:
            rate = assignment.rate
            factor = factor if assignment.asks_judge else 1.0  # what costs nothing is not reduced by a budget
        return min(1.0, rate * factor * boost)

    @property
    def view_settings(self) -> Hashable:
        """The settings that decide how much of a subject a judge is shown."""
        return (self.skip_unseen, self.reference_wait)

    @property
    def reads_content(self) -> bool:
        """Whether more than a turn's key is needed to know that this monitor does not select it."""
        return bool(self.match or self.strata.boosts or self.agent_runs)


def distinguish_users(monitors: Iterable[Monitor]) -> tuple[Monitor, ...]:
    """Distinguish the monitors that use one evaluator and judge, in the ids of their evaluations.

    A verdict is shared where both monitors show the judge the same: pictures or none, a reference waited for or not.
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

    return tuple(
        replace(monitor, assignments=tuple(distinguish(monitor, assignment) for assignment in monitor.assignments))
        for monitor in monitors
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """All monitors, in the order of the configuration, and the salt of the sampling draw.

    `key` is secret: it makes the draws unpredictable for who chooses ids. Earlier releases drew without.
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
        """A monitor's use of an evaluator, by their names; None if it has none."""
        for candidate in self.monitors:
            if candidate.name == monitor:
                for assignment in candidate.assignments:
                    if assignment.evaluator.name == evaluator:
                        return candidate, assignment
        return None

    def successor_of(self, job: "Job") -> "Job | None":
        """A job that became due by another plan, as it is made by this one; None if this has its evaluator no more."""
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
        """The names of the judges in use; "" where an evaluator has none."""
        assignments = [assignment for monitor in self.monitors for assignment in monitor.assignments]
        return frozenset(
            name
            for assignment in assignments
            for name in (assignment.judge_name, assignment.fallback_name or assignment.judge_name)
        )

    @property
    def sample_rates(self) -> SampleRates:
        """The rates and the salt that this plan draws with, and whether with its key."""
        rates: dict[str, float | str] = {"": self.salt + (_KEYED if self.key else "")}
        for monitor in self.monitors:
            rates[monitor.name] = monitor.rate
            own = {f"{monitor.name}/{assignment.evaluator.name}": assignment.rate for assignment in monitor.assignments}
            rates |= {name: rate for name, rate in own.items() if rate is not None}
        return rates

    def drawing_with(self, rates: SampleRates) -> "Plan":
        """The same plan with the rates of another configuration, as far as that had its monitors and evaluators."""

        def assignment(monitor: Monitor, each: Assignment) -> Assignment:
            own = rates.get(f"{monitor.name}/{each.evaluator.name}", None if monitor.name in rates else each.rate)
            return replace(each, rate=own if own is None else float(own))

        def former(monitor: Monitor) -> Monitor:
            return replace(
                monitor,
                rate=float(rates.get(monitor.name, monitor.rate)),
                assignments=tuple(assignment(monitor, assigned) for assigned in monitor.assignments),
            )

        salt = str(rates.get("", self.salt + (_KEYED if self.key else "")))
        key = self.key if salt.endswith(_KEYED) else ""
        return replace(self, monitors=tuple(map(former, self.monitors)), salt=salt.removesuffix(_KEYED), key=key)

    def salt_of(self, assignment: Assignment) -> str:
        """The salt that an evaluator's draws are made with."""
        return keyed_salt(self.key, assignment.salt or self.salt)

    def draw(self, assignment: Assignment, key: str) -> float:
        """The draw of a conversation for an evaluator: below its chance, it is judged."""
        return draw(self.salt_of(assignment), key)

    def selects(self, monitor: Monitor, assignment: Assignment, key: str, factor: float, boost: float) -> bool:
        """Whether a conversation is in the sample of an evaluator while a budget leaves `factor` of the rates."""
        return self.draw(assignment, key) < monitor.probability(assignment, factor, boost)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One evaluation to be made: one evaluator, one subject.

    `replay_point` is that of the oldest record it was made from: the low watermark may not pass it before the
    evaluation is in the ledger. `trigger_offset` is the offset of the record that triggered it, `triggered_at` the time
    (s since the epoch) at which the log took that. `size` is about how many bytes its case takes while it waits.
    `supersedes` are evaluations of fewer turns of the same conversation, and a failed one of which this is the `retry`.
    If `skip` is set, the evaluation is not made, for this reason. `happened_at` is there for a backfill: when its
    subject ended. It is paid for apart from budgets, and not shed. `subject` is what is judged, by its id and revision:
    the evaluation's id is made of them, but for a retry's. `earlier` are the revisions before, each with whether the
    fallback judge was in use.
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
        """Whether it waits for batches. An evaluation that a command has requested does not: its caller waits for
        it.
        """
        return self.assignment.deferred and self.retry is None and self.happened_at is None and self.skip is None

    @property
    def verdict_ids(self) -> tuple[str, ...]:
        """The ids of the evaluations with the same verdict, its own among them, in the monitors' order; () if alone."""
        if self.skip is not None:
            return ()
        return tuple(map(self._sharing, self.assignment.sharers))

    @property
    def first_id(self) -> str:
        """The id that its evaluation has where its monitor is the first one, or the only one, to use the evaluator."""
        return self._sharing("")

    def _sharing(self, monitor: str) -> str:
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
        """The key that the jobs of one pack share: the same subject, at the same record. None: it asks alone."""
        if not self.assignment.pack or self.skip is not None:
            return None
        return (self.monitor.name, self.assignment.pack, self.subject, self.trigger_offset, self.fallback)

    @property
    def judge_name(self) -> str:
        """The name of the judge; "" where the evaluator has none."""
        return self.assignment.fallback_name if self.fallback else self.assignment.judge_name


FALLBACK_ATTRIBUTE = "fallback_judge"
"""The attribute that names the judge where it was a budget's fallback."""


def evaluation_of(job: Job, case: Turn | Conversation, result: Result) -> Evaluation:
    """The record of a job that is done."""
    return make_record(
        job.assignment.evaluator,
        case,
        result,
        evaluation_id=job.evaluation_id,
        evaluator_version=job.assignment.version_by(fallback=job.fallback),
        monitor=job.monitor.name,
        sampling=job.sampling,
        supersedes=job.supersedes,
        retry=job.retry,
        happened_at=job.happened_at,
        attributes=_attributes(job, case),
    )


def repeated(job: Job, case: Turn | Conversation, verdict: Evaluation) -> Evaluation:
    """The record of a job whose verdict another monitor has paid for."""
    return replace(
        verdict,
        evaluation_id=job.evaluation_id,
        monitor=job.monitor.name,
        sampling=job.sampling.with_own_draw(verdict.sampling.own),
        supersedes=job.supersedes,
        retry=job.retry,
        happened_at=job.happened_at,
        attributes=_attributes(job, case),
        usage=None,
        cost_usd=0.0,
        shares=verdict.shares or verdict.evaluation_id,
    )


def _attributes(job: Job, case: Turn | Conversation) -> dict[str, Any]:
    fallback = {FALLBACK_ATTRIBUTE: job.judge.model} if job.fallback else {}
    return {**attributes_of(case, job.monitor.attributes), **job.attributes, **fallback}
