"""Proposals of a model to change an evaluator, from the labels that it disagrees with."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

import yaml
from pydantic import Field

from collector.errors import EvalstreamError
from collector.telemetry.plain import plain
from evaluators.asking.judge_input import cut, shorten_all, size_of
from evaluators.cases import Json
from evaluators.errors import JudgeError
from evaluators.judge import Judge, Prompt
from evaluators.prompts import fill
from evaluators.scale import Reply

Change = Literal["clause", "rubric", "examples"]

MOST_DISAGREEMENTS, MOST_AGREEMENTS = 24, 6
"""Labels that the proposer is shown at most: those that the evaluator disagrees with, and others."""
LONGEST_TEXT = 2_000
"""Characters of one text that the proposer is shown."""
_LONGEST_NOTE = 500
_MAX_TOKENS = 3_000
_CHARACTERS_PER_TOKEN = 3.0
PATIENCE = 900.0
"""Seconds until a proposer whose own time-out does not end it counts as silent."""


_CHANGES: Mapping[Change, str] = {
    "clause": '- "clause": one to three sentences that are added to the definition.',
    "rubric": '- "rubric": what ranges of the scale stand for, from {{lowest}} to {{highest}}, each as '
    '{"lowest": <number>, "highest": <number>, "outcome": "<what earns it>"}.',
    "examples": '- "examples": the numbers of one to six disagreements that the evaluator reads as worked examples.',
}


class ProposedLevel(Reply):
    """The meaning of a range of scores."""

    lowest: int
    highest: int
    outcome: str


class ProposedChange(Reply):
    """One change, and why."""

    why: str = ""
    change: Change
    clause: str = ""
    rubric: tuple[ProposedLevel, ...] = ()
    examples: tuple[int, ...] = ()


class Proposals(Reply):
    """All changes that a model proposes."""

    proposals: tuple[ProposedChange, ...] = Field(default=(), max_length=50)


@dataclass(frozen=True, slots=True)
class LabelToLearn:
    """A label and what the evaluator said; `number` is how the proposer names it. All texts are untrusted."""

    number: int
    material: Mapping[str, Json]
    passes: bool
    right: bool
    reason: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProposalRequest:
    """The question to a proposer: the definition is the configuration's, the rest was written by anybody."""

    definition: Mapping[str, Json]
    changes: frozenset[Change]
    scale: tuple[int, int]
    most: int
    labels: Sequence[LabelToLearn]


class NoProposal(EvalstreamError):
    """Nothing was proposed. `cost_usd` is the cost of the failed attempt."""

    def __init__(self, message: str, cost_usd: float | None = None) -> None:
        super().__init__(message)
        self.cost_usd = cost_usd


def proposal_prompt(request: ProposalRequest) -> Prompt:
    """The question: labelled texts, reasons and notes are its material, apart from the instructions."""
    lowest, highest = request.scale
    listed = "\n".join(_CHANGES[change] for change in _CHANGES if change in request.changes)
    values = {
        "most": str(request.most),
        "definition": yaml.safe_dump(dict(request.definition), allow_unicode=True, sort_keys=False).strip(),
        "changes": fill(listed, {"lowest": str(lowest), "highest": str(highest)}),
    }
    material: dict[str, Json] = {
        "disagreements": [_plain(label) for label in request.labels if not label.right],
        "agreements": [_plain(label) for label in request.labels if label.right],
    }
    instructions = files("collector.commands.align").joinpath("instructions.txt").read_text(encoding="utf-8")
    return Prompt(fill(instructions, values), material, max_tokens=_MAX_TOKENS)


def _plain(label: LabelToLearn) -> Json:
    people = _verdict(passes=label.passes)
    described: dict[str, Json] = {"number": label.number, "case": shorten_all(label.material, LONGEST_TEXT).content}
    described |= {"people": people, "evaluator": people if label.right else _verdict(passes=not label.passes)}
    if label.reason and not label.right:
        described["reason"] = cut(label.reason, _LONGEST_NOTE)
    if label.notes:
        described["notes"] = [cut(note, _LONGEST_NOTE) for note in label.notes]
    return described


def _verdict(*, passes: bool) -> str:
    return "pass" if passes else "fail"


def likely_usd(prompt: Prompt, prices: tuple[float, float]) -> float:
    """The probable highest cost of a question, by US dollars for a million tokens in and out."""
    characters = len(prompt.instructions) + size_of(dict(prompt.material))
    return (characters / _CHARACTERS_PER_TOKEN * prices[0] + _MAX_TOKENS * prices[1]) / 1e6


async def propose(
    name: str, judge: Judge, prompt: Prompt, *, patience: float = PATIENCE
) -> tuple[Proposals, float | None]:
    """Proposal of the judge called `name`, at least one change, and its cost in US dollars (None: unknown).

    Raises:
        NoProposal: it gave no answer, none in the asked form, or proposed nothing; one sentence.
    """
    try:
        async with asyncio.timeout(patience):
            verdict = await judge.ask(prompt, Proposals)
    except JudgeError as error:
        why = plain(" ".join(str(error).split()))[:200]
        raise NoProposal(
            f"the proposer {name} proposed nothing usable ({error.type}: {why})", error.cost_usd
        ) from error
    except TimeoutError as error:
        raise NoProposal(f"the proposer {name} did not answer within {patience:g} s") from error
    if not verdict.reply.proposals:
        raise NoProposal(f"the proposer {name} sees nothing in common in the disagreements", verdict.cost_usd)
    return verdict.reply, verdict.cost_usd
