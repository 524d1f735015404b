"""The JSON that a judge is shown: fields of a case, or the parts of its answer and reference that an evaluator
compares.

The sources of an answer are the passages that the application retrieved, and the results of its tools.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, cast, get_args

import orjson
from pydantic import AfterValidator, ConfigDict, Field

from evaluators.cases import Conversation, Json, Turn
from evaluators.descriptions import Described
from evaluators.errors import BrokenPromise, NotApplicable
from evaluators.evaluator import ADDED_LATER
from evaluators.foreign_names import suggestion
from evaluators.prompts import check_placeholders
from evaluators.results import SkipReason
from evaluators.texts.exact_json import as_text
from evaluators.texts.paths import Path, find, parse_json_or_text, pick

TurnField = Literal[
    "input", "actual_output", "expected_output", "context", "retrieval_context", "tools_called", "expected_tools",
    "tools_offered", "system_prompt", "history", "feedback", "attributes", "model", "service", "dialect", "user_id",
    "usage", "error", "started_at", "ended_at",
]  # fmt: skip
"""The fields of a turn that a judge can be shown: everything but its ids."""

TURN_FIELDS: tuple[str, ...] = get_args(TurnField)

_PROGRAM_FIELD = re.compile(r"(?:inputs|outputs)\.[^\W\d]\w*")


def _check_program_field(name: str) -> str:
    if not is_program_field(name):
        raise ValueError("is no field; a structured program's are inputs.<name> and outputs.<name>")
    return name


ProgramField = Annotated[str, AfterValidator(_check_program_field)]
"""A named input or output of a structured program: `inputs.<name>` or `outputs.<name>`."""


def is_program_field(name: str) -> bool:
    """Whether a name names a field of a structured program."""
    return _PROGRAM_FIELD.fullmatch(name) is not None


def read_field(turn: Turn, name: str) -> Any:
    """A field of a turn, or of its structured program, by its name; None if it is missing."""
    return turn.program_fields.get(name) if "." in name else getattr(turn, name)


def read_text(turn: Turn, name: str) -> str:
    """The field as a text: "" if it is missing, JSON if it is no text."""
    return as_text(to_json_value(read_field(turn, name)))


MEANINGS: Mapping[str, str] = {
    "input": "what the user asked",
    "actual_output": "what the application answered",
    "expected_output": "a reference answer",
    "context": "facts that are known to be right",
    "retrieval_context": "passages that the application retrieved before it answered",
    "tools_called": "the tools that the application called, with arguments and results, in order",
    "expected_tools": "the tools that it should have called",
    "tools_offered": "the tools that the application's model could have called",
    "system_prompt": "the instructions that the application's model was given",
    "history": "the messages before the user's, oldest first",
    "feedback": "what people or programs said about the answer",
    "attributes": "further facts about the request",
    "model": "the model that the application used",
    "service": "the application's name",
    "dialect": "how the application reported the request",
    "user_id": "a pseudonym of the user",
    "usage": "tokens that the application's model used",
    "error": "why the application failed",
    "started_at": "when the request came",
    "ended_at": "when the answer was complete",
    "scenario": "the situation that the conversation is about",
    "expected_outcome": "what the conversation should come to",
    "chatbot_role": "who the application is supposed to be",
}

LONGEST_TEXT = 16_384
"""Characters of one text that a judge is shown, half from its start and half from its end, unless configured."""

TEXTS_PER_FIELD = 4
"""A list field takes at most as many characters as so many texts of the greatest length."""


class TextSettings(Described):
    """The length of the texts that a judge is shown."""

    longest_text: Annotated[int, ADDED_LATER] = Field(default=LONGEST_TEXT, ge=1000, le=1_000_000)
    """Characters of one text that the judge is shown, half from its start and half from its end; a list gets four times
    as many."""


_ABSENT_IF_EMPTY = frozenset(
    {
        "input", "expected_output", "context", "retrieval_context", "system_prompt", "tools_offered", "feedback",
        "attachments",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class JudgeInput:
    """The material that a judge is shown, whether its length made parts be left out, and how many whole turns are
    missing.

    `run` is a field's name and its whole list, if the material has only a part of it, like the calls of a long run.
    `notes` are further details of the score.
    """

    content: dict[str, Json]
    truncated: bool
    turns_left_out: int = 0
    run: tuple[str, Sequence[Json]] | None = None
    notes: Mapping[str, Json] = field(default_factory=dict[str, Json])

    @property
    def is_part(self) -> bool:
        """Whether the judge sees only a part of the run; it may have chosen that part itself."""
        return self.run is not None or "reading" in self.notes

    @property
    def details(self) -> dict[str, Json]:
        """A score's details about this material; `unshown` is the share of the run that the judge did not see."""
        details: dict[str, Json] = {**self.notes}
        if self.truncated:
            details["truncated"] = True
        if self.turns_left_out:
            details["turns_left_out"] = self.turns_left_out
        if self.run is not None:
            visible = size_of(self.content[self.run[0]]) / max(1, size_of(list(self.run[1])))
            details["unshown"] = round(max(0.0, 1.0 - visible), 4)
        return details


