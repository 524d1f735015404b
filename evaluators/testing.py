"""For tests: assertions about scores, a judge that answers by a script, and short ways to make cases."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from typing import Any, ClassVar, TypeAlias, cast
from urllib.parse import urlsplit

import orjson
from pydantic import BaseModel

from evaluators.answers.reply_parser import parse_answer
from evaluators.asking.judge_input import cut
from evaluators.asking.prompt_isolation import ANSWER_KEY
from evaluators.asking.sight import BLIND, Sight
from evaluators.cases import Conversation, Json, Turn
from evaluators.errors import BrokenPromise, JudgeReplyInvalid
from evaluators.evaluation import evaluate, evaluate_sync, refuse_in_event_loop
from evaluators.evaluator import Evaluator
from evaluators.identity import evaluation_id_of
from evaluators.judge import Answer, Judge, Prompt, R, Token, Verdict
from evaluators.judges.chats import Chat, text_of
from evaluators.judges.completions import Choice
from evaluators.judges.requests import Question, question_of, question_with_subject_first
from evaluators.packs.ask_pack import ask_pack
from evaluators.packs.packed_prompt import NamedQuestion, PackPrompt, PackReply
from evaluators.results import Failure, Outcome, Score, Skipped, Usage

_LONGEST_EXCERPT = 300
"""Characters of a text that a failed assertion shows."""
_KEYLESS = f"OpenAIJudge(…, {ANSWER_KEY}=False)"
_NO_SECRET = b"a scripted judge without keys"


def assert_score(
    case: Turn | Conversation,
    evaluator: Evaluator[Any],
    judge: Judge | None = None,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Score:
    """Assert that a case gets a score on the right side of a bound; a failure shows the judge's reason, or the bug.

    Without bounds the evaluator's own threshold holds. Both bounds are on the score's 0..1. In an async test use
    `assert_score_async`. This one is not asynchronous because a test that forgets to await an assertion passes.

    Raises:
        AssertionError: the score is on the wrong side, or there is no score. ValueError: there are no bounds, and the
        evaluator has no threshold. RuntimeError: an event loop is running here.
    """
    __tracebackhide__ = True  # pytest shows the test's own line
    refuse_in_event_loop("assert_score(…)", "await assert_score_async(…)")
    bounds = _bounds(evaluator, at_least, at_most)
    return _within(evaluate_sync(evaluator, case, judge).outcome, bounds, case, evaluator, judge)


async def assert_score_async(
    case: Turn | Conversation,
    evaluator: Evaluator[Any],
    judge: Judge | None = None,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Score:
    """Assert like `assert_score`, in an event loop."""
    __tracebackhide__ = True
    bounds = _bounds(evaluator, at_least, at_most)
    return _within((await evaluate(evaluator, case, judge)).outcome, bounds, case, evaluator, judge)


def _bounds(evaluator: Evaluator[Any], at_least: float | None, at_most: float | None) -> tuple[float, float]:
    """The least and the most that a score may be."""
    if not isinstance(cast("object", evaluator), Evaluator):
        raise TypeError("the case comes first: write assert_score(turn, evaluator, judge)")
    for name, bound in (("at_least", at_least), ("at_most", at_most)):
        if bound is not None and not 0.0 <= bound <= 1.0:
            raise ValueError(f"{name}={bound:g}: a score is from 0 to 1; for 7 of 10 write {name}=0.7")
    if at_least is None and at_most is None:
        if evaluator.threshold is None:
            raise ValueError(f"{evaluator.name} has no threshold; say at_least=… or at_most=…")
        return (evaluator.threshold, 1.0) if evaluator.direction == "higher_is_better" else (0.0, evaluator.threshold)
    return (0.0 if at_least is None else at_least, 1.0 if at_most is None else at_most)


def _within(
    outcome: Outcome,
    bounds: tuple[float, float],
    case: Turn | Conversation,
    evaluator: Evaluator[Any],
    judge: Judge | None,
) -> Score:
    __tracebackhide__ = True
    least, most = bounds
    match outcome:
        case Score() if least <= outcome.value <= most:
            return outcome
        case Score():
            bound = f"at least {least:g}" if outcome.value < least else f"at most {most:g}"
            head, reason = f"{evaluator.name} scores {outcome.value:.3g}, {bound} is required", outcome.explanation
        case Skipped(reason=why):
            head, reason = f"{evaluator.name} gives no score: skipped", why
        case Failure(type=kind, message=message):
            url = urlsplit(getattr(judge, "base_url", None) or "")
            address = url._replace(netloc=url.netloc.rpartition("@")[2], query="").geturl()
            where = f" (judge at {address})" if url.netloc else ""
            remedy = f"; for a model too weak for this: {_KEYLESS}" if url.netloc and ANSWER_KEY in message else ""
            head, reason = f"{evaluator.name} gives no score: {kind}", f"{message}{where}{remedy}"
    lines = [head, f"reason: {reason or 'none given'}", *_excerpts(case)]
    lines.append(f"evaluation: {evaluation_id_of(evaluator, case, judge)}")
    raise AssertionError("\n  ".join(lines)) from (outcome.cause if isinstance(outcome, Failure) else None)


def _excerpts(case: Turn | Conversation) -> list[str]:
    """The last exchange, shortened."""
    turn = case if isinstance(case, Turn) else case.turns[-1] if case.turns else Turn()
    texts = {"input": turn.input, "actual_output": turn.actual_output}
    return [f"{name}: {cut(text, _LONGEST_EXCERPT)}" for name, text in texts.items() if text is not None]


@dataclass(frozen=True, slots=True)
class ScriptedAnswer:
    """A judge's answer: its text and its tokens."""

    text: str
    tokens: Sequence[Token] = ()


