"""The port to a model that answers an evaluator's question."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from pydantic import BaseModel

from evaluators.cases import Attachment, Json
from evaluators.errors import JudgeRejected
from evaluators.questions import Decision, QuestionGroup
from evaluators.results import Usage

R = TypeVar("R", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A question to a judge.

    `instructions` is evalstream's reviewed text, the same for every case of an evaluator, so that providers can cache
    it; it becomes the system message and is hashed. `material` is the judged text: untrusted, and sent only as JSON
    inside a fence that it cannot close. A prompt without material is `constant`: its answer may be kept and used again.

    `temperature` and `max_tokens` (of the answer) override the judge's own; None leaves them to the judge. `reminder`
    is a sentence about the form of the answer, placed after the material; it is not hashed. `media` are pictures that
    follow the material, in which `attachments` lists them: see `evaluators.asking.sight`.

    `groups` are the question in typed form, if it has one: a judge that decides takes them in place of the
    instructions. Each group has one evaluator's questions about the subject.
    """

    instructions: str
    material: Mapping[str, Json] = field(default_factory=dict[str, Json])
    temperature: float | None = None
    max_tokens: int | None = None
    reminder: str = ""
    groups: tuple[QuestionGroup, ...] = ()
    media: tuple[Attachment, ...] = ()

    @property
    def constant(self) -> bool:
        """Whether the prompt holds nothing of the judged case."""
        return not self.material

    @property
    def answers(self) -> int:
        """How many questions the prompt holds: one, unless it is a pack's prompt."""
        return 1

    @property
    def hash(self) -> str:
        """16 hex digits of SHA-256 over the fixed part."""
        return _hash_of(self.instructions)


@lru_cache(maxsize=1000)  # instructions are the same for every case of an evaluator
def _hash_of(instructions: str) -> str:
    return hashlib.sha256(instructions.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token with the alternatives the model weighed: natural-log probabilities by token text."""

    text: str
    logprob: float
    alternatives: tuple[tuple[str, float], ...] = ()


def texts_of(tokens: Sequence[Token]) -> Sequence[str]:
    """The texts of tokens. Lazy tokens give their texts without building the tokens."""
    texts: Sequence[str] | None = getattr(tokens, "texts", None)
    return [token.text for token in tokens] if texts is None else texts


@dataclass(frozen=True, slots=True)
class Answer(Generic[R]):
    """One answer: the parsed reply, its text, and its tokens if the judge gives them.

    `decisions` are set if the judge answered the prompt's typed questions: one decision for each, in their order.
    `alone` says that the judge was asked again for the bare verdict, as its first answer was cut off in the reasons.
    """

    reply: R
    text: str
    tokens: Sequence[Token] = ()
    decisions: tuple[Decision, ...] = ()
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Verdict(Generic[R]):
    """The judge's response: one answer per sample, at least one; the model that gave it, and its usage."""

    answers: Sequence[Answer[R]]
    model: str
    fingerprint: str | None = None
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None

    @property
    def reply(self) -> R:
        """The first answer's reply."""
        return self.answers[0].reply


class Judge(Protocol):
    """A model that answers questions. Wrappers (retry, limits, cache) are judges around a judge."""

    @property
    def model(self) -> str:
        """The configured model name; part of an evaluation's identity."""
        ...

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Ask once, or `samples` times; each answer is parsed as `reply`.

        With `logprobs` the answers carry tokens if the model gives them; else the caller falls back, and says so.

        Raises:
            JudgeUnavailable: there is no answer now. JudgeRejected: there will be no answer. JudgeReplyInvalid: no
            answer parses as `reply`, after one repair attempt.
        """
        ...


def takes_packs(judge: Judge) -> bool:
    """Whether a judge can be asked a `PackPrompt`: it says so by an attribute `takes_packs`."""
    return bool(getattr(judge, "takes_packs", False))


def decides(judge: Judge) -> bool:
    """Whether a judge answers typed questions by probabilities: it says so by an attribute `decides`."""
    return bool(getattr(judge, "decides", False))


class WholeJudge:
    """A judge that refuses single questions: `evaluators.evaluate` knows how it judges a whole case."""

    refusal: ClassVar[str]

    async def ask(self, *_: Any, **_options: Any) -> Verdict[Any]:
        """Refuse.

        Raises:
            JudgeRejected: always.
        """
        raise JudgeRejected(self.refusal)


class NoJudge(WholeJudge):
    """The judge of evaluators in code, which ask no question."""

    refusal = "this evaluator has no judge"
    model = ""
