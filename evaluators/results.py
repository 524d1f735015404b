"""Results of an evaluation: a score, a skip with its reason, or a failure, and the record of it.

A failure is never a score: only `Score` has a number.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Literal, TypeAlias

from evaluators.cases import Json, Scope


class SkipReason(StrEnum):
    """The code that a skip's reason begins with; details may follow it, as in `missing_field: expected_output`.

    `MEANINGS` says what each one means. An evaluator of your own may give other reasons.
    """

    MISSING_FIELD = "missing_field"
    INVALID_FIELD = "invalid_field"
    INCOMPLETE = "incomplete"
    APPLICATION_ERROR = "application_error"
    UNSEEN_MEDIA = "unseen_media"
    UNCLEAR_LANGUAGE = "unclear_language"
    NOT_COMPLETED = "not_completed"
    GATED = "gated"
    SHED = "shed"
    OVER_BUDGET = "over_budget"
    REFERENCE_MISSING = "reference_missing"

    def text(self, *details: str) -> str:
        """The reason as it is recorded: the code and its details."""
        return f"{self.value}: {', '.join(details)}" if details else self.value


MEANINGS: Mapping[SkipReason, str] = {
    SkipReason.MISSING_FIELD: "The subject lacks fields that the evaluator requires; the record names them.",
    SkipReason.INVALID_FIELD: "A field has a value that the evaluator cannot use; the record names the field.",
    SkipReason.INCOMPLETE: "The turn is incomplete, or too many turns of the conversation are; the record has the "
    "reason of the first incomplete one.",
    SkipReason.APPLICATION_ERROR: "The application failed before it gave an answer.",
    SkipReason.UNSEEN_MEDIA: "The subject has attachments that its judge cannot be shown, and the monitor has "
    "`unseen_media: skip`.",
    SkipReason.UNCLEAR_LANGUAGE: "The language of a text cannot be recognized; the record names the field.",
    SkipReason.NOT_COMPLETED: "The task was not completed, so there is nothing to score.",
    SkipReason.GATED: "A composite's first evaluator did not ask for the second one; the record names the first.",
    SkipReason.SHED: "The evaluation waited longer than `evaluate.shed_after`, or too many evaluations waited for a "
    "batch.",
    SkipReason.OVER_BUDGET: "A budget had no money left for the evaluation.",
    SkipReason.REFERENCE_MISSING: "No reference with what the evaluator requires arrived in time; the record names it.",
}

JUDGE_ERRORS = (
    "judge_unavailable", "judge_timeout", "judge_rate_limited", "judge_no_completion", "judge_denied", "judge_rejected",
    "judge_reply_invalid", "judge_reply_truncated", "judge_refused",
)  # fmt: skip
"""The types of the errors of one request to a judge."""

LOSSES = (SkipReason.OVER_BUDGET, SkipReason.SHED, SkipReason.INCOMPLETE)
"""The subject should have got a score: alerts watch their share."""

NEVER_TRIED = frozenset({SkipReason.SHED, SkipReason.OVER_BUDGET, SkipReason.REFERENCE_MISSING})
"""The evaluation was not tried, so `evalstream rejudge` can make it later."""


def code_of(reason: str) -> str:
    """The part of a reason before its details."""
    return reason.partition(":")[0]


def table() -> str:
    """The reasons as a Markdown table."""
    rows = [
        f"| `{code}` | {meaning} | {_yes(code in LOSSES)} | {_yes(code in NEVER_TRIED)} |"
        for code, meaning in MEANINGS.items()
    ]
    return "\n".join(("| reason | meaning | a loss | never tried |", "|---|---|---|---|", *rows))


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


Method = Literal["logprobs", "samples", "single", "deterministic", "decision", "verdict_alone"]
"""How a number came about: weighted by token probabilities, mean of samples, one answer, code alone, by the
probabilities of a decision model, which gives no reason; or by a verdict that was asked for again without its reason,
as the first answer was cut off in it (weighted by token probabilities where there is a kept mass)."""

Status = Literal["scored", "skipped", "failed"]

EscalationReason = Literal["sure", "share", "doubt", "unknown", "unreadable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalation:
    """How a cascade came to a score: what its first judge said, and whether and why the second one was asked.

    The second judge was not asked if the first was `sure`. It was asked by a draw (`share`), in `doubt`, if the first
    judge's doubt is `unknown`, or if its verdict was `unreadable`. `probability` is the chance that the second judge is
    asked in such a case: 1 except for `sure` and `share`. `doubt` goes from 0 to 1; see `evaluators.Cascade`.
    """

    reason: EscalationReason
    probability: float
    first_score: float | None = None
    doubt: float | None = None

    @property
    def asks(self) -> bool:
        """Whether the second judge was asked."""
        return self.reason != "sure"

    def corrected(self, score: float) -> float | None:
        """The value whose mean is the second judge's mean: x + (y - x) / π if the case was drawn, else the score.

        It may lie outside [0, 1]. None where nothing is drawn, so that the first judge's errors stay unknown.
        """
        if self.reason == "sure" and self.probability == 0.0:
            return None
        if self.reason == "share" and self.first_score is not None:
            return self.first_score + (score - self.first_score) / self.probability
        return score


class InvalidScore(ValueError):
    """The number of a score is NaN, or out of its range. The message holds numbers alone."""


def _require_chance(probability: float) -> None:
    if not 0.0 < probability <= 1.0:  # it divides weights
        raise InvalidScore(f"a probability lies in (0, 1], not {probability!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A score in [0, 1], 1 at the upper end of the evaluator's range.

    `raw_score` is the number on the evaluator's own `range` (lowest, highest); `kept_mass` the share of token
    probability that lay on valid scores, where `method` is `logprobs` or `decision`. `probability` is the chance with
    which the evaluator's own draw led to this score: the evaluation's sampling probability is multiplied by it.
    `escalation` is set if a cascade judged.

    Raises:
        InvalidScore: `value` is outside [0, 1] or not a number, or `probability` is outside (0, 1].
    """

    value: float
    label: str | None = None
    explanation: str | None = None
    method: Method = "deterministic"
    raw_score: float | None = None
    range: tuple[float, float] = (0.0, 1.0)
    kept_mass: float | None = None
    details: Mapping[str, Json] = field(default_factory=dict[str, Json])
    probability: float = 1.0
    escalation: Escalation | None = None

    def __post_init__(self) -> None:
        _require_chance(self.probability)
        try:
            in_range = 0.0 <= self.value <= 1.0  # refuses NaN, too
        except TypeError:
            raise InvalidScore(f"a score is a number, not a {type(self.value).__name__}") from None
        if not in_range:
            raise InvalidScore(f"a score lies in [0, 1], not {self.value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Not judged. `reason` is a `SkipReason` and its details, like `missing_field: expected_output`; `probability` is
    that of `Score`.
    """

    reason: str
    probability: float = 1.0

    def __post_init__(self) -> None:
        _require_chance(self.probability)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Could not be judged. `type` is fit for a metric label; `message` never holds judged text. `cause` is a bug in
    an evaluator's code, for tests; its text may hold judged text, so no record and no log has it. `probability` is
    that of `Score`.
    """

    type: str
    message: str
    probability: float = 1.0
    cause: BaseException | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        _require_chance(self.probability)


Outcome: TypeAlias = Score | Skipped | Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeStamp:
    """The judge that answered: the model as it names itself, its fingerprint, a hash of the prompt's fixed part."""

    model: str
    fingerprint: str | None = None
    prompt_hash: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens and calls a judge was paid for.

    `cached_input_tokens` are the input tokens that were in the provider's prompt cache, `cache_write_tokens` the input
    tokens that were put into it, which some providers charge extra; None if there were none. `estimated_calls` counts
    the calls without a usable number of tokens, which are estimated from the texts; None if there were none.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    calls: int = 0
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    estimated_calls: int | None = None

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            calls=self.calls + other.calls,
            cached_input_tokens=(self.cached_input_tokens or 0) + (other.cached_input_tokens or 0) or None,
            cache_write_tokens=(self.cache_write_tokens or 0) + (other.cache_write_tokens or 0) or None,
            estimated_calls=(self.estimated_calls or 0) + (other.estimated_calls or 0) or None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The judged subject. `turn_id` is None for a conversation; trace and span are then the last turn's.

    `links` are the (trace id, span id) of every judged turn of a conversation, in order. A turn without a span has the
    link ("", turn id).
    """

    conversation_id: str
    turn_id: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    response_id: str | None = None
    revision: int = 1
    links: tuple[tuple[str, str], ...] = ()

    @property
    def id(self) -> str:
        """The id of the turn or of the conversation."""
        return self.turn_id or self.conversation_id


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDetail:
    """Type and message of a failure."""

    type: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How the subject came to be judged: its inclusion probability, in (0, 1]; unit of the draw.

    `upstream` is the part of the probability that samplers before evalstream account for. If they do not report it, it
    is `unknown`, and the probability is evalstream's alone. `own` is the part of an evaluator's own draw, as a cascade
    makes one; None without such a draw.
    """

    probability: float = 1.0
    stratum: str = "all"
    unit: Literal["conversation", "trace"] = "conversation"
    upstream: float | Literal["unknown"] = "unknown"
    own: float | None = None

    def with_own_draw(self, own: float | None) -> "Sampling":
        """The sampling with an evaluator's own draw, if it made one: the two draws are independent."""
        return self if own is None or own == 1.0 else replace(self, probability=self.probability * own, own=own)

    @property
    def of_subject(self) -> "Sampling":
        """The sampling of the subject, without an evaluator's own draw: it has chosen what the evaluator skips, too."""
        return self if self.own is None else replace(self, probability=self.probability / self.own, own=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """A repeated evaluation: the number of the attempt, from 2 on, and why the attempt before failed.

    `failed_at` is when the last failure or loss ended that alerts count; None if there is none. Alerts count no
    backfill, so a retry of one keeps its `failed_at`.
    """

    attempt: int
    reason: str
    failed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The record of one evaluation: one evaluator, one subject. `score` is there only if `outcome` is `scored`.

    `evaluator_version` changes with the evaluator's definition, its prompts and its judge's model. `supersedes` are the
    ids of evaluations that this one stands in for: of the same conversation, before turns came. If `retry` is set, the
    first of these failed, and this evaluation replaces it: the two count once. `happened_at` is when the subject ended,
    where it was judged as part of the past (a backfill): such an evaluation belongs to that time, not to when it was
    made. `shares` is the id of the evaluation whose verdict this one repeats: another monitor asked for the same
    verdict, and the judge was asked and paid once. Each counts for its own monitor, with its own probability.
    """

    evaluation_id: str
    evaluator: str
    evaluator_version: str
    scope: Scope
    monitor: str
    subject: Subject
    outcome: Status
    score: float | None = None
    label: str | None = None
    passed: bool | None = None
    explanation: str | None = None
    reason: str | None = None
    error: ErrorDetail | None = None
    method: Method | None = None
    raw_score: float | None = None
    range: tuple[float, float] | None = None
    kept_mass: float | None = None
    details: Mapping[str, Json] = field(default_factory=dict[str, Json])
    judge: JudgeStamp | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    sampling: Sampling = Sampling()
    supersedes: tuple[str, ...] = ()
    retry: Retry | None = None
    started_at: datetime
    ended_at: datetime
    happened_at: datetime | None = None
    attributes: Mapping[str, Json] = field(default_factory=dict[str, Json])
    escalation: Escalation | None = None
    shares: str | None = None

    @property
    def reason_code(self) -> str:
        """Why there is no score, in a word: the error's type, or a skip's reason without details; "" for a score."""
        if self.error is not None:
            return self.error.type
        return code_of(self.reason) if self.reason else ""

    @property
    def is_lost(self) -> bool:
        """Whether the subject should have got a score and has none."""
        return self.outcome == "failed" or self.reason_code in LOSSES

    @property
    def replaced_loss_at(self) -> datetime | None:
        """When the failure or loss ended in whose place alerts count this evaluation, if there is one."""
        # A backfill without a score replaces nothing: alerts do not count it.
        is_in_alerts = self.score is not None or self.happened_at is None
        return self.retry.failed_at if self.retry is not None and is_in_alerts else None

    @property
    def unshown(self) -> float:
        """The share of the case that the score does not cover: its judge was not shown it, or could not decide by what
        it was shown. From 0 to 1.
        """
        share = self.details.get("unshown")
        return min(1.0, max(0.0, share)) if isinstance(share, float) else 0.0

    @property
    def is_unpriced(self) -> bool:
        """Whether it has an unknown cost. Without a request, as while a circuit breaker is open, it costs nothing."""
        return self.cost_usd is None and self.usage not in (None, Usage())

    @property
    def time(self) -> datetime:
        """The time that the evaluation belongs to: when it was made, or for a backfill when its subject ended."""
        return self.happened_at or self.ended_at


Opinion = Literal["agree", "disagree"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A person's label of an evaluation, with the judge's own words beside it so that the two can be compared.

    `opinion` is about the judge's verdict, `score` the person's own on [0, 1]; at least one of these or a `note` is
    set. `judge_score` and `judge_passed` are None if the judge gave none. If one person (`given_by`, None if unknown)
    labels an evaluation several times, the label with the latest `given_at` counts. `sampling` is how the labelled
    subject came to be judged; `label_probability` is the probability, in (0, 1], with which its evaluation was then
    drawn to be labelled, None if a person picked it: such a label says nothing about a mean. A `retracted` label takes
    that person's label of the evaluation back. `judge_tokens` is how many tokens the judge read in a call, `audit` is
    the audit in the evaluation's details, `attributes` and `happened_at` are the evaluation's.

    Raises:
        ValueError: there is nothing in it, or `score` or `label_probability` is out of range.
    """

    label_id: str
    evaluation_id: str
    evaluator: str
    evaluator_version: str
    scope: Scope
    monitor: str
    subject: Subject
    opinion: Opinion | None = None
    score: float | None = None
    note: str | None = None
    judge_score: float | None = None
    judge_passed: bool | None = None
    judge: JudgeStamp | None = None
    judge_tokens: float | None = None
    sampling: Sampling = Sampling()
    label_probability: float | None = None
    given_by: str | None = None
    given_at: datetime
    state: Literal["retracted"] | None = None
    audit: Mapping[str, Json] | None = None
    happened_at: datetime | None = None
    attributes: Mapping[str, Json] = field(default_factory=dict[str, Json])

    def __post_init__(self) -> None:
        if self.label_probability is not None and not 0.0 < self.label_probability <= 1.0:
            raise ValueError(f"a probability lies in (0, 1], not {self.label_probability!r}")
        if self.opinion is None and self.score is None and not self.note and self.state is None:
            raise ValueError("a label says agree or disagree, gives a score, or has a note")
        if self.score is not None and not 0.0 <= self.score <= 1.0:
            raise ValueError(f"a score lies in [0, 1], not {self.score!r}")