ScriptLine: TypeAlias = "str | dict[str, Json] | ScriptedAnswer | Exception"
"""One answer of a script: a text, a JSON object, a text with tokens, or an error to raise."""

Script: TypeAlias = "Callable[[Prompt, type[BaseModel]], ScriptLine] | Iterable[ScriptLine] | ScriptLine"


@dataclass(frozen=True, slots=True)
class RecordedQuestion:
    """A question that was put to a scripted judge, and the user message that a real one would have read."""

    prompt: Prompt
    reply: type[BaseModel]
    message: str
    logprobs: bool
    samples: int


class ScriptEnded(BrokenPromise, AssertionError):
    """A scripted judge gets more questions than its script has answers."""


@dataclass
class ScriptedJudge:
    """A judge that answers from a function of prompt and form, from a list, or always the same.

    Its answers are read by the same rules as a real judge's, without the repair. With a `secret` each must carry its
    question's key, as a real judge's answer must: see `with_answer_key`. With `subject_first` messages begin with the
    judged text, as with that setting of a judge. `sight` says which pictures it is shown. `questions` are the questions
    so far, in order. Each answer costs 100 input and 20 output tokens.

    Raises:
        ScriptEnded: the list is at its end.
    """

    script: Script
    model: str = "scripted"
    fingerprint: str | None = None
    cost_usd: float | None = None
    secret: bytes | None = None
    sight: Sight = BLIND
    subject_first: bool = False
    questions: list[RecordedQuestion] = field(default_factory=list[RecordedQuestion])

    def __post_init__(self) -> None:
        self._lines = self._answers(self.script)

    def _answers(self, script: Script) -> Callable[[Prompt, type[BaseModel]], ScriptLine]:
        if callable(script):
            return script
        if isinstance(script, str | dict | ScriptedAnswer | Exception):
            line = cast("ScriptLine", script)
            return lambda _prompt, _reply: line
        lines = iter(script)

        def following(prompt: Prompt, _reply: type[BaseModel]) -> ScriptLine:
            for line in lines:
                return line
            raise ScriptEnded(f"the script has no reply left, and the judge is asked: {cut(prompt.instructions, 100)}")

        return following

    takes_packs: ClassVar[bool] = True

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Answer by the script; in a pack, each question by itself."""
        if isinstance(prompt, PackPrompt):
            return cast("Verdict[R]", await self._ask_pack(prompt))
        question = self._question(prompt)
        message = "" if prompt.constant else text_of(question.chat[-1])
        self.questions.append(RecordedQuestion(prompt, reply, message, logprobs, samples))
        answers = [self._answer(prompt, reply, question.key, logprobs=logprobs) for _ in range(samples)]
        usage = Usage(input_tokens=100 * samples, output_tokens=20 * samples, calls=1)
        return Verdict(answers, self.model, self.fingerprint, usage, self.cost_usd)

    def _question(self, prompt: Prompt) -> Question:
        if self.subject_first:
            return question_with_subject_first(prompt, self.secret or _NO_SECRET, keyed=self.secret is not None)
        return question_of(prompt, self.secret)

    async def _ask_pack(self, pack: PackPrompt) -> Verdict[PackReply]:
        async def complete(chat: Chat, questions: Sequence[NamedQuestion]) -> Choice:
            self.questions.append(RecordedQuestion(pack, PackReply, text_of(chat[-1]), pack.logprobs, 1))
            by_name = {named.name: named.question for named in questions}
            entries = {name: _answer_of(self._lines(each.prompt, each.reply)) for name, each in by_name.items()}
            keys = {named.name: named.key for named in questions if named.key is not None}
            answer = packed_answer(entries, keys)
            return Choice(answer.text, tokens=answer.tokens)

        reply, choice = await ask_pack(pack, self.secret, complete)
        usage = Usage(input_tokens=100, output_tokens=20 * len(pack.questions), calls=1)
        return Verdict([Answer(reply, choice.text)], self.model, self.fingerprint, usage, self.cost_usd)

    def _answer(self, prompt: Prompt, reply: type[R], key: str | None, *, logprobs: bool) -> Answer[R]:
        line = self._lines(prompt, reply)
        answer = _answer_of(line)
        try:
            return parse_answer(answer.text, reply, key, answer.tokens if logprobs else ())
        except JudgeReplyInvalid as error:
            if not isinstance(line, dict) or line.keys() <= reply.model_fields.keys():
                raise
            keys = f"the script has {', '.join(line)}, the form {', '.join(reply.model_fields)}"
            raise JudgeReplyInvalid(f"{error}; {keys}", type=error.type) from None


def _answer_of(line: ScriptLine) -> ScriptedAnswer:
    if isinstance(line, Exception):
        raise line
    if isinstance(line, ScriptedAnswer):
        return line
    return ScriptedAnswer(line if isinstance(line, str) else orjson.dumps(line).decode())


def packed_answer(entries: Mapping[str, ScriptedAnswer], keys: Mapping[str, str]) -> ScriptedAnswer:
    """The answer to a pack that holds the answers to its questions, each with its key if it has one."""
    tokens: list[Token] = []
    spelt = all(entry.tokens for entry in entries.values())
    texts: list[str] = []
    for name, entry in entries.items():
        head = ("{" if not texts else ", ") + f'"{name}": '
        brace = entry.text.find("{") + 1
        if name in keys and brace:
            comma = "" if entry.text[brace:].lstrip().startswith("}") else ", "
            head += f'{entry.text[:brace]}"{ANSWER_KEY}": "{keys[name]}"{comma}'
        else:
            brace = 0
        texts.append(head + entry.text[brace:])
        if spelt:
            first, *others = entry.tokens
            rest = [replace(first, text=first.text[brace:])] if first.text[brace:] else []
            tokens += [_certain(head), *rest, *others]
    return ScriptedAnswer("".join(texts) + "}", [*tokens, _certain("}")] if spelt else ())


def _certain(text: str) -> Token:
    return Token(text, 0.0, ((text, 0.0),))


_KEY_REQUEST = re.compile(rf'"{ANSWER_KEY}": "([0-9a-f]+)"')


def required_answer_key(message: str) -> str | None:
    """The key that a message to the judge requires of its answer; None if it requires none."""
    keys = _KEY_REQUEST.findall(message)
    return keys[-1] if keys else None


def with_answer_key(message: str, answer: str) -> str:
    """An answer with the key that a message to the judge requires, for endpoints that play a judge in tests.

    An answer that is no JSON object, or that answers a message without a key, stays unchanged. In an answer to a pack,
    each entry gets its own key.
    """
    if keys := required_answer_keys(message):
        return _with_entry_keys(answer, keys)
    key = required_answer_key(message)
    start = answer.find("{")
    if key is None or start < 0:
        return answer
    rest = answer[start + 1 :]
    comma = "" if rest.lstrip().startswith("}") else ", "
    return f'{answer[: start + 1]}"{ANSWER_KEY}": "{key}"{comma}{rest}'


def _with_entry_keys(answer: str, keys: Mapping[str, str]) -> str:
    try:
        entries = orjson.loads(answer)
    except orjson.JSONDecodeError:
        return answer
    if not isinstance(entries, dict):
        return answer
    keyed: dict[str, Any] = {
        name: {ANSWER_KEY: keys[name], **cast("dict[str, Any]", entry)}
        if name in keys and isinstance(entry, dict)
        else entry
        for name, entry in cast("dict[str, Any]", entries).items()
    }
    return orjson.dumps(keyed).decode()


_KEYS_REQUEST = re.compile(rf'"(q[0-9]{{1,9}})": {{"{ANSWER_KEY}": "([0-9a-f]+)", …}}')


def required_answer_keys(message: str) -> dict[str, str]:
    """The keys that a message to the judge requires of the entries of its answer to a pack, by their names."""
    return dict(_KEYS_REQUEST.findall(message))


def answer_any_form(*, best: bool = True) -> Callable[[Prompt, type[BaseModel]], ScriptLine]:
    """A script that fills in any form: numbers at one end of their range, the first or the last of each set of words.

    Lists have as many items as required, at least one.
    """

    def answer(_prompt: Prompt, reply: type[BaseModel]) -> ScriptLine:
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
            needed = node.get("required", ())
            return {name: _filled(node["properties"][name], definitions, best=best) for name in needed}
        case "array":
            return [_filled(node["items"], definitions, best=best) for _ in range(node.get("minItems", 1))]
        case "integer":
            return node["maximum" if best else "minimum"]
        case "number":
            return 1.0
        case "boolean":
            return best
        case _:
            return "because"


_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def a_turn(input: str = "What is the capital of France?", actual_output: str | None = "Paris.", **fields: Any) -> Turn:
    """A turn with a question, an answer and the given further fields."""
    return replace(Turn(turn_id="turn-1", input=input, actual_output=actual_output), **fields)


def a_conversation(*exchanges: tuple[str, str | None], **fields: Any) -> Conversation:
    """A conversation of (input, output) pairs; other fields by name."""
    numbers = count(1)
    turns = tuple(a_turn(question, answer, turn_id=f"turn-{next(numbers)}") for question, answer in exchanges)
    return replace(Conversation(conversation_id="conversation-1", turns=turns), **fields)


def a_moment() -> datetime:
    """A time that does not pass."""
    return _EPOCH
