"""Composites: one score made of other evaluators' scores, and code that decides whether a judge is asked."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Generic, Literal, Self, cast

import orjson
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    SkipValidation,
    WithJsonSchema,
    model_validator,
)

from evaluators.cases import Conversation, Json, Scope, Turn
from evaluators.errors import EvaluationError, NotApplicable
from evaluators.evaluator import Case, Evaluator
from evaluators.identity import case_draw
from evaluators.judge import Judge
from evaluators.results import Failure, Method, Outcome, Score, Skipped, SkipReason

Combination = Literal["all", "any", "weighted", "if"]
"""How the scores of a composite's members become one."""


def _members(value: object) -> object:
    """Evaluators as they are, or made of their definitions by name."""
    from evaluators.catalogue import load_evaluators

    if not isinstance(value, Mapping):
        return tuple(cast("Sequence[object]", value)) if isinstance(value, (list, tuple)) else value
    kinds = load_evaluators()
    return tuple(
        _member(str(name), definition, kinds) for name, definition in cast("Mapping[object, object]", value).items()
    )


def _member(name: str, definition: object, kinds: Mapping[str, type[Evaluator[Any]]]) -> object:
    if isinstance(definition, Evaluator) or not isinstance(definition, Mapping):
        return definition  # pyright: ignore[reportUnknownVariableType]
    fields = dict(cast("Mapping[str, Json]", definition))
    kind = fields.pop("kind", None)
    if kind not in kinds:
        raise ValueError(f"{name}: there is no evaluator of kind {kind!r}; give one, or its definition with a kind")
    return kinds[kind].model_validate({"name": name, **fields})


def _require_evaluators(members: tuple[Evaluator[Any], ...]) -> tuple[Evaluator[Any], ...]:
    """The members, which are not validated again: each is whole already."""
    for member in cast("tuple[object, ...]", members):
        if not isinstance(member, Evaluator):
            raise ValueError(f"evaluators are needed, or definitions by name, not {type(member).__name__}")  # noqa: TRY004
    return members


def _definitions(members: Sequence[Evaluator[Any]]) -> dict[str, Json]:
    return {
        evaluator.name: {"kind": evaluator.kind, **evaluator.model_dump(mode="json", exclude={"name"})}
        for evaluator in members
    }


Members = Annotated[
    tuple[Annotated[Evaluator[Any], SkipValidation], ...],
    AfterValidator(_require_evaluators),
    BeforeValidator(_members),
    PlainSerializer(_definitions),
    WithJsonSchema({"type": "array", "items": {"type": "string"}}),
]
"""The members of a composite: evaluators, written down as their definitions by name."""