def build_judge_input(turn: Turn, names: Iterable[str], longest_text: int = LONGEST_TEXT) -> JudgeInput:
    """The named fields of a turn, each text cut to `longest_text` characters with a mark where it was cut."""
    return shorten_all({name: to_json_value(read_field(turn, name)) for name in names}, longest_text)


def shorten_all(content: Mapping[str, Json], longest_text: int = LONGEST_TEXT, run: str = "tools_called") -> JudgeInput:
    """Like `build_judge_input`, for values by name. `run` names the list of steps, if there is one."""
    shortened = {name: shorten(value, longest_text) for name, value in content.items()}
    steps = cast("list[Json]", content.get(run) or [])
    is_part = steps and any(isinstance(step, str) for step in cast("list[Json]", shortened[run]))  # replaced by a mark
    return JudgeInput(shortened, shortened != content, run=(run, steps) if is_part else None)


def is_missing(case: Turn | Conversation, name: str) -> bool:
    """Whether a case lacks a field.

    `name` is a field, `attributes.<key>`, `inputs.<name>` or `outputs.<name>` of a structured program,
    or for a conversation `turns.<field>`, which is there if any turn has it. An
    empty list of tools is there: it says that none was called; an empty list of passages is not.
    """
    if isinstance(case, Conversation) and name.startswith("turns."):
        return all(is_missing(turn, name.removeprefix("turns.")) for turn in case.turns)
    if name.startswith("attributes."):
        value = case.attributes.get(name.removeprefix("attributes."))
        return value is None or value == ""
    if name not in case.__dataclass_fields__:
        if is_program_field(name):
            return not isinstance(case, Turn) or case.program_fields.get(name) in (None, "")
        whose, prefix = ("turn", "") if isinstance(case, Turn) else ("conversation", "turns.")
        known = suggestion(name, (f"{prefix}{field}" for field in TURN_FIELDS))
        raise BrokenPromise(f"names {name!r}, which no {whose} has; {known}")
    value = getattr(case, name)
    return value is None or (name in _ABSENT_IF_EMPTY and not value)


_DEEPEST = 60
_TOO_DEEP = "[left out: nested too deeply]"


def to_json_value(value: Any, depth: int = 0) -> Json:
    """A field's value as JSON, without empty parts of tool calls and messages, and down to 60 levels."""
    if depth > _DEEPEST:
        return _TOO_DEEP
    if is_dataclass(value) and not isinstance(value, type):
        return {key: to_json_value(item, depth + 1) for key, item in _fields(value) if item not in (None, (), "")}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): to_json_value(item, depth + 1) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [to_json_value(item, depth + 1) for item in cast("Sequence[Any]", value)]
    return value


def _fields(value: Any) -> list[tuple[str, Any]]:
    """A dataclass's fields, without ids that only tie records together, and without schemas of arguments."""
    names: Iterable[str] = value.__dataclass_fields__
    return [(name, getattr(value, name)) for name in names if name not in {"id", "tool_call_id", "parameters"}]


