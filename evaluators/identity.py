"""Identities of evaluations: the same case, evaluator and judge give the same id, in the service and in a notebook."""

import hashlib
from collections.abc import Iterable
from typing import Any

from evaluators.cases import Conversation, Turn
from evaluators.evaluator import Evaluator
from evaluators.judge import Judge
from evaluators.texts.draw import draw

CASE_DIGEST = "case_digest"
"""The attribute of an evaluation in a file of results that has the `digest_of` its case: ids do not change with it."""


def judged_version(evaluator: Evaluator[Any], model: str) -> str:
    """The version of an evaluator as a judge's model answers it: 12 hex digits that change when scores may.

    Means and evidence are kept by this version: scores of two judges are never averaged. Without a judge it is the
    evaluator's version.
    """
    if not model:
        return evaluator.version
    return hashlib.sha256(f"{evaluator.version}\x1f{model}".encode()).hexdigest()[:12]


def evaluation_id_of(evaluator: Evaluator[Any], case: Turn | Conversation, judge: Judge | None = None) -> str:
    """The identity of an evaluation: 32 hex digits. See `make_evaluation_id`."""
    model = judge.model if judge is not None and evaluator.needs_judge else ""
    return make_evaluation_id(evaluator.name, judged_version(evaluator, model), model, *subject_id_of(case))


def make_evaluation_id(evaluator: str, version: str, model: str, subject_id: str, revision: str = "1") -> str:
    """The identity of an evaluation, from the evaluator's name and version, the judge's model, and the subject.

    `revision` stands for the turns of a conversation. If several monitors of a service use one evaluator, the revision
    of the second and later monitors ends with the monitor's name.
    """
    parts = (evaluator, version, model, subject_id, revision)
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:32]


def retry_id(failed_id: str) -> str:
    """The identity of the evaluation that replaces a failed one, even if its evaluator has changed since.

    So a failed evaluation is made again once, however often that is requested; a failed retry leads on by its own id.
    """
    return hashlib.sha256(f"retry\x1f{failed_id}".encode()).hexdigest()[:32]


def subject_id_of(case: Turn | Conversation) -> tuple[str, str]:
    """The id and the revision of a case, as they go into an evaluation's id."""
    if isinstance(case, Turn):
        return turn_id_of(case), "1"
    return conversation_id_of(case), turns_digest(turn_id_of(turn) for turn in case.turns)


def digest_of(case: Turn | Conversation) -> str:
    """32 hex digits that stand for the content of a case, which may change under the same id."""
    from evaluators.records import to_json

    return hashlib.sha256(to_json(case)).hexdigest()[:32]


def turn_id_of(turn: Turn) -> str:
    """The turn's id; a turn without an id gets 32 hex digits that stand for its content."""
    return turn.turn_id or digest_of(turn)


def link_of(turn: Turn) -> tuple[str, str]:
    """The link of a turn in an evaluation of its conversation: its trace and span ids, or else "" and its own id."""
    return (turn.trace_id, turn.span_id) if turn.trace_id and turn.span_id else ("", turn_id_of(turn))


def conversation_id_of(case: Turn | Conversation) -> str:
    """The id of a conversation; a turn without conversation id is its own conversation."""
    if isinstance(case, Turn):
        return case.conversation_id or case.trace_id or turn_id_of(case)
    return case.conversation_id or (conversation_id_of(case.turns[0]) if case.turns else "")


def case_draw(purpose: str, name: str, case: Turn | Conversation, salt: str = "") -> float:
    """A number in [0, 1) made of the case's id, independent of the draw that sampled the case."""
    return draw(f"{purpose}\x1f{name}\x1f{subject_id_of(case)[0]}", salt=salt)


def turns_digest(turn_ids: Iterable[str]) -> str:
    """32 hex digits that stand for a set of turns, in any order."""
    return hashlib.blake2b("\x1f".join(sorted(turn_ids)).encode(), digest_size=16).hexdigest()
