"""Evaluation of one case by one evaluator: the one place where an exception becomes a failure.

The record of an evaluation is made from its result: it goes into a log, a file or an exporter.
"""

import asyncio
import logging
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from evaluators.answers.trivial_answer import EMPTY_JSON, is_trivial_answer, worst_score
from evaluators.asking.judge_input import is_missing
from evaluators.asking.sight import NO_VIEW, view_of
from evaluators.asking.transcript import MAX_INCOMPLETE, TranscriptSettings
from evaluators.cases import Conversation, Json, Turn
from evaluators.errors import BrokenPromise, EvaluationError, NotApplicable
from evaluators.evaluator import Evaluator
from evaluators.identity import conversation_id_of, link_of, turn_id_of
from evaluators.judge import Judge, NoJudge
from evaluators.judges.audited import Audited
from evaluators.judges.cascade import Cascade
from evaluators.judges.jury import Jury, MemberOutcome, combine_outcomes, common_stamp
from evaluators.judges.metered import Metered, Sighted
from evaluators.judges.wrapper import members_of
from evaluators.promises import FAULTS, class_breaches, definition_breaches, is_built_in, place_of
from evaluators.records import from_json, to_json
from evaluators.results import (
    ErrorDetail,
    Evaluation,
    Failure,
    InvalidScore,
    JudgeStamp,
    Method,
    Outcome,
    Retry,
    Sampling,
    Score,
    Skipped,
    SkipReason,
    Subject,
    Usage,
    code_of,
)

logger = logging.getLogger(__name__)