def longest_field(longest_text: int) -> int:
    """The most characters of a list of texts, given the most characters of one text."""
    return TEXTS_PER_FIELD * max(LONGEST_TEXT, longest_text)


def shorten(value: Json, longest_text: int = LONGEST_TEXT, depth: int = 0) -> Json:
    """The value with every text cut to `longest_text` characters, and a long list cut in its middle.

    Values deeper than 60 levels are left out.
    """
    if depth > _DEEPEST:
        return _TOO_DEEP
    if isinstance(value, str):
        return cut(value, longest_text)
    if isinstance(value, dict):
        return {key: shorten(item, longest_text, depth + 1) for key, item in cast("dict[str, Json]", value).items()}
    if isinstance(value, list):
        items = [shorten(item, longest_text, depth + 1) for item in cast("list[Json]", value)]
        return cut_list(items, longest_field(longest_text))
    return value


def cut(text: str, longest: int) -> str:
    """A text of at most `longest` characters: the start and the end of a longer one, with a mark between them."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} [… {len(text) - 2 * half} characters left out …] {text[-half:]}"


def split_text(text: str, longest: int) -> list[str]:
    """Cut a text into pieces of at most `longest` characters, each ending at white space if possible."""
    pieces: list[str] = []
    start = 0
    while len(text) - start > longest:
        end = start + longest
        # half a piece at least, so that missing white space at most doubles the number of pieces
        space = max(text.rfind(mark, start + longest // 2, end) for mark in ("\n", ". ", " "))
        end = space + 1 if space >= 0 else end
        pieces.append(text[start:end])
        start = end
    return [*pieces, text[start:]]


def cut_list(items: list[Json], longest: int) -> list[Json]:
    """As many items as fit, taken in turn from the start and the end, with a mark between them."""
    sizes = [size_of(item) for item in items]
    if sum(sizes) <= longest:
        return items
    head, tail = fit_both_ends(sizes, longest)
    return [*items[:head], f"[… {len(items) - head - tail} items left out …]", *items[len(items) - tail :]]


def fit_both_ends(sizes: Sequence[int], budget: int) -> tuple[int, int]:
    """How many items from the start and from the end fit into a budget, taken alternately, the last item first."""
    head = tail = 0
    while head + tail < len(sizes):
        from_end = tail <= head
        size = sizes[len(sizes) - 1 - tail] if from_end else sizes[head]
        if size > budget:
            break
        budget -= size
        head, tail = (head, tail + 1) if from_end else (head + 1, tail)
    return head, tail


def size_of(value: Json) -> int:
    """About how many characters a value takes: exact for a text, else the length of its JSON in bytes."""
    if isinstance(value, str):
        return len(value)
    try:
        return len(orjson.dumps(value, default=str))
    except TypeError:  # a number is too large, or the value is nested too deeply
        return len(str(value))


def iter_texts(value: Json, depth: int = 0) -> Iterator[str]:
    """Every text inside a JSON value, down to a depth of 60."""
    if isinstance(value, str):
        yield value
    elif depth > 60:
        return
    elif isinstance(value, Mapping):
        for item in cast("Mapping[str, Json]", value).values():
            yield from iter_texts(item, depth + 1)
    elif isinstance(value, Sequence):
        for item in cast("Sequence[Json]", value):
            yield from iter_texts(item, depth + 1)


def find_sources(case: Turn) -> Mapping[str, Sequence[Json]]:
    """The sources by their fields: passages, and tool calls that returned something.

    Raises:
        NotApplicable: there are none.
    """
    tools: list[Json] = [to_json_value(call) for call in case.tools_called if call.result not in (None, "")]
    sources: dict[str, Sequence[Json]] = {"retrieval_context": [*case.retrieval_context], "tools_called": tools}
    sources = {name: values for name, values in sources.items() if values}
    if not sources:
        raise NotApplicable(SkipReason.MISSING_FIELD.text("retrieval_context"))
    return sources


def list_results(case: Turn) -> Sequence[Json]:
    """The results of the tools, one by one: each item of a list is a result."""
    return [result for call in case.tools_called for result in _split(call.result)]


def _split(result: Json) -> Sequence[Json]:
    value = parse_json_or_text(result) if isinstance(result, str) else result
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Json]", value)
        lists = [cast("list[Json]", field) for field in fields.values() if isinstance(field, list)]
        value = lists[0] if len(lists) == 1 else fields
    if isinstance(value, list):
        return cast("list[Json]", value)
    return () if value in (None, "") else (value,)


Target = str | tuple[str, ...]

TargetKey = Annotated[
    Path | tuple[Path, ...],
    Field(description="The part of the outputs to compare: a path such as answer.lines[0], several, or * for all."),
]
"""A field of an evaluator that compares parts of outputs."""


class OutputCriteria(Described):
    """The reference for a turn that brings none itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    expected_output: str | dict[str, Json]
    """The reference: a text, or an object."""


