"""A judge that reads: if a run is too long for one question, the judge gets an index, and reads and searches steps.

The steps are the calls of a turn, or the turns of a conversation. Each answer names steps to read and texts to search
for, as JSON, so that every endpoint can do it. Requests and characters are bounded. Steps that were read, and searches,
are noted in the evaluation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, cast

import orjson
from pydantic import Field

from evaluators.asking.judge_input import JudgeInput, TextSettings, cut, cut_list, longest_field, shorten, size_of
from evaluators.asking.transcript import CHARACTERS_PER_TOKEN, TranscriptSettings
from evaluators.cases import Json
from evaluators.evaluator import ADDED_LATER
from evaluators.judge import Judge, Prompt, decides
from evaluators.prompts import fill, load
from evaluators.scale import Reply

MOST_AT_ONCE = 20
"""The most steps, the most searches and the most hits that are taken from one answer."""
_LONGEST_QUERY = 200
_BESIDE = 100
"""Characters on each side of a hit that are shown."""
_FIRST_WORDS = 80


class Look(Reply):
    """The next steps and texts that a judge wants to see."""

    read: tuple[int, ...] = ()
    search: tuple[str, ...] = Field(default=())
    done: bool = False


def looks_of(notes: Json) -> Iterator[Look]:
    """The looks that repeat a reading, from its notes."""
    noted = cast("dict[str, list[Any]]", notes) if isinstance(notes, dict) else dict[str, list[Any]]()
    read, searched = noted.get("read", []), noted.get("searched", [])
    length = max(len(read), len(searched))
    for at in range(0, length, MOST_AT_ONCE):
        end = at + MOST_AT_ONCE
        yield Look(read=tuple(read[at:end]), search=tuple(searched[at:end]), done=end >= length)


class ReadingSettings(TextSettings):
    """Whether the judge reads a run that is too long for one question."""

    reads: Annotated[int | None, ADDED_LATER] = Field(default=None, ge=1, le=20)
    """If tool calls or turns do not fit into a question, the judge gets an index of the run. It then reads and searches
    the run in at most so many further requests."""

    @property
    def added_templates(self) -> tuple[str, ...]:
        """See `Evaluator.added_templates`."""
        return () if self.reads is None else ("reading.txt",)

    @property
    def room(self) -> int:
        """The most characters of an index, and of the steps and hits that follow."""
        of_turns = isinstance(self, TranscriptSettings)
        return self.token_budget * CHARACTERS_PER_TOKEN if of_turns else longest_field(self.longest_text)

    @property
    def most_read(self) -> int:
        """The most characters of a run that all requests show, including the judging one."""
        return 2 * self.room * ((self.reads or 0) + 1)


@dataclass(slots=True)
class RunReader:
    """A run that is read: its steps as texts, the steps that were read, and the hits of searches, within `budget`."""

    steps: Sequence[str]
    folded: Sequence[str]
    """The steps with capitals folded, made once for all searches."""
    budget: int
    longest_text: int
    index: Json
    """A line for each step: number, characters, first words (with a call's tool). The middle of a long index is cut."""
    read: dict[str, Json] = field(default_factory=dict[str, Json])
    hits: dict[str, Json] = field(default_factory=dict[str, Json])
    requests: int = 0

    @classmethod
    def of(cls, run: Sequence[Json], room: int, longest_text: int) -> "RunReader":
        """A new reader of these steps."""
        steps = [orjson.dumps(step, default=str).decode() for step in run]
        index: list[Json] = [
            f"{number}, {len(step):,} characters: {step[:_FIRST_WORDS]}" for number, step in enumerate(steps, start=1)
        ]
        return cls(steps, [_folded(step) for step in steps], room, longest_text, cut_list(index, room))

    def take(self, look: Look) -> bool:
        """Read and search as asked; whether that showed anything."""
        before = (len(self.read), len(self.hits))
        for number in look.read[:MOST_AT_ONCE]:
            if 1 <= number <= len(self.steps) and str(number) not in self.read:
                self._add(self.read, str(number), cut(self.steps[number - 1], self.longest_text))
        for query in look.search[:MOST_AT_ONCE]:
            if query.strip() and query[:_LONGEST_QUERY] not in self.hits:
                self._add(self.hits, query[:_LONGEST_QUERY], self._search(_folded(query[:_LONGEST_QUERY])))
        return (len(self.read), len(self.hits)) != before

    def _add(self, place: dict[str, Json], key: str, value: Json) -> None:
        if size_of(value) <= self.budget:
            self.budget -= size_of(value)
            place[key] = value

    def _search(self, query: str) -> Json:
        matches: list[Json] = []
        for number, (step, folded) in enumerate(zip(self.steps, self.folded, strict=True), start=1):
            at = folded.find(query)
            if at >= 0:
                matches.append(f"step {number}: … {step[max(0, at - _BESIDE) : at + len(query) + _BESIDE]} …")
        return [*matches[:MOST_AT_ONCE], f"{len(matches)} steps in all"]

    @property
    def material(self) -> dict[str, Json]:
        """The run in the form that a reading judge is shown."""
        return {"index": self.index, "read": {**self.read}, "found": {**self.hits}}

    def outcome(self, noun: str) -> dict[str, Json]:
        """The run for the judging question, under names that explain each part."""
        return {f"index of all {noun}": self.index, f"{noun} read whole": self.read, "found by searching": self.hits}

    @property
    def notes(self) -> dict[str, Json]:
        """The steps that were read and the searches, for the record."""
        return {"read": [int(number) for number in self.read], "searched": [*self.hits], "requests": self.requests}


def _folded(text: str) -> str:
    """The text with capitals folded and each character in its place: ß, which folds to two, becomes one."""
    folded = text.casefold()
    return folded if len(folded) == len(text) else "".join(char.casefold()[:1] for char in text)


async def read_further(
    settings: object, judge: Judge, task: str, material: JudgeInput, items: Sequence[Json] = ()
) -> JudgeInput:
    """The material with the steps that the judge read in place of its run's part; unchanged without `reads`.

    `task` are the judge's instructions, `items` the things to be judged one by one.

    Raises:
        JudgeError: the judge raised it.
    """
    if not isinstance(settings, ReadingSettings) or settings.reads is None or material.run is None or decides(judge):
        return material
    field_name, run = material.run
    beside = {name: value for name, value in material.content.items() if name != field_name}
    reading = RunReader.of(run, settings.room, settings.longest_text)
    instructions = fill(load("reading.txt"), {"task": task})
    listed: dict[str, Json] = {"items": shorten([*items], settings.longest_text)} if items else {}
    while reading.requests < settings.reads:
        reading.requests += 1
        left = f"After this answer you have {settings.reads - reading.requests} more."
        prompt = Prompt(instructions, {**beside, **listed, **reading.material}, reminder=left)
        look = (await judge.ask(prompt, Look)).reply
        if not reading.take(look) or look.done:
            break
    content: dict[str, Json] = {**beside, field_name: reading.outcome(_NOUNS.get(field_name, "steps"))}
    return replace(material, content=content, run=None, notes={**material.notes, "reading": reading.notes})


_NOUNS = {"tools_called": "calls", "turns": "turns"}
