"""A judge that reads: of a run that is too long for one question it is shown an index, and reads and searches steps.

Each answer names steps to read and texts to search for, as JSON, so that every endpoint can do it. Requests and
characters are bounded. The steps that were read and the searches are noted, so that an evaluation shows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson
from pydantic import Field

from evaluators.asking.judge_input import cut, longest_field, shorten, size_of, to_json_value
from evaluators.cases import Json, ToolCall
from evaluators.judge import Judge, Prompt
from evaluators.prompts import fill, load
from evaluators.scale import Reply

MOST_AT_ONCE = 20
"""Steps, searches and hits of one answer that count."""
_LONGEST_QUERY = 200
_BESIDE = 100
"""Characters on each side of a hit that are shown."""
_FIRST_WORDS = 80


class Look(Reply):
    """The next steps and texts that a judge wants to see."""

    read: tuple[int, ...] = ()
    search: tuple[str, ...] = Field(default=())
    done: bool = False


@dataclass(slots=True)
class RunReader:
    """A run that is read: its steps as texts, those that were read, and the hits of searches, within `budget`."""

    steps: Sequence[str]
    folded: Sequence[str]
    """The steps without the difference of capitals, made once for all searches."""
    names: Sequence[str]
    budget: int
    longest_text: int
    read: dict[str, Json] = field(default_factory=dict[str, Json])
    hits: dict[str, Json] = field(default_factory=dict[str, Json])
    requests: int = 0

    @classmethod
    def of(cls, calls: Sequence[ToolCall], longest_text: int) -> RunReader:
        """Nothing of these calls has been read."""
        steps = [orjson.dumps(to_json_value(call)).decode() for call in calls]
        names = [call.name for call in calls]
        return cls(steps, [step.casefold() for step in steps], names, longest_field(longest_text), longest_text)

    @property
    def index(self) -> Json:
        """A line for each step: number, tool, characters, first words. A longer one is cut in its middle."""
        lines: list[Json] = [
            f"{number} {name[:_FIRST_WORDS]}, {len(step):,} characters: {step[:_FIRST_WORDS]}"
            for number, (name, step) in enumerate(zip(self.names, self.steps, strict=True), start=1)
        ]
        return shorten(lines, self.longest_text)

    def take(self, look: Look) -> bool:
        """Read and search; whether anything came of it."""
        before = (len(self.read), len(self.hits))
        for number in look.read[:MOST_AT_ONCE]:
            if 1 <= number <= len(self.steps) and str(number) not in self.read:
                self._add(self.read, str(number), cut(self.steps[number - 1], self.longest_text))
        for query in look.search[:MOST_AT_ONCE]:
            if query.strip() and query not in self.hits:
                self._add(self.hits, query[:_LONGEST_QUERY], self._search(query[:_LONGEST_QUERY].casefold()))
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
        """The run as a judge that reads is shown it."""
        return {"index": self.index, "read": self.read, "found": self.hits}

    @property
    def outcome(self) -> dict[str, Json]:
        """The same for the judgement, under names that say what they are."""
        return {"index of all calls": self.index, "calls read whole": self.read, "found by searching": self.hits}

    @property
    def notes(self) -> dict[str, Json]:
        """The steps that were read and the searches, for the record."""
        return {"read": [int(number) for number in self.read], "searched": [*self.hits], "requests": self.requests}


def most_characters(longest_text: int) -> int:
    """Characters that a request shows of a run at most: its index, and what was read and found."""
    return 2 * longest_field(longest_text)


async def read_run(
    judge: Judge, task: str, beside: dict[str, Json], calls: Sequence[ToolCall], longest_text: int, most: int
) -> RunReader:
    """Let the judge read a run in `most` requests at most; `task` is what it will judge, `beside` the other fields.

    Raises:
        JudgeError: as the judge's own.
    """
    reading = RunReader.of(calls, longest_text)
    while reading.requests < most:
        reading.requests += 1
        left = f"After this answer you have {most - reading.requests} more."
        instructions = fill(load("reading.txt"), {"task": task})
        prompt = Prompt(instructions, {**beside, **reading.material}, reminder=left)
        look = (await judge.ask(prompt, Look)).reply
        if not reading.take(look) or look.done:
            break
    return reading
