"""The one place that builds jobs: for turns, closed windows, requests, commands, and jobs of another log. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from collector.evaluate.conversations.session_window import ClosedRevision, WindowResult
from collector.evaluate.plan import FALLBACK_ATTRIBUTE, Assignment, Job, Monitor, Plan
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.evaluate.retry.request import BackfillRequest, PastRequest
from collector.evaluate.transfer.transfer_records import TransferredJob
from collector.records.recorded_turn import RecordedTurn
from collector.records.whole_conversation import conversation_fields
from evaluators.cases import Conversation, Json, Turn
from evaluators.identity import CASE_DIGEST, digest_of, subject_id_of
from evaluators.results import Retry, Sampling

_NO_ATTRIBUTES: Mapping[str, Json] = {}
_FIRST_REVISION = "1"


class Trigger(NamedTuple):
    """The record at `offset` that makes evaluations due. `at` is when the log received it (s since the epoch).

    A replay from `replay_point` makes the same evaluations due again. `size` is roughly the bytes of memory that their
    case takes while it waits. `seen_at` is where a turn that came before was first, in the log or at a former owner.
    """

    replay_point: ReplayPoint
    offset: int
    at: float
    size: int
    seen_at: int | None = None


NO_TRIGGER = Trigger(ReplayPoint(0), 0, 0.0, 0)
"""The trigger of jobs that commands make, without a log record."""


class StratifiedTurn(NamedTuple):
    """A turn as one monitor sees it. `key` is its conversation's key; `boost` is its stratum's factor on the rate."""

    turn: RecordedTurn
    key: str
    boost: float
    stratum: str
    trigger: Trigger


class ClosedConversation(NamedTuple):
    """A closed window, with the case, the attributes and the trigger that the jobs of all its evaluators share."""

    result: WindowResult
    case: Callable[[], Conversation]
    attributes: Mapping[str, Json]
    trigger: Trigger


def turn_job(
    monitor: Monitor,
    assignment: Assignment,
    stratified: StratifiedTurn,
    *,
    chance: float,
    upstream: float | None,
    fallback: bool,
) -> Job:
    """The job of a turn. The turn was drawn with probability `chance` here, and with probability `upstream` by earlier
    samplers; `upstream` is None if it is unknown.
    """
    turn = stratified.turn
    return _job(
        monitor, assignment, (turn.turn_id, _FIRST_REVISION), lambda: turn.turn, stratified.trigger,
        _sampling(chance, stratified.stratum, upstream, has_id=turn.conversation_id is not None), fallback=fallback,
    )  # fmt: skip


def closed_conversation(monitor: Monitor, result: WindowResult, offset: int, triggered_at: float) -> ClosedConversation:
    """A window of a monitor that the record at `offset` closed."""
    attributes: dict[str, Json] = {"closed_by": result.closed_by, "turns": len(result.turns)}
    if result.missing_messages:
        attributes |= {"gaps": result.missing_messages, "incomplete": True}
    return ClosedConversation(
        result,
        _unpacker(result, attributes, monitor.attributes),
        attributes,
        Trigger(result.replay_point, offset, triggered_at, sum(len(packed.data) for _, packed in result.turns)),
    )


def conversation_job(
    monitor: Monitor, assignment: Assignment, closed: ClosedConversation, *, chance: float, supersedes: tuple[str, ...]
) -> Job:
    """The job of a closed window that was drawn with `chance`."""
    result = closed.result
    return _job(
        monitor, assignment, (result.conversation_id, result.closed_revision.digest), closed.case, closed.trigger,
        _sampling(chance, result.stratum, result.upstream, has_id=True), fallback=result.closed_revision.fallback,
        supersedes=supersedes, attributes=closed.attributes,
        earlier=tuple((revision.digest, revision.fallback) for revision in result.supersedes),
    )  # fmt: skip


def requested_job(
    monitor: Monitor, assignment: Assignment, request: PastRequest, trigger: Trigger, *, fallback: bool
) -> Job:
    """The job of a request for a retry or a backfill. A fallback judge never makes a backfill."""
    case = request.case
    past = request if isinstance(request, BackfillRequest) else request.failed
    return _job(
        monitor,
        assignment,
        subject_id_of(case),
        lambda: case,
        trigger,
        past.sampling,
        # The id of a backfill follows from the service's definition, not from the command's, so that the evaluation is
        # made only once even if the configurations of the two differ.
        evaluation_id=None if isinstance(request, BackfillRequest) else request.evaluation_id,
        fallback=fallback and request.happened_at is None,
        supersedes=request.supersedes,
        retry=None if isinstance(request, BackfillRequest) else request.retry,
        happened_at=request.happened_at,
        attributes={name: value for name, value in past.attributes.items() if name != FALLBACK_ATTRIBUTE},
    )


def command_job(
    monitor: Monitor,
    assignment: Assignment,
    case: Turn | Conversation,
    *,
    evaluation_id: str | None = None,
    sampling: Sampling | None = None,
    attributes: Mapping[str, Json] = _NO_ATTRIBUTES,
    digest: str = "",
) -> Job:
    """The job of a command. The command has the case itself, so no record of a log makes the job due.

    The evaluation notes the case's content, since a later run may find another one under the same id. `digest` is the
    `digest_of` the case, for callers with many jobs of one case.
    """
    return _job(
        monitor, assignment, subject_id_of(case), lambda: case, NO_TRIGGER, sampling or Sampling(), fallback=False,
        evaluation_id=evaluation_id, attributes={**attributes, CASE_DIGEST: digest or digest_of(case)},
    )  # fmt: skip


def transferred_job(monitor: Monitor, assignment: Assignment, due: TransferredJob, replay_point: ReplayPoint) -> Job:
    """A job that was due in another log; in this log the record at `replay_point` makes it due."""
    return _job(
        monitor, assignment, subject_id_of(due.case), lambda: due.case,
        Trigger(replay_point, replay_point.offset, due.triggered_at, due.size), due.sampling,
        evaluation_id=None if due.retry is None else due.evaluation_id, fallback=due.fallback,
        supersedes=due.supersedes, retry=due.retry, happened_at=due.happened_at, attributes=due.attributes,
    )  # fmt: skip


def _job(
    monitor: Monitor,
    assignment: Assignment,
    subject: tuple[str, str],
    case: Callable[[], Turn | Conversation],
    trigger: Trigger,
    sampling: Sampling,
    *,
    fallback: bool,
    evaluation_id: str | None = None,
    supersedes: tuple[str, ...] = (),
    retry: Retry | None = None,
    happened_at: datetime | None = None,
    attributes: Mapping[str, Json] = _NO_ATTRIBUTES,
    earlier: tuple[tuple[str, bool], ...] = (),
) -> Job:
    """A job. Without `evaluation_id` the id follows from the subject. With no fallback judge, `fallback` is ignored."""
    fallback = fallback and assignment.fallback is not None
    if evaluation_id is None:
        evaluation_id = assignment.evaluation_id(subject[0], subject[1], fallback=fallback)
    return Job(
        evaluation_id=evaluation_id, monitor=monitor, assignment=assignment, case=case,
        replay_point=trigger.replay_point, trigger_offset=trigger.offset, triggered_at=trigger.at, size=trigger.size,
        sampling=sampling, fallback=fallback, supersedes=supersedes, retry=retry, happened_at=happened_at,
        attributes=attributes, subject=subject, earlier=earlier,
    )  # fmt: skip


def superseded_ids(
    plan: Plan, past: Iterable[Plan], monitor: Monitor, assignment: Assignment, result: WindowResult
) -> Sequence[str]:
    """The ids of the evaluations of a window's earlier revisions, under this plan and under `past` plans."""
    key = result.conversation_id
    ids = [
        _revision_id(assignment, key, revision)
        for revision in result.supersedes
        if plan.selects(monitor, assignment, key, revision.rate, revision.boost)
    ]
    return [*ids, *_ids_by_past_definitions(past, monitor, assignment, result)]