class Composition(Evaluator[Case], Generic[Case]):
    """A composite of turns or of conversations: its kinds add no more than their scope."""

    of: Members = Field(min_length=1, max_length=16)
    """The evaluators that are combined: names from `evaluators`."""
    combine: Combination = "all"
    """all: each passes; any: one passes; weighted: the mean of their scores; if: the first one, in code, decides
    whether the second one is asked."""
    weights: dict[str, float] = Field(default_factory=dict[str, float])
    """With `weighted`: weights by name; 1 for a member without a weight."""
    ask_on: Literal["fail", "pass"] = "fail"
    """With `if`: the first member's verdict at which the second is asked."""
    share: float = Field(default=0.0, ge=0.0, le=1.0)
    """With `if`: the random share of the other cases for which the second is asked."""
    otherwise: float | None = Field(default=None, ge=0.0, le=1.0)
    """With `if`: the score of a case for which the second is not asked; if left out, the case is skipped."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for sentence in composition_mistakes(self):
            raise ValueError(sentence)
        return self

    @property
    def requires(self) -> frozenset[str]:
        """The fields that every member needs: without one of them, no member gives a score."""
        return frozenset[str].intersection(*(member.requires for member in self.of))

    @property
    def needs_judge(self) -> bool:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether any member asks a judge."""
        return any(member.needs_judge for member in self.of)

    @property
    def needs_writer(self) -> bool:
        """See `Evaluator.needs_writer`: whether a member does."""
        return any(member.needs_writer for member in self.of)

    @property
    def templates(self) -> tuple[str, ...]:
        """The templates of its members."""
        return tuple(name for member in self.of for name in (*member.templates, *member.added_templates))

    @property
    def version(self) -> str:
        """12 hex digits that change with a member's version or threshold and with the way to combine them."""
        own = {
            name: value
            for name, value in self.model_dump(mode="json", exclude={"of", "name", "description", "threshold"}).items()
            if value != type(self).model_fields[name].get_default(call_default_factory=True)
        }
        members = [[member.name, member.kind, member.version, member.threshold] for member in self.of]
        return hashlib.sha256(orjson.dumps([self.kind, members, own], option=orjson.OPT_SORT_KEYS)).hexdigest()[:12]

    async def evaluate(self, case: Case, judge: Judge) -> Outcome:
        """The composite's score of a case.

        Raises:
            EvaluationError: a member failed, and the others do not decide without it. NotApplicable: a member was
            skipped, and the others do not decide without it.
        """
        if self.combine == "if":
            return await self._gated(case, judge)
        outcomes: dict[str, Outcome] = {}
        # members in code first, so that no judge is asked if code decides
        for member in sorted(self.of, key=lambda candidate: candidate.needs_judge):
            outcomes[member.name] = await _outcome_of(member, case, judge)
            if self.combine != "weighted" and _passes(member, outcomes[member.name]) is (self.combine == "any"):
                break
        members: dict[str, Json] = {
            evaluator.name: _summary(evaluator, outcomes.get(evaluator.name)) for evaluator in self.of
        }
        details: dict[str, Json] = {"members": members, **_truncated(outcomes.values())}
        return self._mean(outcomes, details) if self.combine == "weighted" else self._verdict(outcomes, details)

    def _verdict(self, outcomes: Mapping[str, Outcome], details: dict[str, Json]) -> Score:
        """Whether all pass, or any: the verdict exists as soon as one member decides it alone (Kleene's logic)."""
        decisive = self.combine == "any"
        passed = {
            evaluator.name: _passes(evaluator, outcomes[evaluator.name])
            for evaluator in self.of
            if evaluator.name in outcomes
        }
        deciding = [name for name, verdict in passed.items() if verdict is decisive]
        if not deciding:
            _require_scores(outcomes)
        value = float(decisive if deciding else not decisive)
        all_alike = "none passes" if decisive else "all pass"
        what = f"{deciding[0]} {'passes' if decisive else 'fails'}" if deciding else all_alike
        scores = [outcome for outcome in outcomes.values() if isinstance(outcome, Score)]
        return Score(value=value, explanation=what, method=_method(scores), raw_score=value, details=details)

    def _mean(self, outcomes: Mapping[str, Outcome], details: dict[str, Json]) -> Score:
        _require_scores(outcomes)
        weights = {evaluator.name: self.weights.get(evaluator.name, 1.0) for evaluator in self.of}
        scores = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, Score)}
        good = {evaluator.name: _goodness(evaluator, scores[evaluator.name]) for evaluator in self.of}
        value = sum(weights[name] * score for name, score in good.items()) / sum(weights.values())
        value = min(1.0, max(0.0, value))
        return Score(
            value=value,
            explanation=", ".join(f"{name} {score:.3g} × {weights[name]:g}" for name, score in good.items()),
            method=_method(list(scores.values())),
            raw_score=value,
            details=details,
        )

    async def _gated(self, case: Turn | Conversation, judge: Judge) -> Outcome:
        gate, member = self.of
        first = await _outcome_of(gate, case, judge)
        _require_scores({gate.name: first})
        chance = 1.0 if _passes(gate, first) is (self.ask_on == "pass") else self.share
        members: dict[str, Json] = {gate.name: _summary(gate, first), member.name: _summary(member, None)}
        if case_draw("gate", self.name, case) >= chance:
            if self.otherwise is None:
                return Skipped(reason=SkipReason.GATED.text(gate.name))
            why, value = f"{gate.name} does not ask for {member.name}", self.otherwise
            return Score(value=value, explanation=why, raw_score=value, details={"members": members})
        second = await _outcome_of(member, case, judge)
        if not isinstance(second, Score):
            return replace(second, probability=chance)
        details = {**second.details, "members": {**members, member.name: _summary(member, second)}}
        value = _goodness(member, second)
        return Score(
            value=value, explanation=second.explanation or member.name, method=second.method, raw_score=value,
            kept_mass=second.kept_mass, details=details, probability=chance,
        )  # fmt: skip


