"""Cases of files: every turn, and the conversations of turns with the same id."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from collector.evaluate.plan import Assignment, Job, Monitor
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.records.turns import conversation_key
from collector.records.whole_conversation import conversation_fields
from evaluators.cases import Conversation, Turn
from evaluators.identity import subject_id_of, turns_digest


def jobs_of(
    turns: Iterable[Turn],
    assignments: Sequence[Assignment],
    declared: tuple[str, ...] = (),
    of_agent_runs: Mapping[str, Collection[bool]] | None = None,
) -> Iterator[Job]:
    """Every evaluation to be made: each evaluator on each turn, or on each conversation, once.

    `declared` are the names of the application's own attributes, `of_agent_runs` says by evaluator whether it scores
    the runs of agents inside turns, turns (unless it says otherwise), or both.
    """
    watched = of_agent_runs or {}
    monitor = Monitor(name="score", assignments=(), match={}, attributes=declared)
    of_turns = [assignment for assignment in assignments if assignment.evaluator.scope == "turn"]
    of_conversations = [assignment for assignment in assignments if assignment.evaluator.scope == "conversation"]
    conversations: dict[str, dict[str, Turn]] = {}
    for turn in turns:
        is_run = turn.agent_run_of is not None
        if of_conversations and not is_run:
            conversations.setdefault(conversation_key(turn), {})[turn.turn_id] = turn
        for assignment in (one for one in of_turns if is_run in watched.get(one.evaluator.name, (False,))):
            yield _job(monitor, assignment, assignment.evaluation_id(turn.turn_id), turn)
    for conversation_id, members in conversations.items():
        ordered = tuple(sorted(members.values(), key=_start))
        conversation = Conversation(
            **conversation_fields(ordered), conversation_id=conversation_id, turns=ordered, closed_by="end_of_file"
        )
        for assignment in of_conversations:
            yield _job(
                monitor, assignment, assignment.evaluation_id(conversation_id, turns_digest(members)), conversation
            )


def _job(monitor: Monitor, assignment: Assignment, evaluation_id: str, case: Turn | Conversation) -> Job:
    attributes = {"closed_by": case.closed_by} if isinstance(case, Conversation) else {}
    return Job(
        evaluation_id=evaluation_id,
        monitor=monitor,
        assignment=assignment,
        case=lambda: case,
        replay_point=ReplayPoint(0),
        trigger_offset=0,
        attributes=attributes,
        subject=subject_id_of(case),
    )


def _start(turn: Turn) -> float:
    return turn.started_at.timestamp() if turn.started_at else 0.0
