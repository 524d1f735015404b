"""The answer to a pack, read question by question: what one of them lacks or breaks is its own failure alone.

A question's entry is found by its name and its key together, wherever it stands: an entry under another's name
or with another's key is nobody's. Each entry becomes the answer that the question would have got alone, with the
tokens that spell it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict

from evaluators.answers.decided_answers import decided_answer
from evaluators.answers.reply_parser import LONGEST, end_of_reasoning, entry_spans, object_end, parse_answer
from evaluators.asking.prompt_isolation import ANSWER_KEY
from evaluators.errors import JudgeReplyInvalid
from evaluators.judge import Answer, Token
from evaluators.packs.packed_prompt import NamedQuestion, PackedQuestion
from evaluators.packs.token_slices import TokenSlices
from evaluators.questions import Decision

Entry: TypeAlias = Answer[Any] | JudgeReplyInvalid
"""The result for a question of a pack: its answer, or the fault in it."""


class PackReply(BaseModel):
    """The result of a pack: an entry for each question, in their order.

    `unreached` are the numbers of questions that an answer, cut off at its length limit, never came to the end of.
    """

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    entries: tuple[Any, ...] = ()
    unreached: frozenset[int] = frozenset()

    @property
    def complete(self) -> bool:
        """Whether every question has its answer."""
        return all(isinstance(entry, Answer) for entry in self.entries)


def decided_entries(questions: Sequence[PackedQuestion], decisions: Sequence[Decision]) -> Sequence[Entry]:
    """The entries that the decisions on a pack's typed questions make, in their order: a refusal is one question's."""
    entries: list[Entry] = []
    at = 0
    for question in questions:
        typed = question.prompt.groups[0].questions
        try:
            entries.append(decided_answer(question.reply, typed, decisions[at : at + len(typed)]))
        except JudgeReplyInvalid as error:
            entries.append(error)
        at += len(typed)
    return entries


def read_pack(
    text: str, tokens: Sequence[Token], questions: Sequence[NamedQuestion], *, cut: bool = False
) -> Mapping[str, Entry]:
    """The entries of a pack's answer by the names of the questions.

    `cut` says that the answer was cut off at its length limit: then so is the entry that it ends in, and those that it
    never came to are missing.
    """
    if len(text) > LONGEST:
        return {
            question.name: JudgeReplyInvalid(f"the answer is longer than {LONGEST} characters")
            for question in questions
        }
    spans = _spans(text, questions)
    slices = TokenSlices(text, tokens)
    starts = sorted(start for start, _ in spans.values())
    entries: dict[str, Entry] = {}
    for question in questions:
        if question.name in spans:
            start, end = spans[question.name]
            stop = next((later for later in starts if later > start), None)
            try:
                entries[question.name] = _entry(text, start, end, stop, question, slices, cut=cut)
            except JudgeReplyInvalid as error:
                entries[question.name] = error
        elif not cut:
            entries[question.name] = JudgeReplyInvalid(_absence(question))
    return entries


def _entry(
    text: str, start: int, end: int | None, stop: int | None, named: NamedQuestion, slices: TokenSlices, *, cut: bool
) -> Answer[Any]:
    question = named.question
    if end is not None:
        tokens = slices.between(start, end) if question.logprobs else ()
        return parse_answer(text[start:end], question.reply, named.key, tokens)
    if cut and stop is None:
        raise JudgeReplyInvalid("the answer was cut off at its length limit", type="judge_reply_truncated")
    broken = text[start:stop]  # with the name of the next entry, which is cut off
    return parse_answer(broken[: broken.rfind("}") + 1] or broken, question.reply, named.key)


def _absence(named: NamedQuestion) -> str:
    with_key = "" if named.key is None else f' that begins with the "{ANSWER_KEY}" of this question'
    return f'the answer has no entry "{named.name}"{with_key}'


def _spans(text: str, questions: Sequence[NamedQuestion]) -> dict[str, tuple[int, int | None]]:
    """The positions of the entries, by name; the end is None if an entry is broken.

    A name that is there twice, with entries that differ, has none.
    """
    keys = {question.name: question.key for question in questions}
    if None in keys.values():
        try:
            return {name: span for name, span in entry_spans(text).items() if name in keys}
        except JudgeReplyInvalid:
            return {}
    starts_by_name: dict[str, list[int]] = {}
    for match in _KEYED_ENTRY.finditer(text, end_of_reasoning(text)):
        if keys.get(match["name"]) == match["key"]:
            starts_by_name.setdefault(match["name"], []).append(match.start("entry"))
    spans: dict[str, tuple[int, int | None]] = {}
    for name, starts in starts_by_name.items():
        ends = [object_end(text, start) for start in starts[:_MOST_REPEATED]]
        if len({text[start:end] for start, end in zip(starts, ends, strict=False)}) == 1:
            spans[name] = starts[0], ends[0]
    return spans


_MOST_REPEATED = 4  # entries that are given again; beyond, they are taken for the same
_KEYED_ENTRY = re.compile(
    rf'"(?P<name>q[0-9]{{1,9}})"\s*+:\s*+(?P<entry>\{{\s*+"{ANSWER_KEY}"\s*+:\s*+"(?P<key>[0-9a-f]{{1,64}})")'
)
