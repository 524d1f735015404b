"""The body of a chat completion request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evaluators.cases import Json
from evaluators.judge import Prompt
from evaluators.judges.capabilities import Capabilities
from evaluators.packs.packed_prompt import PackPrompt
from evaluators.prompt_isolation import keys_request, wrap_untrusted, wrap_with_key, wrap_with_keys
from evaluators.sight import image_parts

Chat = list[dict[str, Json]]
"""The messages of a request."""

GO = "Do what the instructions ask, and answer in the form they give."
"""The last sentence to a judge that has been given no material."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for, apart from the messages and from what the endpoint can do."""

    model: str
    temperature: float
    max_tokens: int | None
    logprobs: bool
    form: str
    schema: Mapping[str, Json]
    extra: Mapping[str, Json]
    optional: Mapping[str, Json] = field(default_factory=dict[str, Json])

    def body(self, chat: Chat, features: Capabilities, samples: int) -> dict[str, Json]:
        """The request's JSON."""
        body: dict[str, Json] = {"model": self.model, "messages": chat}
        if features.temperature:
            body["temperature"] = self.temperature
        if self.max_tokens is not None and features.limit is not None:
            body[features.limit] = self.max_tokens
        if self.logprobs and features.top_logprobs:
            body |= {"logprobs": True, "top_logprobs": features.top_logprobs}
        if samples > 1 and features.several:
            body["n"] = samples
        if features.format == "json_schema":
            described = {"name": self.form, "strict": True, "schema": self.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": described}
        elif features.format == "json_object":
            body["response_format"] = {"type": "json_object"}
        body |= {name: self.optional[name] for name in features.optional}
        return body | dict(self.extra)


@dataclass(frozen=True, slots=True)
class Question:
    """The messages of a question, and the key that its answer has to carry; None if it has none."""

    chat: Chat
    key: str | None = None


def text_of(message: Mapping[str, Json]) -> str:
    """The text of a chat message, without its pictures."""
    content = message["content"]
    return content if isinstance(content, str) else str(content[0]["text"])


def question_of(prompt: Prompt, secret: bytes | None = None) -> Question:
    """The fixed part first and alone, so that providers' prompt caches hit; the material after it, in its fence.

    With a `secret` a question about judged text has a key.
    """
    if prompt.constant:
        return _question(prompt, GO)
    if secret is None:
        return _question(prompt, wrap_untrusted(prompt.material))
    isolated = wrap_with_key(prompt.instructions, prompt.material, secret)
    return _question(prompt, isolated.message, isolated.key)


@dataclass(frozen=True, slots=True)
class PackMessages:
    """The messages of a pack, and the key of each of its questions; None if they have none."""

    chat: Chat
    keys: tuple[str, ...] | None = None


def messages_of_pack(pack: PackPrompt, secret: bytes | None = None) -> PackMessages:
    """The same for the questions of a pack: the case once, each question with a key of its own."""
    if secret is None:
        return PackMessages(_question(pack, wrap_untrusted(pack.material)).chat)
    isolated = wrap_with_keys(pack.instructions, pack.material, secret, len(pack.questions))
    keys = keys_request(dict(zip(pack.names, isolated.keys, strict=True)))
    chat = _question(pack, isolated.message).chat
    return PackMessages([*chat[:-1], {**chat[-1], "content": f"{chat[-1]['content']} {keys}"}], isolated.keys)


def _question(prompt: Prompt, message: str, key: str | None = None) -> Question:
    user: Json = f"{message} {prompt.reminder}" if prompt.reminder else message
    if prompt.media:
        user = [{"type": "text", "text": user}, *image_parts(prompt.media)]
    return Question([{"role": "system", "content": prompt.instructions}, {"role": "user", "content": user}], key)