def _with_both_placeholders(prompt: str | None) -> str | None:
    names = ("ActualOutput", "ExpectedOutput")
    check_placeholders(prompt, required=names, known=names)
    return prompt


ComparisonPrompt = Annotated[str | None, AfterValidator(_with_both_placeholders)]
"""Instructions for a judge that names both texts that it compares."""


class SearchesText(Described):
    """The searched text of a turn."""

    searched: Annotated[Literal["actual_output"] | ProgramField, ADDED_LATER] = "actual_output"
    """The answer, or a named input or output of a structured program, like outputs.summary."""

    @property
    def requires(self) -> frozenset[str]:
        """The answer, or the field that is searched."""
        return frozenset({self.searched})


class ComparesOutputs(Described):
    """The compared parts of the answer and of its reference, and the reference for turns that bring none."""

    target_output_key: TargetKey = "*"
    default_evaluation_criteria: Annotated[OutputCriteria | None, ADDED_LATER] = None
    """The reference for turns that bring none: {expected_output: …}."""

    @property
    def calculation(self) -> int:
        """1 for whole answers: a later change concerns only missing parts."""
        return 1 if self.target_output_key == "*" else 2

    @property
    def requires(self) -> frozenset[str]:
        """The answer and, unless there is a default, a reference."""
        return frozenset({"actual_output", *(() if self.default_evaluation_criteria else ("expected_output",))})

    def reference(self, case: Turn) -> Json:
        """The part of the turn's reference, or of the configured reference if the turn has none.

        Raises:
            NotApplicable: the reference has no such part.
        """
        if case.expected_output or self.default_evaluation_criteria is None:
            return expected_part(case.expected_output or "", self.target_output_key)
        return expected_part(as_text(self.default_evaluation_criteria.expected_output), self.target_output_key)

    def parts(self, case: Turn) -> tuple[Json, Json]:
        """The compared parts of the answer and of the reference: as JSON if both are texts with numbers, or if a part
        is an object or list. The answer's part is `ABSENT` if it has none.

        Raises:
            NotApplicable: the reference has no such part.
        """
        actual = parse_structured(actual_part(case, self.target_output_key))
        expected = parse_structured(self.reference(case))
        numbers = _number(actual), _number(expected)
        return (actual, expected) if None in numbers else numbers


def actual_part(case: Turn, target: Target) -> Json:
    """The part of the answer at a path; `ABSENT` if it is missing or the answer is no JSON; for `*` the whole text."""
    text = case.actual_output or ""
    return text if target == "*" else find(parse_json_or_text(text), target)


def expected_part(text: str, target: Target) -> Json:
    """The part of a reference at a path. A reference that is no JSON object is taken for that part itself.

    Raises:
        NotApplicable: the reference is an object without such a part.
    """
    value = parse_json_or_text(text)
    return text if target == "*" or not isinstance(value, dict) else pick(value, target, "expected_output")


def _number(value: Json) -> Json:
    """The number in a value, which is a number or its text; None for any other value."""
    read: Json = parse_json_or_text(value) if isinstance(value, str) else value
    return read if isinstance(read, int | float) and not isinstance(read, bool) else None


def parse_structured(value: Json) -> Json:
    """The JSON object or list that a text holds; any other value unchanged."""
    if not isinstance(value, str):
        return value
    read = parse_json_or_text(value)
    return cast("Json", read) if isinstance(read, dict | list) else value
