"""The cases of the golden set, read from a file and validated.

Notes on a golden set before it is scored: cases that lack what an evaluator needs, and too few cases.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from collector.errors import BadInput, ConfigError
from collector.records.json import record_of
from collector.records.numbered_lines import numbered_lines
from collector.statistics.judge_change import MIN_PAIRS
from collector.wording import listed, plural, unknown
from evaluators.asking.judge_input import is_missing
from evaluators.cases import Conversation, Scope, Turn
from evaluators.evaluator import Evaluator
from evaluators.texts.exact_json import parse_exactly


@dataclass(frozen=True, slots=True)
class GoldenCase:
    """A frozen case. `scores` are its references by evaluator; an evaluator's first run gives the missing ones.

    `case_id` is a hash of the case: a changed case is a new one.
    """

    case_id: str
    case: Turn | Conversation
    scores: Mapping[str, float]

    @property
    def scope(self) -> Scope:
        """The evaluators that it is for."""
        return "turn" if isinstance(self.case, Turn) else "conversation"


def read_cases(path: Path) -> tuple[GoldenCase, ...]:
    """Read the file: a turn or conversation record a line, with `scores` beside its fields.

    Raises:
        ConfigError: it cannot be read, or a line is not right; says which and why, not what was in it.
    """
    lines = numbered_lines(path, "golden.path: ", remedy="")
    cases = [_case(line, f"{path}, line {number}") for number, line in lines]
    if not cases:
        raise ConfigError(f"golden.path: {path}: has no cases")
    return tuple(cases)


def _case(line: bytes, where: str) -> GoldenCase:
    try:
        values: Any = parse_exactly(line)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"golden.path: {where}: is not JSON; write one object a line") from error
    if not isinstance(values, dict):
        raise ConfigError(f"golden.path: {where}: should be an object: a turn or a conversation, with scores")
    values = dict(values)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    scores = _scores(values.pop("scores", {}), where)  # pyright: ignore[reportUnknownArgumentType]
    case_id = hashlib.sha256(orjson.dumps(values, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
    try:
        case = record_of(values, Conversation if "turns" in values else Turn)
    except BadInput as error:
        raise ConfigError(f"golden.path: {where}: {error}") from None
    return GoldenCase(case_id, case, scores)


def _scores(scores_by_name: Any, where: str) -> dict[str, float]:
    if not isinstance(scores_by_name, dict):
        raise ConfigError(f"golden.path: {where}: scores should be an object: evaluator to score")
    scores: dict[str, float] = {}
    for name, score in scores_by_name.items():  # pyright: ignore[reportUnknownVariableType]
        if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
            raise ConfigError(f"golden.path: {where}: scores.{name}: should be a number from 0 to 1")
        scores[str(name)] = float(score)  # pyright: ignore[reportUnknownArgumentType]
    return scores


def case_notes(cases: Sequence[GoldenCase], evaluators: Mapping[str, Evaluator[Any]]) -> Iterator[str]:
    """A line for each evaluator whose judge the set cannot watch, and for references of none.

    `evaluators` are those in use that ask a judge, by name.
    """
    for name, evaluator in evaluators.items():
        own = [case for case in cases if case.scope == evaluator.scope]
        lacking = [fields for case in own if (fields := _lacking(case, evaluator))]
        if len(own) - len(lacking) < MIN_PAIRS:
            fields = sorted({field for each in lacking for field in each})
            why = f" ({len(lacking)} lack {listed(fields)})" if fields else ""
            usable = f"{len(own) - len(lacking)} of {plural(len(cases), 'case')}"
            yield f"golden.path: {name} can score {usable}{why}; a shift of its judge is seen with {MIN_PAIRS} or more"
    for name in sorted({name for case in cases for name in case.scores} - set(evaluators)):
        yield f"golden.path: scores names an {unknown('evaluator', name, evaluators)}"


def _lacking(case: GoldenCase, evaluator: Evaluator[Any]) -> list[str]:
    """The fields without which the case is skipped."""
    if isinstance(case.case, Turn) and case.case.incomplete is not None:
        return ["content"]
    return sorted(name for name in evaluator.requires if is_missing(case.case, name))
