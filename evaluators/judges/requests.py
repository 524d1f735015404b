"""The content of a request and the messages of a question: the start of every wire format with written answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from pydantic import BaseModel

from evaluators.answers.schemas import LONGEST_ANSWER, bounded_schema
from evaluators.asking import prompt_isolation
from evaluators.asking.sight import image_parts
from evaluators.cases import Json
from evaluators.judge import Prompt
from evaluators.judges.capabilities import FEATURE_NAMES, Capabilities
from evaluators.judges.chats import GO, Chat
from evaluators.packs.packed_prompt import PackPrompt


@dataclass(frozen=True, slots=True)
class Request:
    """The requested answer, apart from the messages and from what the endpoint can do."""

    model: str
    temperature: float
    max_tokens: int | None
    logprobs: bool
    form: str
    schema: Mapping[str, Json]
    extra: Mapping[str, Json]
    optional: Mapping[str, Json] = field(default_factory=dict[str, Json])
    reply: type[BaseModel] | None = None
    """The form of the answer; None for a pack's answer."""
    shared: str = ""
    """The beginning of the user's message that all questions about the same subject share."""
    constant: bool = False
    """Whether it holds nothing of a case: others then wait for its answer, which is kept."""
    alone: bool = False
    """Whether the verdict is asked for without its reasons."""
    most_alternatives: int | None = None
    """The most useful number of alternatives per token, if token probabilities are wanted; None for all."""

    def alternatives(self, available: int) -> int:
        """How many alternatives per token to ask for, at most as many as the endpoint gives; 0 for none."""
        if not self.logprobs:
            return 0
        return available if self.most_alternatives is None else min(available, self.most_alternatives)

    def features_used(self, samples: int, features: Capabilities) -> frozenset[str]:
        """The names of features that it makes use of."""
        return _features(self.alternatives(features.top_logprobs) > 0, self.max_tokens is not None, samples > 1)

    def shaped(self, *, bounded: bool) -> "Request":
        """The request with the schema of its answer, with or without bounds on texts and lists; a pack's request stays
        unchanged.
        """
        if self.reply is None or not (bounded or self.alone):
            return self
        keyed = prompt_isolation.ANSWER_KEY in self.schema["properties"]
        limit = (self.max_tokens or LONGEST_ANSWER) if bounded else None
        return replace(self, schema=bounded_schema(self.reply, keyed=keyed, alone=self.alone, max_tokens=limit))


@cache
def _features(top_logprobs: bool, limit: bool, multiple_choices: bool) -> frozenset[str]:
    unused = {
        "top_logprobs": not top_logprobs, "limit": not limit, "multiple_choices": not multiple_choices, "bounds": True,
    }  # fmt: skip
    return frozenset([name for name in FEATURE_NAMES if not unused.get(name, False)])


@dataclass(frozen=True, slots=True)
class Question:
    """The messages of a question, and the key that its answer has to carry; None if it has none."""

    chat: Chat
    key: str | None = None
    shared: str = ""


SUBJECT_FIRST_REVISION = 1
"""Counts changes of questions that begin with their subject."""
_FRAME = "You judge material by instructions that come after it, and answer in the form they give."


def subject_first_model(model: str) -> str:
    """The name in identities of a model that is shown the subject first, since its scores may differ."""
    return f"{model} (subject first {SUBJECT_FIRST_REVISION})"


def question_with_subject_first(prompt: Prompt, secret: bytes, *, keyed: bool) -> Question:
    """The subject first and the instructions after it, so that questions about one subject share a cached prefix."""
    if prompt.constant:
        return _question(prompt, GO)
    isolated = prompt_isolation.wrap_subject_first(prompt.instructions, prompt.material, secret, keyed=keyed)
    rest = " ".join(
        filter(None, (isolated.rest, prompt.reminder, isolated.key and prompt_isolation.key_request(isolated.key)))
    )
    user: Json = isolated.shared + rest
    if prompt.media:
        user = [{"type": "text", "text": user}, *image_parts(prompt.media)]
    chat: Chat = [{"role": "system", "content": _FRAME}, {"role": "user", "content": user}]
    return Question(chat, isolated.key, isolated.shared)


def question_of(prompt: Prompt, secret: bytes | None = None, marker: str | None = None) -> Question:
    """The fixed part first and alone, so that providers' prompt caches hit; the material after it, in its fence.

    With a `secret` a question about judged text has a key. Without it, `marker` marks its fence; None draws a random
    one.
    """
    if prompt.constant:
        return _question(prompt, GO)
    if secret is None:
        return _question(prompt, prompt_isolation.wrap_untrusted(prompt.material, marker))
    return _question(prompt, *prompt_isolation.wrap_with_key(prompt.instructions, prompt.material, secret))


def messages_of_pack(
    pack: PackPrompt, secret: bytes | None = None, marker: str | None = None
) -> tuple[Chat, tuple[str, ...] | None]:
    """The messages for the questions of a pack: the case once, and each question with its own key; None without
    keys.
    """
    if secret is None:
        return _question(pack, prompt_isolation.wrap_untrusted(pack.material, marker)).chat, None
    message, keys = prompt_isolation.wrap_with_keys(pack.instructions, pack.material, secret, len(pack.questions))
    request = prompt_isolation.keys_request(dict(zip(pack.names, keys, strict=True)))
    *before, last = _question(pack, message).chat
    return [*before, {**last, "content": f"{last['content']} {request}"}], keys


def _question(prompt: Prompt, message: str, key: str | None = None) -> Question:
    user: Json = f"{message} {prompt.reminder}" if prompt.reminder else message
    if prompt.media:
        user = [{"type": "text", "text": user}, *image_parts(prompt.media)]
    return Question([{"role": "system", "content": prompt.instructions}, {"role": "user", "content": user}], key)
