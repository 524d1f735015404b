"""Notes on a golden set before it is scored: cases that lack what an evaluator needs, and too few cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from collector.golden.cases import GoldenCase
from collector.golden.score_shift import MIN_PAIRS
from collector.wording import listed, plural, unknown
from evaluators.asking.judge_input import is_missing
from evaluators.cases import Turn
from evaluators.evaluator import Evaluator


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
