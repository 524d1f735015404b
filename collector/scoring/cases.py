"""The cases in files: every turn, and the conversations that turns with one id make up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from collector.evaluate.marks import Mark
from collector.evaluate.plan import Assignment, Job, Monitor, conversation_key
from collector.evaluate.session import digest_of
from collector.whole_conversation import said_of_whole
from evaluators.cases import Conversation, Turn

MONITOR = Monitor(name="score", assignments=(), match={})
"""What evaluations of files say watched them."""


def jobs_of(turns: Iterable[Turn], assignments: Sequence[Assignment]) -> Iterator[Job]:
    """Every evaluation to be made: each evaluator on each turn, or on each conversation, once."""
    of_turns = [each for each in assignments if each.evaluator.scope == "turn"]
    of_conversations = [each for each in assignments if each.evaluator.scope == "conversation"]
    conversations: dict[str, dict[str, Turn]] = {}
    for turn in turns:
        if of_conversations:
            conversations.setdefault(conversation_key(turn), {})[turn.turn_id] = turn
        for each in of_turns:
            yield _job(each, each.evaluation_id(turn.turn_id), turn)
    for conversation_id, members in conversations.items():
        ordered = tuple(sorted(members.values(), key=_start))
        conversation = Conversation(
            **said_of_whole(ordered), conversation_id=conversation_id, turns=ordered, closed_by="end_of_file"
        )
        for each in of_conversations:
            yield _job(each, each.evaluation_id(conversation_id, digest_of(members)), conversation)


def _job(assignment: Assignment, evaluation_id: str, case: Turn | Conversation) -> Job:
    attributes = {"closed_by": case.closed_by} if isinstance(case, Conversation) else {}
    return Job(
        evaluation_id=evaluation_id,
        monitor=MONITOR,
        assignment=assignment,
        case=lambda: case,
        needs=Mark(0),
        emitted=0,
        attributes=attributes,
    )


def _start(turn: Turn) -> float:
    return turn.started_at.timestamp() if turn.started_at else 0.0
