"""For tests: a judge that answers by a script, and short ways to make turns and conversations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from typing import Any, TypeAlias, cast

import orjson
from pydantic import BaseModel

from evaluators.cases import Conversation, Json, Turn
from evaluators.fence import fenced
from evaluators.judge import Answer, Prompt, R, Token, Verdict
from evaluators.outcome import Usage
from evaluators.reading import read


@dataclass(frozen=True, slots=True)
class Said:
    """What a judge says: the text of its answer, and its tokens."""

    text: str
    tokens: Sequence[Token] = ()


Line: TypeAlias = "str | dict[str, Json] | Said | Exception"
"""One answer of a script: a text, a JSON object, a text with tokens, or an error to raise."""

Script: TypeAlias = "Callable[[Prompt, type[BaseModel]], Line] | Iterable[Line] | Line"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that was put to a scripted judge, and the user message that a real one would have read."""

    prompt: Prompt
    reply: type[BaseModel]
    message: str
    logprobs: bool
    samples: int


@dataclass
class ScriptedJudge:
    """A judge that answers from a function of prompt and form, from a list, or always the same.

    Its answers are read by the same rules as a real judge's, without the repair. `asked` holds what it was asked, in
    order. Each answer costs 100 input and 20 output tokens.

    Raises:
        AssertionError: the list is at its end.
    """

    script: Script
    model: str = "scripted"
    fingerprint: str | None = None
    cost_usd: float | None = None
    asked: list[Asked] = field(default_factory=list[Asked])

    def __post_init__(self) -> None:
        self._lines = self._answers(self.script)

    def _answers(self, script: Script) -> Callable[[Prompt, type[BaseModel]], Line]:
        if callable(script):
            return script
        if isinstance(script, str | dict | Said | Exception):
            line = cast("Line", script)
            return lambda _prompt, _reply: line
        lines = iter(script)

        def following(_prompt: Prompt, _reply: type[BaseModel]) -> Line:
            for line in lines:
                return line
            raise AssertionError("the judge was asked more than its script answers")

        return following

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Answer by the script."""
        message = "" if prompt.constant else fenced(prompt.material)
        self.asked.append(Asked(prompt, reply, message, logprobs, samples))
        answers = [self._answer(prompt, reply, logprobs=logprobs) for _ in range(samples)]
        usage = Usage(input_tokens=100 * samples, output_tokens=20 * samples, calls=1)
        return Verdict(answers, self.model, self.fingerprint, usage, self.cost_usd)

    def _answer(self, prompt: Prompt, reply: type[R], *, logprobs: bool) -> Answer[R]:
        line = self._lines(prompt, reply)
        if isinstance(line, Exception):
            raise line
        said = line if isinstance(line, Said) else Said(line if isinstance(line, str) else orjson.dumps(line).decode())
        return Answer(read(said.text, reply), said.text, said.tokens if logprobs else ())


def obliging(*, best: bool = True) -> Callable[[Prompt, type[BaseModel]], Line]:
    """A script that fills in any form: numbers at one end of their range, the first or the last of each set of words.

    Lists have as many items as they must, or one.
    """

    def answer(_prompt: Prompt, reply: type[BaseModel]) -> Line:
        schema = reply.model_json_schema()
        filled: Json = _filled(schema, schema.get("$defs", {}), best=best)
        return filled

    return answer


def _filled(node: Json, definitions: Json, *, best: bool) -> Json:
    if "$ref" in node:
        return _filled(definitions[node["$ref"].rpartition("/")[2]], definitions, best=best)
    if "enum" in node:
        return node["enum"][0 if best else -1]
    match node.get("type"):
        case "object":
            return {name: _filled(each, definitions, best=best) for name, each in node["properties"].items()}
        case "array":
            return [_filled(node["items"], definitions, best=best) for _ in range(node.get("minItems", 1))]
        case "integer":
            return node["maximum" if best else "minimum"]
        case _:
            return "because"


def verdict_tokens(score: str, alternatives: dict[str, float], reason: str = "It is so.", before: str = "") -> Said:
    """An answer whose score token weighed these alternatives, given as probabilities by token text.

    `before` is what the tokeniser puts before the digits in the same token, like a space.
    """
    head = f'{{"reason": "{reason}", "score":'
    head = head if before else head + " "
    chosen = before + score
    tokens = [
        Token(head, 0.0, ((head, 0.0),)),
        Token(
            chosen,
            math.log(alternatives.get(chosen, 1.0)),
            tuple((text, math.log(probability)) for text, probability in alternatives.items()),
        ),
        Token("}", 0.0, (("}", 0.0),)),
    ]
    return Said("".join(token.text for token in tokens), tokens)


_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def a_turn(input: str = "What is the capital of France?", actual_output: str | None = "Paris.", **fields: Any) -> Turn:
    """A turn with a question and an answer, and whatever else is given."""
    return replace(Turn(turn_id="turn-1", input=input, actual_output=actual_output), **fields)


def a_conversation(*exchanges: tuple[str, str | None], **fields: Any) -> Conversation:
    """A conversation of (input, output) pairs; other fields by name."""
    numbers = count(1)
    turns = tuple(a_turn(said, answered, turn_id=f"turn-{next(numbers)}") for said, answered in exchanges)
    return replace(Conversation(conversation_id="conversation-1", turns=turns), **fields)


def a_moment() -> datetime:
    """A time that does not pass."""
    return _EPOCH
