"""A jury: several judges on one evaluator, and how their scores become one."""

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from evaluators.cases import Json
from evaluators.evaluator import Evaluator
from evaluators.judge import Judge, WholeJudge
from evaluators.mechanisms.rating import STEPS_HASH
from evaluators.results import Failure, JudgeStamp, Outcome, Score, Skipped

Combine = Literal["mean", "median", "majority"]

_PASS = 0.5  # the score at which a judge votes for passing, if the evaluator has no threshold


def jury_model(combine: Combine, models: Sequence[str]) -> str:
    """The name of a jury of these models, like `median(gpt-4o, llama-3)`."""
    return f"{combine}({', '.join(models)})"


class Jury(WholeJudge):
    """Judges that each make the whole evaluation; `evaluators.evaluate` combines their scores.

    `mean` and `median` combine the scores. `majority`: the best score if more than half of the scores pass (by the
    evaluator's threshold or labels, else at 0.5), else the worst. At least `quorum` judges have to give a score, by
    default more than half; otherwise the jury gives none. The score's details hold each judge's score and the
    disagreement, which is the difference of the highest and the lowest.

    Raises:
        ValueError: there are fewer than two judges, or the quorum is out of reach.
    """

    refusal = "a panel answers no single question: give it to evaluators.evaluate"

    def __init__(self, judges: Sequence[Judge], *, combine: Combine = "median", quorum: int | None = None) -> None:
        if len(judges) < 2:
            raise ValueError("a panel needs at least two judges")
        self.judges = tuple(judges)
        self.combine: Combine = combine
        self.quorum = len(judges) // 2 + 1 if quorum is None else quorum
        if not 1 <= self.quorum <= len(judges):
            raise ValueError(f"the quorum of {len(judges)} judges lies between 1 and {len(judges)}")

    @property
    def model(self) -> str:
        """See `jury_model`."""
        return jury_model(self.combine, [judge.model for judge in self.judges])


@dataclass(frozen=True, slots=True)
class MemberOutcome:
    """The verdict of one judge of a jury."""

    model: str
    outcome: Outcome


def combine_outcomes(panel: Jury, evaluator: Evaluator[Any], opinions: Sequence[MemberOutcome]) -> Outcome:
    """Combine several outcomes into one. If one judge skips, the jury skips, as a skip is about the case."""
    for outcome in opinions:
        if isinstance(outcome.outcome, Skipped):
            return outcome.outcome
    scored = [(outcome.model, outcome.outcome) for outcome in opinions if isinstance(outcome.outcome, Score)]
    if len(scored) < panel.quorum:
        return _without_quorum(panel, opinions, len(scored))
    scores = [score for _, score in scored]
    value = _value(panel.combine, evaluator, scores)
    closest = min(scores, key=lambda score: abs(score.value - value))
    lowest, highest = closest.range
    return Score(
        value=value,
        label=_label(evaluator, scores),
        explanation=closest.explanation,
        method=closest.method if all(score.method == closest.method for score in scores) else "single",
        raw_score=lowest + value * (highest - lowest),
        range=closest.range,
        details=_details(evaluator, panel, opinions, scored),
        probability=closest.probability,  # the case's id draws, so it is the same for all judges
    )


def common_stamp(model: str, stamps: Sequence[JudgeStamp]) -> JudgeStamp | None:
    """The stamp of the jury, named `model`; with the prompt's hash if all judges were asked the same."""
    if not stamps:
        return None
    hashes = {stamp.prompt_hash for stamp in stamps}
    return JudgeStamp(model=model, prompt_hash=hashes.pop() if len(hashes) == 1 else None)


def _value(combine: Combine, evaluator: Evaluator[Any], scores: Sequence[Score]) -> float:
    values = [score.value for score in scores]
    match combine:
        case "mean":
            return statistics.fmean(values)
        case "median":
            return statistics.median(values)
        case "majority":
            passing = sum(_passes(evaluator, score) for score in scores)
            return float((passing * 2 > len(values)) == (evaluator.direction == "higher_is_better"))


def _label(evaluator: Evaluator[Any], scores: Sequence[Score]) -> str | None:
    """The label that most judges chose, in a tie the first one named; None if the evaluator has no labels."""
    if not evaluator.label_names:
        return None
    chosen = Counter(score.label for score in scores)
    return max(chosen, key=lambda label: chosen[label])


def _passes(evaluator: Evaluator[Any], score: Score) -> bool:
    passed = evaluator.verdict(score)
    if passed is not None:
        return passed
    return score.value >= _PASS if evaluator.direction == "higher_is_better" else score.value <= _PASS


def _details(
    evaluator: Evaluator[Any], panel: Jury, opinions: Sequence[MemberOutcome], scored: Sequence[tuple[str, Score]]
) -> dict[str, Json]:
    values = [score.value for _, score in scored]
    members: list[Json] = [
        {
            "model": outcome.model,
            "score": outcome.outcome.value,
            "method": outcome.outcome.method,
            **({"label": outcome.outcome.label} if evaluator.label_names else {}),
            **({STEPS_HASH: steps} if (steps := outcome.outcome.details.get(STEPS_HASH)) else {}),
        }
        if isinstance(outcome.outcome, Score)
        else {"model": outcome.model, "error": outcome.outcome.type if isinstance(outcome.outcome, Failure) else None}
        for outcome in opinions
    ]
    return {"combine": panel.combine, "judges": members, "disagreement": max(values) - min(values)}


def _without_quorum(panel: Jury, opinions: Sequence[MemberOutcome], scored: int) -> Failure:
    failures = [each.outcome for each in opinions if isinstance(each.outcome, Failure)]
    types = sorted({failure.type for failure in failures})
    message = f"{scored} of {len(opinions)} judges came to a score, {panel.quorum} are needed: {', '.join(types)}"
    cause = next((failure.cause for failure in failures if failure.cause is not None), None)
    kind = types[0] if len(types) == 1 else "panel_without_quorum"
    return Failure(type=kind, message=message, probability=failures[0].probability, cause=cause)