AUDIT_TIMEOUT = "audit_timeout"
"""The reason in place of an audit's score if the auditor did not answer in time."""
_LONGEST_MESSAGE = 500
_INTERNAL = "internal_error"
_TRUNCATED = "truncated_fields"
"""The attribute of a turn that names its possibly cut fields."""
_LONGEST_EXPLANATION = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of running an evaluator. `judge` and `usage` are None if no judge was asked; `cost_usd` is in US
    dollars, None if no price is known, 0 if nothing was paid. The times are `now` before and after the evaluation.
    """

    outcome: Outcome
    judge: JudgeStamp | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    started_at: datetime
    ended_at: datetime


def utc_now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


async def evaluate(
    evaluator: Evaluator[Any],
    case: Turn | Conversation,
    judge: Judge | None = None,
    *,
    now: Callable[[], datetime] = utc_now,
    skip_unseen: bool = False,
) -> Result:
    """Evaluate a case. `judge` may be left out for an evaluator that asks no judge.

    It raises only on cancellation and for the caller's mistakes below: any fault in an evaluator or a judge becomes a
    `Failure`. A case that cannot be evaluated is skipped without asking the judge: `incomplete: …` where the trace
    lacks its texts (for a conversation: the texts of more turns than `max_incomplete` permits; with fewer it is judged
    by its other turns, and the score's details have `incomplete_turns`), `application_error` if the application failed
    and answered nothing, `missing_field: …` if the case lacks a field that the evaluator needs. An answer without a
    word gets the worst score from evaluators of its quality, and no judge is asked. The judge learns of attachments
    that it is not shown, and the score's details have their number, `unseen_media`; with `skip_unseen` such a case is
    skipped as `unseen_media: …`.

    Raises:
        TypeError: the case is not of the evaluator's scope, or an argument is not what its name says.
    """
    _check_arguments(evaluator, case, judge)
    if isinstance(judge, Audited):
        return await evaluate_audited(evaluator, case, judge, case, now=now, skip_unseen=skip_unseen)
    judge = NoJudge() if judge is None else judge
    started = now()
    meters: list[Metered] = []
    try:
        meters += map(Metered, members_of(judge))
        outcome, stamp = await _evaluate(evaluator, case, judge, meters, skip_unseen)
    except FAULTS as error:  # a plug-in's judge that breaks the port's promises
        outcome, stamp = _internal(evaluator, error), next((meter.stamp for meter in meters if meter.stamp), None)
    usage, costs = Usage(), list[float | None]()
    for meter in meters:
        usage += meter.usage
        costs += meter.costs
    return Result(
        outcome=outcome,
        judge=stamp,
        usage=usage if stamp is not None else None,
        cost_usd=_sum_of(costs),
        started_at=started,
        ended_at=now(),
    )


async def evaluate_audited(
    evaluator: Evaluator[Any],
    case: Turn | Conversation,
    judge: Audited,
    audited_case: Turn | Conversation,
    *,
    now: Callable[[], datetime] = utc_now,
    skip_unseen: bool = False,
) -> Result:
    """Evaluate a case, and again by the auditor if it is drawn for an audit and has a score.

    `audited_case` is the same case as the auditor may see it. The result is the first evaluation's, with the cost of
    both and the audit in the score's details: its `score` and `passed` (or the `reason` why it has none), the
    `probability` of the draw, the auditor's `model` and `version`, and the `input_tokens` and `calls` of its usage.
    """
    first = await evaluate(evaluator, case, judge.judge, now=now, skip_unseen=skip_unseen)
    if not isinstance(first.outcome, Score) or not judge.audits(evaluator, case):
        return first

    auditor = judge.evaluator or evaluator

    async def make() -> Result:
        return await evaluate(auditor, audited_case, judge.auditor, now=now, skip_unseen=skip_unseen)

    second = await judge.in_time(make)
    audit: dict[str, Json] = {"probability": judge.share, "model": judge.auditor.model}
    audit["version"] = judge.audit_version(evaluator)
    if second is None:
        audit["reason"] = AUDIT_TIMEOUT
        return replace(first, outcome=replace(first.outcome, details={**first.outcome.details, "audit": audit}))
    usage = second.usage or Usage()
    audit |= {"input_tokens": usage.input_tokens, "calls": usage.calls}
    match second.outcome:
        case Score():
            audit |= {"score": second.outcome.value, "passed": auditor.verdict(second.outcome)}
        case Skipped():
            audit["reason"] = code_of(second.outcome.reason)
        case Failure():
            audit["reason"] = second.outcome.type
    # without an answer or a known cost, nothing was paid
    paid = [each for each in (first, second) if each.cost_usd is not None or (each.usage and each.usage.calls)]
    return replace(
        first,
        outcome=replace(first.outcome, details={**first.outcome.details, "audit": audit}),
        usage=second.usage if first.usage is None else first.usage + usage,
        cost_usd=_sum_of([each.cost_usd for each in paid]),
        ended_at=second.ended_at,
    )


def evaluate_sync(evaluator: Evaluator[Any], case: Turn | Conversation, judge: Judge | None = None) -> Result:
    """Evaluate a case from code that is not asynchronous. See `evaluate`.

    Raises:
        TypeError: see `evaluate`.
        RuntimeError: an event loop is running here, as in a notebook.
    """
    refuse_in_event_loop("evaluate_sync(…)", "await evaluate(…)")
    return asyncio.run(evaluate(evaluator, case, judge))


def refuse_in_event_loop(function: str, remedy: str) -> None:
    """Raise a RuntimeError that names the remedy if an event loop is running here, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(f"{function} cannot run inside an event loop, as in a notebook or an async test; write {remedy}")


def _check_arguments(evaluator: object, case: object, judge: object) -> None:
    if not isinstance(evaluator, Evaluator):
        kind = evaluator.__name__ if isinstance(evaluator, type) else type(evaluator).__name__
        raise TypeError(f"an evaluator is needed first, like GEval(name=…), not {kind}")
    if not isinstance(case, Turn | Conversation) or isinstance(case, Turn) != (evaluator.scope == "turn"):
        raise TypeError(f"{evaluator.name} scores a {evaluator.scope}, not a {type(case).__name__}")
    check_judge(cast("Evaluator[Any]", evaluator), judge)


def check_judge(evaluator: Evaluator[Any], judge: object) -> None:
    """Raise a TypeError if an evaluator asks a judge, and `judge` is None or no judge."""
    if judge is not None and not callable(getattr(judge, "ask", None)):
        raise TypeError(f"a judge is needed, like OpenAIJudge(…), not {type(judge).__name__}")
    if judge is None and evaluator.needs_judge:
        raise TypeError(f"{evaluator.name} asks a judge; give one, like OpenAIJudge(…)")


async def _evaluate(
    evaluator: Evaluator[Any], case: Turn | Conversation, judge: Judge, meters: Sequence[Metered], skip_unseen: bool
) -> tuple[Outcome, JudgeStamp | None]:
    if isinstance(judge, Cascade):
        return await _evaluate_cascade(evaluator, case, judge, meters, skip_unseen)
    if not isinstance(judge, Jury):
        return await _outcome(evaluator, case, meters[0], skip_unseen), meters[0].stamp
    # Each judge makes the whole evaluation, and scores are combined, not answers: an evaluation may take several
    # questions, and two judges' lists of claims do not correspond.
    outcomes = await asyncio.gather(*(_outcome(evaluator, case, meter, skip_unseen) for meter in meters))
    members = [MemberOutcome(meter.model, outcome) for meter, outcome in zip(meters, outcomes, strict=True)]
    outcome = combine_outcomes(judge, evaluator, members)
    if isinstance(outcome, Score):
        outcome = replace(outcome, label=_label_of(evaluator, outcome))
    return outcome, common_stamp(judge.model, [meter.stamp for meter in meters if meter.stamp is not None])


async def _evaluate_cascade(
    evaluator: Evaluator[Any], case: Turn | Conversation, cascade: Cascade, meters: Sequence[Metered], skip_unseen: bool
) -> tuple[Outcome, JudgeStamp | None]:
    """The first judge's outcome, or the second judge's if it is asked."""
    count = len(members_of(cascade.first))
    outcome, stamp = await _evaluate(evaluator, case, cascade.first, meters[:count], skip_unseen)
    if stamp is None:
        return outcome, None  # no judge was asked, so there is no doubt
    step = cascade.escalation(evaluator, case, outcome)
    if step is not None and step.asks:
        outcome, _ = await _evaluate(evaluator, case, cascade.then, meters[count:], skip_unseen)
    if step is not None and isinstance(outcome, Score):
        outcome = replace(outcome, escalation=step)
    return outcome, common_stamp(cascade.model, [meter.stamp for meter in meters if meter.stamp is not None])


def _sum_of(costs: Sequence[float | None]) -> float | None:
    """The sum of the costs; None if a cost is unknown, or there are no costs."""
    return sum(filter(None, costs), 0.0) if costs and None not in costs else None


async def _outcome(evaluator: Evaluator[Any], case: Turn | Conversation, judge: Metered, skip_unseen: bool) -> Outcome:
    try:
        return await _evaluate_alone(evaluator, case, judge, skip_unseen)
    except NotApplicable as error:
        return Skipped(reason=str(error))
    except EvaluationError as error:
        bug = error.__cause__ if error.type == _INTERNAL else None  # of a member
        return Failure(type=error.type, message=str(error)[:_LONGEST_MESSAGE], cause=bug)
    except FAULTS as error:  # a bug in one evaluator must cost one evaluation, not the service
        return _internal(evaluator, error)
    finally:
        if judge.seat is not None:  # no question will follow: the pack's other evaluations need not wait for this one
            judge.seat.leave()


async def _evaluate_alone(
    evaluator: Evaluator[Any], case: Turn | Conversation, judge: Metered, skip_unseen: bool
) -> Outcome:
    if (reason := _not_judgeable(evaluator, case)) is not None:
        return Skipped(reason=reason)
    if (field := evaluator.lowest_if_trivial) is not None and _says_nothing(case, field):
        higher = evaluator.direction == "higher_is_better"
        return _complete(evaluator, worst_score(field, evaluator.score_range, higher_is_better=higher), judge, {})
    view = view_of(case, judge) if evaluator.needs_judge else NO_VIEW
    if skip_unseen and view.unseen:
        return Skipped(reason=SkipReason.UNSEEN_MEDIA.text(*sorted(set(view.unseen))))
    outcome = _checked(evaluator, await evaluator.evaluate(case, Sighted(judge, view) if view.listed else judge))
    if not isinstance(outcome, Score):
        return outcome
    gaps: dict[str, Json] = {}
    if view.unseen and judge.has_questions:
        gaps["unseen_media"] = len(view.unseen)
    if isinstance(case, Conversation) and (incomplete := sum(turn.incomplete is not None for turn in case.turns)):
        gaps["incomplete_turns"] = incomplete
    return _complete(evaluator, outcome, judge, gaps)


def _checked(evaluator: Evaluator[Any], returned: object) -> Outcome:
    """Return the result of `evaluate` if it is an outcome. Errors do not repeat texts, which may be judged texts.

    Raises:
        BrokenPromise: the result is no outcome, or a score with parts of wrong types.
    """
    if isinstance(returned, Skipped | Failure):
        return returned
    if isinstance(returned, Score):
        try:
            if not is_built_in(type(evaluator)):
                from_json(to_json(returned), Score)  # else its record could not be read
        except TypeError as error:
            breach = f"a Score that cannot be written as JSON: {error}"
        except ValidationError as error:
            breach = f"a Score whose {error.errors()[0]['loc'][0]} cannot be read: {error.errors()[0]['msg']}"
        else:
            return returned
    else:
        plain = isinstance(returned, int | float) or returned is None
        breach = f"{returned if plain else f'a {type(returned).__name__}'}; return Score(value=…), from 0 to 1"
    raise BrokenPromise(f"{place_of(type(evaluator).evaluate)}: {type(evaluator).__name__}.evaluate returned {breach}")


def _says_nothing(case: Turn | Conversation, field: str) -> bool:
    """Whether a field says nothing, unless the reference expects that; without one, `[]` and `{}` carry a
    meaning.
    """
    text: str = getattr(case, field)
    words = text.split()
    expected = case.expected_output if isinstance(case, Turn) and field == "actual_output" else None
    return is_trivial_answer(text) and not (expected.split() == words if expected else "".join(words) in EMPTY_JSON)


def _not_judgeable(evaluator: Evaluator[Any], case: Turn | Conversation) -> str | None:
    """Why the case is skipped before any computation; None if it is not skipped."""
    if evaluator.needs_content and isinstance(case, Turn):
        if case.incomplete is not None:
            return SkipReason.INCOMPLETE.text(case.incomplete)
        if _has_failed(case):
            return SkipReason.APPLICATION_ERROR.text()
    elif evaluator.needs_content and isinstance(case, Conversation):
        most = evaluator.max_incomplete if isinstance(evaluator, TranscriptSettings) else MAX_INCOMPLETE
        missing = [turn.incomplete for turn in case.turns if turn.incomplete is not None]
        if missing and len(missing) > most * len(case.turns):
            return SkipReason.INCOMPLETE.text(missing[0])
        whole = tuple(turn for turn in case.turns if turn.incomplete is None)
        if whole and all(map(_has_failed, whole)):
            return SkipReason.APPLICATION_ERROR.text()
        case = replace(case, turns=whole) if missing else case
    requires = evaluator.requires
    if lacking := sorted(filter(partial(is_missing, case), requires)):
        return SkipReason.MISSING_FIELD.text(*lacking)
    if isinstance(case, Turn) and (cut := case.attributes.get(_TRUNCATED)):
        lossy = sorted(requires.intersection(str(cut).split(",")))
        return SkipReason.INCOMPLETE.text("truncated", *lossy) if lossy else None
    return None


def _has_failed(turn: Turn) -> bool:
    """Whether the application failed and answered nothing."""
    return turn.error is not None and not turn.actual_output


def _complete(evaluator: Evaluator[Any], score: Score, judge: Metered, gaps: Mapping[str, Json]) -> Score:
    """The score with its label, the gaps, and reasons for doubt: signs in the material, unsupported quotations."""
    details: dict[str, Json] = {**score.details, **gaps}
    explanation = (score.explanation or "")[:_LONGEST_EXPLANATION]
    method: Method = "single" if score.method == "deterministic" and judge.has_questions else score.method
    if judge.has_verdicts_alone:
        explanation, method = explanation.strip(), "verdict_alone"
    if signs := judge.injection_signs:
        details["suspicious"] = sorted(signs)
    if invented := judge.unsupported_quotes(explanation):
        details["unfounded_quotes"] = len(invented)
    if judge.seat is not None and judge.seat.split_up:
        details["pack"] = "split_up"
    return replace(
        score, label=_label_of(evaluator, score), explanation=explanation or None, method=method, details=details
    )


def _label_of(evaluator: Evaluator[Any], score: Score) -> str | None:
    """The score's own label, else a label by the threshold."""
    if score.label is not None or (passed := evaluator.verdict(score)) is None:
        return score.label
    return "pass" if passed else "fail"


def _internal(evaluator: Evaluator[Any], error: BaseException) -> Failure:
    """The failure for a bug. Neither record nor log repeats the exception's text, which may hold judged text: they name
    the place, and the broken promise of the contract.
    """
    frames = traceback.extract_tb(error.__traceback__)
    cls = type(evaluator)
    file = None if is_built_in(cls) else getattr(sys.modules.get(cls.__module__), "__file__", None)
    own = [frame for frame in frames if frame.filename == file]
    where = (own or frames)[-1]
    message = f"{type(error).__name__} in {where.name}, line {where.lineno} of {Path(where.filename).name}"
    breaches = () if own or is_built_in(cls) else (*class_breaches(cls), *definition_breaches(evaluator))
    if breaches:
        message = breaches[0]
    elif isinstance(error, BrokenPromise):
        message = str(error)
    elif isinstance(error, InvalidScore):
        message = f"{error}; {where.name}, line {where.lineno} of {Path(where.filename).name}"
    folder = Path(where.filename).parent
    logger.error("evaluator %s (%s) failed: %s (in %s)", evaluator.name, evaluator.kind, message, folder)
    return Failure(type=_INTERNAL, message=message[:_LONGEST_MESSAGE], cause=error)


_CERTAIN = Sampling()


def make_record(
    evaluator: Evaluator[Any],
    case: Turn | Conversation,
    result: Result,
    *,
    evaluation_id: str,
    evaluator_version: str,
    monitor: str,
    sampling: Sampling = _CERTAIN,
    supersedes: tuple[str, ...] = (),
    retry: Retry | None = None,
    happened_at: datetime | None = None,
    attributes: Mapping[str, Json] | None = None,
) -> Evaluation:
    """The record of a result. See `evaluators.identity` for the id and the version."""
    return Evaluation(
        evaluation_id=evaluation_id, evaluator=evaluator.name, evaluator_version=evaluator_version,
        scope=evaluator.scope, monitor=monitor, subject=subject_of(case),
        judge=result.judge, usage=result.usage, cost_usd=result.cost_usd,
        sampling=sampling.with_own_draw(result.outcome.probability),
        supersedes=supersedes, retry=retry, attributes=dict(attributes or {}),
        started_at=result.started_at, ended_at=result.ended_at, happened_at=happened_at,
        **_recorded_outcome(evaluator, result),
    )  # fmt: skip


_OF_SCORE = ("label", "explanation", "method", "raw_score", "range", "kept_mass", "details", "escalation")


def _recorded_outcome(evaluator: Evaluator[Any], result: Result) -> dict[str, Any]:
    match result.outcome:
        case Score() as score:
            return {
                **{name: getattr(score, name) for name in _OF_SCORE},
                "outcome": "scored",
                "score": score.value,
                "passed": evaluator.verdict(score),
            }
        case Skipped(reason=reason):
            return {"outcome": "skipped", "reason": reason}
        case Failure(type=type_, message=message):
            return {"outcome": "failed", "error": ErrorDetail(type=type_, message=message)}


def subject_of(case: Turn | Conversation) -> Subject:
    """The ids of the evaluated subject."""
    if isinstance(case, Turn):
        return Subject(
            conversation_id=conversation_id_of(case),
            turn_id=turn_id_of(case),
            trace_id=case.trace_id,
            span_id=case.span_id,
            response_id=case.response_id,
        )
    last = case.turns[-1] if case.turns else Turn()
    return Subject(
        conversation_id=conversation_id_of(case),
        trace_id=last.trace_id,
        span_id=last.span_id,
        revision=case.revision,
        links=tuple(map(link_of, case.turns)),
    )
