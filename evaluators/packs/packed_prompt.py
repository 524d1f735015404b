"""The prompt of a pack, with the judged material once and every question about it; and its answer, read question by
question.

A question's entry is found by its name and its key together, wherever it stands: an entry with another question's name
or key is ignored. Each entry becomes the answer that the question would have got alone, with the tokens that spell it;
a missing or broken entry fails its own question alone.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, TypeAlias, cast

from pydantic import BaseModel, ConfigDict

from evaluators.answers.alternatives import alternatives_for
from evaluators.answers.decided_answers import decided_answer
from evaluators.answers.reply_parser import LONGEST, end_of_reasoning, entry_spans, object_end, parse_answer
from evaluators.answers.schemas import rewritten, schema_of, schema_with_key
from evaluators.asking.prompt_isolation import ANSWER_KEY
from evaluators.cases import Json
from evaluators.errors import JudgeReplyInvalid
from evaluators.judge import Answer, Prompt, Token
from evaluators.packs.token_slices import TokenSlices
from evaluators.prompts import fill, load
from evaluators.questions import Decision, QuestionGroup

PACK_PROMPTS = ("pack.txt",)
"""The templates of a pack: part of the version of every evaluator in one."""

MOST_QUESTIONS = 50
"""The most questions of one request."""

_OWN_NAME = re.compile(r"q[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class PackedQuestion:
    """One question of a pack, as it would be asked alone."""

    prompt: Prompt
    reply: type[BaseModel]
    logprobs: bool = False


@dataclass(frozen=True, slots=True)
class NamedQuestion:
    """A question of a pack under its name, and the key that its entry has to carry; None if it has none."""

    name: str
    question: PackedQuestion
    key: str | None = None


@dataclass(frozen=True, slots=True)
class PackPrompt(Prompt):
    """The questions of a pack as one. `questions` are named q1, q2, … in their order.

    `instructions` has the instructions of all questions; `material` has each common field once, and under a question's
    name the fields that only this question is shown. `reminder` says which fields each question is about.
    """

    questions: tuple[PackedQuestion, ...] = ()

    @property
    def names(self) -> Sequence[str]:
        """The names of the questions."""
        return question_names(len(self.questions))

    @property
    def answers(self) -> int:
        """How many answers it asks for: one for each question."""
        return len(self.questions)

    def named(self, keys: Sequence[str] | None) -> Sequence[NamedQuestion]:
        """The questions under their names, with their keys."""
        every: Sequence[str | None] = [None] * len(self.questions) if keys is None else keys
        return [NamedQuestion(*name) for name in zip(self.names, self.questions, every, strict=True)]

    @property
    def logprobs(self) -> bool:
        """Whether any question wants token probabilities."""
        return any(question.logprobs for question in self.questions)

    @property
    def alternatives(self) -> int:
        """The most alternatives per token that any question with token probabilities needs."""
        return max((alternatives_for(question.reply) for question in self.questions if question.logprobs), default=0)

    def limit(self, usual: int | None) -> int | None:
        """The length limit of the answer, in tokens: the sum of its entries' limits; `usual` is the judge's own."""
        limits = [question.prompt.max_tokens or usual for question in self.questions]
        known = [limit for limit in limits if limit is not None]
        return sum(known) if len(known) == len(limits) else None


def question_names(count: int) -> Sequence[str]:
    """q1, q2, …"""
    return [f"q{number}" for number in range(1, count + 1)]


def pack_questions(questions: Sequence[PackedQuestion]) -> PackPrompt:
    """The prompt of a pack. All its questions have the same temperature: see `Pack`."""
    names = question_names(len(questions))
    shared = _shared_fields([question.prompt.material for question in questions])
    material: dict[str, Json] = dict(shared)
    about: list[str] = []
    reminders: dict[str, list[str]] = {}
    for name, question in zip(names, questions, strict=True):
        own = {field: value for field, value in question.prompt.material.items() if field not in shared}
        if own:
            material[name] = own
        fields = [field for field in question.prompt.material if field in shared]
        fields += [f"{name}.{field}" for field in own]
        about.append(f"{name}: {', '.join(fields)}")
        if question.prompt.reminder:
            reminders.setdefault(question.prompt.reminder, []).append(name)
    notes = [f"For {', '.join(those)}: {reminder}" for reminder, those in reminders.items()]
    return PackPrompt(
        instructions=_instructions(names, [question.prompt.instructions for question in questions]),
        material=material,
        temperature=questions[0].prompt.temperature,
        reminder=" ".join([f"The fields of each question: {'; '.join(about)}.", *notes]),
        groups=_groups(names, questions, shared),
        questions=tuple(questions),
    )


def _groups(
    names: Sequence[str], questions: Sequence[PackedQuestion], shared: Mapping[str, Json]
) -> tuple[QuestionGroup, ...]:
    """The typed form of the whole pack, a group for each question; none if an answer has to be written."""
    groups: list[QuestionGroup] = []
    for name, question in zip(names, questions, strict=True):
        if len(question.prompt.groups) != 1:
            return ()
        group = question.prompt.groups[0]
        own = [field for field in question.prompt.material if field not in shared]
        moved = "".join(f"\n`{field}` is the field `{name}.{field}` of the case." for field in own)
        groups.append(replace(group, guide=group.guide + moved, name=name))
    return tuple(groups)


def _shared_fields(materials: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    """The fields with the same content for every question that shows them, the most shown first."""
    values: dict[str, Json] = {}
    counts: dict[str, int] = {}
    differing: set[str] = set()
    for material in materials:
        for name, value in material.items():
            if _OWN_NAME.fullmatch(name) or (name in values and values[name] != value):
                differing.add(name)
            values.setdefault(name, value)
            counts[name] = counts.get(name, 0) + 1
    ordered = sorted((name for name in values if name not in differing), key=lambda name: -counts[name])
    return {name: values[name] for name in ordered}


def _instructions(names: Sequence[str], instructions: Sequence[str]) -> str:
    parts = [f"===== {name} =====\n{text.strip()}" for name, text in zip(names, instructions, strict=True)]
    form = ", ".join(f'"{name}": {{…}}' for name in names)
    return fill(load(PACK_PROMPTS[0]), {"questions": "\n\n".join(parts), "form": f"{{{form}}}"})


def pack_schema(questions: Sequence[NamedQuestion]) -> dict[str, Json]:
    """The form of a pack's answer as JSON Schema: an object with the form of each question under its name."""
    properties: dict[str, Json] = {}
    definitions: dict[str, Json] = {}
    for question in questions:
        own, form = _entry_form(question.name, question.question.reply, keyed=question.key is not None)
        definitions |= own
        properties[question.name] = form
    schema: dict[str, Json] = {"$defs": definitions} if definitions else {}
    return schema | {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


@lru_cache(maxsize=1000)
def _entry_form(name: str, reply: type[BaseModel], *, keyed: bool) -> tuple[Mapping[str, Json], Mapping[str, Json]]:
    """The definitions of an entry's form, and the form itself. The same in every pack: they are never changed."""
    form = dict(schema_with_key(reply) if keyed else schema_of(reply))
    own = cast("Mapping[str, Json]", form.pop("$defs", {}))
    renamed = partial(_renamed, name=name)
    definitions = {f"{name}_{definition}": rewritten(value, renamed) for definition, value in own.items()}
    return definitions, rewritten(form, renamed)


def _renamed(node: dict[str, Any], name: str) -> dict[str, Any]:
    """A part of a form whose references use the definitions' names in the pack."""
    reference = node.get("$ref")
    return {**node, "$ref": f"#/$defs/{name}_{reference.rpartition('/')[2]}"} if isinstance(reference, str) else node


Entry: TypeAlias = Answer[Any] | JudgeReplyInvalid
"""The result for a question of a pack: its answer, or the fault in it."""


class PackReply(BaseModel):
    """The result of a pack: an entry for each question, in their order.

    `unreached` are the numbers of questions that an answer, cut off at its length limit, did not finish.
    """

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    entries: tuple[Any, ...] = ()
    unreached: frozenset[int] = frozenset()

    @property
    def complete(self) -> bool:
        """Whether every question has its answer."""
        return all(isinstance(entry, Answer) for entry in self.entries)


def decided_entries(questions: Sequence[PackedQuestion], decisions: Sequence[Decision]) -> Sequence[Entry]:
    """The entries that the decisions on a pack's typed questions make, in their order: a refusal concerns one question
    alone.
    """
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

    `cut` says that the answer was cut off at its length limit: then its last entry is cut off, too, and later entries
    are missing.
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
    broken = text[start:stop]  # with the next entry's name, left out below
    return parse_answer(broken[: broken.rfind("}") + 1] or broken, question.reply, named.key)


def _absence(named: NamedQuestion) -> str:
    with_key = "" if named.key is None else f' that begins with the "{ANSWER_KEY}" of this question'
    return f'the answer has no entry "{named.name}"{with_key}'


def _spans(text: str, questions: Sequence[NamedQuestion]) -> dict[str, tuple[int, int | None]]:
    """The positions of the entries, by name; the end is None if an entry is broken.

    A name with two different entries has none.
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


_MOST_REPEATED = 4  # repeated entries that are compared; further ones count as equal
_KEYED_ENTRY = re.compile(
    rf'"(?P<name>q[0-9]{{1,9}})"\s*+:\s*+(?P<entry>\{{\s*+"{ANSWER_KEY}"\s*+:\s*+"(?P<key>[0-9a-f]{{1,64}})")'
)