def _ids_by_past_definitions(
    past: Iterable[Plan], monitor: Monitor, assignment: Assignment, result: WindowResult
) -> Iterable[str]:
    """The ids of evaluations of earlier revisions, under those `past` plans that define the evaluator otherwise."""
    names: dict[str, None] = {}
    for plan in past:
        use = plan.assignment_of(monitor.name, assignment.evaluator.name)
        if use is not None and (use[1].definition, use[1].monitor) != (assignment.definition, assignment.monitor):
            names |= dict.fromkeys(
                _revision_id(use[1], result.conversation_id, revision) for revision in result.supersedes
            )
    return names


def _revision_id(assignment: Assignment, conversation_id: str, revision: ClosedRevision) -> str:
    fallback = revision.fallback and assignment.fallback is not None
    return assignment.evaluation_id(conversation_id, revision.digest, fallback=fallback)


def _sampling(chance: float, stratum: str, upstream: float | None, *, has_id: bool) -> Sampling:
    return Sampling(
        probability=chance * (1.0 if upstream is None else upstream),
        stratum=stratum,
        unit="conversation" if has_id else "trace",
        upstream="unknown" if upstream is None else upstream,
    )


def _unpacker(
    result: WindowResult, attributes: Mapping[str, Json], declared: tuple[str, ...]
) -> Callable[[], Conversation]:
    """A function that unpacks the conversation.

    It is called only when the job has a slot: an unpacked conversation takes several times the memory of a packed one.
    """

    def unpack() -> Conversation:
        turns = tuple(packed.unpack(turn_id, result.conversation_id) for turn_id, packed in result.turns)
        # of each declared attribute the value in the latest turn that has it
        own = {name: turn.attributes[name] for turn in turns for name in declared if name in turn.attributes}
        return Conversation(
            **conversation_fields(turns), conversation_id=result.conversation_id, turns=turns,
            closed_by=result.closed_by, revision=result.revision,
            attributes={**own, **attributes},
        )  # fmt: skip

    return unpack
