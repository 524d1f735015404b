"""An evaluator: an immutable definition of how to score a turn or a conversation."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeAlias, TypeVar, cast

import orjson
from pydantic import ConfigDict, Field, ValidationInfo, model_validator

from evaluators.cases import Conversation, Json, Scope, Turn
from evaluators.descriptions import Described
from evaluators.foreign_names import EVALUATOR, missing, refused_argument, suggestion
from evaluators.judge import Judge
from evaluators.prompts import load
from evaluators.results import Outcome, Score

Direction = Literal["higher_is_better", "lower_is_better"]
Case = TypeVar("Case", Turn, Conversation)

ADDED_LATER = "added later: part of the version only where it is not the default"
"""Marks a field that was added after versions had been recorded: at its default it leaves the version unchanged."""
Example: TypeAlias = Mapping[str, Json]


class Evaluator(Described, ABC, Generic[Case]):
    """How to score one case, a turn or a conversation. The fields of an evaluator are its configuration.

    An evaluator has no state, so any number of tasks may share it. `threshold` is on the scale of scores, 0..1. A score
    passes if it is at or above the threshold; if lower is better, at or below the threshold.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: ClassVar[str]
    """The word in the configuration that selects this class. It is also the name of the entry point."""
    scope: ClassVar[Scope] = "turn"
    direction: ClassVar[Direction] = "higher_is_better"
    needed_fields: ClassVar[frozenset[str]]
    """Names of the fields that a case must have, if they are the same for all definitions."""
    trivial_without: ClassVar[str | None] = None
    """A field without whose words there is nothing to judge, if it is the same for all definitions."""
    needs_judge: ClassVar[bool] = True
    all_typed: ClassVar[bool] = False
    """Whether all its questions want typed answers, like verdicts. Then a judge that cannot write texts is enough."""
    needs_content: ClassVar[bool] = True
    """Whether it reads texts. An evaluator that does not, like `latency`, also scores turns whose texts are missing."""
    prompts: ClassVar[tuple[str, ...]] = ()
    """The prompts it uses: file names in `evaluators/prompts`, or texts. Their texts are part of its version."""
    revision: ClassVar[int] = 1
    """Counts changes of the calculation that neither the definition nor the prompts show. It is part of the version."""
    example: ClassVar[Example] = {}
    """A smallest useful configuration, without the name: for the catalogue, and for tests of every evaluator."""
    cosmetic: ClassVar[frozenset[str]] = frozenset({"name", "description", "threshold"})
    """Fields that do not change scores, so they are not part of the version."""

    name: str = Field(min_length=1, max_length=128)
    """The name of this evaluator in every output."""
    threshold: float | None = Field(default=None, ge=0.0, le=1.0)
    """A score passes at or above this value, on 0..1; at or below it, if lower is better."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                return super().__getattr__(name)
            raise AttributeError(missing(EVALUATOR, type(self).__name__, name))

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy, without the values that this instance computed from its fields."""
        copied = super().model_copy(update=update, deep=deep)
        for name in vars(copied).keys() - type(self).model_fields.keys():
            del vars(copied)[name]
        return copied

    @model_validator(mode="before")
    @classmethod
    def _own_arguments(cls, values: object, info: ValidationInfo) -> object:
        """Refuse misspelt arguments, and arguments of other libraries, and name the right one.

        With a validation context the arguments come from a file. Unknown and missing keys of a file are reported
        elsewhere, with their place.
        """
        names = frozenset(cast("Mapping[str, Any]", values)) if isinstance(values, Mapping) else frozenset[str]()
        others = names - cls.model_fields.keys()
        sentence = refused_argument(others)
        if sentence is None and others and info.context is None:
            sentence = f"{min(others)}: {cls.__name__} has no such field; {suggestion(min(others), cls.model_fields)}"
        lacking = [name for name, field in cls.model_fields.items() if field.is_required() and name not in names]
        if sentence is None and lacking and info.context is None:
            sentence = f"{cls.__name__} needs {lacking[0]}: write {cls.__name__}({lacking[0]}=…)"
        if sentence is not None:
            raise ValueError(sentence)
        return cast("object", values)

    @property
    def requires(self) -> frozenset[str]:
        """Names of the fields that a case must have: `needed_fields`, unless a kind computes them."""
        return self.needed_fields

    @property
    def score_range(self) -> tuple[float, float]:
        """Lowest and highest raw score; the lowest becomes 0, the highest 1."""
        return (0.0, 1.0)

    @property
    def lowest_if_trivial(self) -> str | None:
        """A field without which there is nothing to judge, or None. If a case has no words there, it gets the worst
        score, and no judge is asked. It is `trivial_without`, unless a kind computes it.
        """
        return self.trivial_without

    @property
    def rounds(self) -> int:
        """How many successive questions a short case takes; 0 without a judge. Questions about the definition itself do
        not count.

        Evaluators in a pack ask together: each round is one request for all that still have a question.
        """
        return int(self.needs_judge)

    @property
    def needs_writer(self) -> bool:
        """Whether its judge has to write more than verdicts, like a list of claims; a judge that only decides cannot.

        True for an evaluator that asks a judge, unless `all_typed` says that all its questions have a typed form.
        """
        return self.needs_judge and not self.all_typed

    @property
    def cost_note(self) -> str:
        """How many questions a long case takes; "" if the number is the same for every case."""
        return ""

    @property
    def version(self) -> str:
        """12 hex digits of SHA-256 over kind, definition and prompts: the version changes if scores may change."""
        definition = self.model_dump(mode="json", exclude={*self.cosmetic, *self._unused()})
        texts = [load(name) for name in (*self.templates, *self.added_templates)]
        parts = [self.kind, self.calculation, definition, texts]
        return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()[:12]

    @property
    def templates(self) -> tuple[str, ...]:
        """The templates that this definition uses: `prompts`, unless fields of the definition add or replace some."""
        return self.prompts

    @property
    def added_templates(self) -> tuple[str, ...]:
        """Further templates, of optional settings like `reads`. They are apart because kinds override `templates`."""
        return ()

    @property
    def calculation(self) -> int:
        """The revision of the calculation that this definition uses. It is an earlier revision if later changes do not
        concern this definition.
        """
        return self.revision

    def _unused(self) -> set[str]:
        """The fields that were added later and are at their default."""
        return {
            name
            for name, field in type(self).model_fields.items()
            if ADDED_LATER in field.metadata and getattr(self, name) == field.get_default(call_default_factory=True)
        }

    @abstractmethod
    async def evaluate(self, case: Case, judge: Judge) -> Outcome:
        """Score one case.

        Raises:
            EvaluationError: there is no score; the error says why.
            NotApplicable: the case lacks something that the evaluator needs.
        """

    @property
    def label_names(self) -> tuple[str, ...]:
        """The labels that its scores may have; () if they are only pass and fail."""
        return ()

    @property
    def label_verdicts(self) -> Mapping[str, bool | None]:
        """Whether a case with each label passes, if there is no threshold; {} if labels do not decide."""
        return {}

    @property
    def has_verdicts(self) -> bool:
        """Whether it has a rule for passing: a threshold, or labels that decide."""
        return self.threshold is not None or bool(self.label_verdicts)

    @property
    def has_scores(self) -> bool:
        """Whether its scores say anything: labels that all have the same score are told apart by their shares alone."""
        return True

    def verdict(self, score: Score) -> bool | None:
        """Whether a score passes: by the threshold, else by its label; None without a rule for passing."""
        labels: Mapping[str, bool | None] = self.label_verdicts if self.threshold is None else {}
        return labels.get(score.label or "", self.passed(score.value))

    def passed(self, score: float) -> bool | None:
        """Whether the score meets the threshold; None without a threshold."""
        if self.threshold is None:
            return None
        return score >= self.threshold if self.direction == "higher_is_better" else score <= self.threshold


class CodeEvaluator(Evaluator[Case], Generic[Case]):
    """An evaluator that computes its scores in code, and asks no judge."""

    needs_judge: ClassVar[bool] = False