def composition_mistakes(composition: Composition[Any]) -> list[str]:
    """The contradictions in a composite's configuration, with the remedy."""
    members, names = composition.of, [evaluator.name for evaluator in composition.of]
    mistakes: list[str] = []
    if len(set(names)) < len(names):
        mistakes.append("of: an evaluator is listed twice; keep one of them")
    scopes: set[Scope] = {evaluator.scope for evaluator in members}
    if len(scopes) > 1:
        mistakes.append("of: some score turns and some conversations; combine those of one scope")
    if any(isinstance(evaluator, Composition) for evaluator in members):
        mistakes.append("of: a composite cannot have composites as members; list their members")
    if unknown := sorted(set(composition.weights) - set(names)):
        mistakes.append(f"weights: {unknown[0]!r} is not among `of`; name one of {', '.join(names)}")
    if any(weight < 0 for weight in composition.weights.values()) or not any(
        composition.weights.get(name, 1.0) for name in names
    ):
        mistakes.append("weights: must not be negative, and one of them above 0")
    if composition.weights and composition.combine != "weighted":
        mistakes.append("weights: mean nothing without combine: weighted; remove the key")
    if composition.combine == "if":
        mistakes += _gate_mistakes(composition)
    elif composition.share or composition.otherwise is not None or composition.ask_on != "fail":
        mistakes.append("ask_on, share, otherwise: mean nothing without combine: if; remove them")
    if without := [member.name for member in _deciding(composition) if not member.has_verdicts]:
        mistakes.append(f"of: {without[0]} has no threshold, so nothing passes; set its threshold")
    return mistakes


def _gate_mistakes(composition: Composition[Any]) -> list[str]:
    if len(composition.of) != 2:
        return ["of: with combine: if there are two: the one that decides, and the one that is asked"]
    mistakes: list[str] = []
    if composition.of[0].needs_judge:
        mistakes.append(f"of: {composition.of[0].name} asks a judge itself; put one in code first")
    if composition.share and composition.otherwise is not None:
        mistakes.append("otherwise: those of `share` are judged, so the others have no score of their own; remove one")
    return mistakes


def _deciding(composition: Composition[Any]) -> Sequence[Evaluator[Any]]:
    """The members whose verdicts count."""
    match composition.combine:
        case "weighted":
            return ()
        case "if":
            return composition.of[:1]
        case _:
            return composition.of


async def _outcome_of(member: Evaluator[Any], case: Turn | Conversation, judge: Judge) -> Outcome:
    from evaluators.evaluation import evaluate

    return (await evaluate(member, case, judge)).outcome


def _passes(member: Evaluator[Any], outcome: Outcome) -> bool | None:
    return member.verdict(outcome) if isinstance(outcome, Score) else None


def _goodness(member: Evaluator[Any], score: Score) -> float:
    """The score; 1 minus the score if lower is better."""
    return score.value if member.direction == "higher_is_better" else 1.0 - score.value


def _require_scores(outcomes: Mapping[str, Outcome]) -> None:
    """Raise the reason why a member has no score: a failure before a skip."""
    for outcome in outcomes.values():
        if isinstance(outcome, Failure):
            raise _failure(outcome)
    for outcome in outcomes.values():
        if isinstance(outcome, Skipped):
            raise NotApplicable(outcome.reason)


def _truncated(outcomes: Iterable[Outcome]) -> dict[str, Json]:
    """Whether a member that asked a judge did so with something left out; nothing if none asked."""
    marks = [
        score.details["truncated"] for score in outcomes if isinstance(score, Score) and "truncated" in score.details
    ]
    return {"truncated": any(marks)} if marks else {}


def _failure(outcome: Failure) -> EvaluationError:
    error = EvaluationError(outcome.message)
    error.type, error.__cause__ = outcome.type, outcome.cause
    return error


def _summary(member: Evaluator[Any], outcome: Outcome | None) -> Json:
    match outcome:
        case Score():
            return {"score": outcome.value, "passed": member.verdict(outcome), "version": member.version}
        case Skipped():
            return {"outcome": "skipped", "reason": outcome.reason}
        case Failure():
            return {"outcome": "failed", "error": outcome.type}
        case None:
            return {"outcome": "not asked"}


def _method(scores: Sequence[Score]) -> Method:
    """The common method of the members that asked a judge; a composite in code alone is deterministic."""
    judged: set[Method] = {score.method for score in scores if score.method != "deterministic"}
    return judged.pop() if len(judged) == 1 else "single" if judged else "deterministic"
