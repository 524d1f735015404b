"""Report of a replay, as tables for people and as JSON for programs."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from collector.commands.replay.comparison import Comparison, EvaluationPair, MeanChange
from collector.telemetry.plain import plain
from collector.wording import plural
from evaluators.results import Evaluation

_REASON = 200
"""Characters of a reason that the table shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedEvaluator:
    """One side of a comparison: the evaluator, its judge and their cost (None without a price)."""

    evaluator: str
    version: str
    judge: str
    cost_usd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorComparison:
    """The comparison of one evaluator's past evaluations with the new ones.

    `no_score` counts, by outcome, the new evaluations without a score; `failed` names errors.
    """

    old: ComparedEvaluator
    new: ComparedEvaluator
    comparison: Comparison | None
    no_score: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """A whole replay. `unscored`, `gone`, `left`: not evaluated again for lack of an old score, of texts, of money."""

    comparisons: tuple[EvaluatorComparison, ...]
    unscored: int
    gone: int
    left: int
    spent_usd: float


def compared_evaluators(pairs: Iterable[tuple[Evaluation, Evaluation]]) -> tuple[ComparedEvaluator, ComparedEvaluator]:
    """The old and the new side, by the records; of several versions the one with the newest record."""
    old, new = zip(*sorted(pairs, key=lambda each: each[0].ended_at), strict=True)
    return _compared_evaluator(old), _compared_evaluator(new)


def _compared_evaluator(evaluations: tuple[Evaluation, ...]) -> ComparedEvaluator:
    newest = evaluations[-1]
    costs = [evaluation.cost_usd for evaluation in evaluations if evaluation.cost_usd is not None]
    return ComparedEvaluator(
        evaluator=newest.evaluator,
        version=newest.evaluator_version,
        judge=newest.judge.model if newest.judge else "",
        cost_usd=math.fsum(costs) if costs else None,
    )


def as_json(report: ReplayReport) -> str:
    """One JSON object."""
    document = {
        "evaluators": [_plain(comparison) for comparison in report.comparisons],
        "left_out": {"no_old_score": report.unscored, "text_is_gone": report.gone, "no_money": report.left},
        "spent_usd": report.spent_usd,
    }
    return orjson.dumps(document).decode() + "\n"


def _plain(each: EvaluatorComparison) -> dict[str, Any]:
    comparison = each.comparison
    figures: dict[str, Any] = {"pairs": 0}
    if comparison is not None:
        figures = {
            "pairs": comparison.pairs,
            "conversations": comparison.conversations,
            "weighted": comparison.weighted,
            "mean": comparison.mean,
            "passing": comparison.passing,
            "same_verdict": comparison.same_verdict,
            "pass_to_fail": comparison.to_fail,
            "fail_to_pass": comparison.to_pass,
            "rank_correlation": comparison.rank_correlation,  # NaN becomes null
            "worst_disagreements": [_plain_pair(pair) for pair in comparison.worst],
        }
    return {"old": each.old, "new": each.new, "no_new_score": dict(each.no_score), **figures}


def _plain_pair(pair: EvaluationPair) -> dict[str, Any]:
    subject = pair.old.subject
    return {
        "conversation_id": subject.conversation_id,
        "turn_id": subject.turn_id,
        "trace_id": subject.trace_id,
        "difference": pair.difference,
        "old": {"evaluation_id": pair.old.evaluation_id, "score": pair.old.score, "explanation": pair.old.explanation},
        "new": {"evaluation_id": pair.new.evaluation_id, "score": pair.new.score, "explanation": pair.new.explanation},
    }


def as_text(report: ReplayReport, console: Console) -> None:
    """Print a table per evaluator, and its conclusions."""
    for comparison in report.comparisons:
        _print(comparison, console)
    for line in _omissions(report):
        console.print(line, highlight=False)


def _print(each: EvaluatorComparison, console: Console) -> None:
    comparison = each.comparison
    if comparison is None:
        console.print(Text(f"{each.new.evaluator}: no new score{_unscored(each)}"))
        return
    console.print(
        Text(
            f"\n{each.new.evaluator}: {plural(comparison.pairs, 'pair')} "
            f"in {plural(comparison.conversations, 'conversation')}"
        )
    )
    console.print(Text(f"  old: {_who(each.old)}\n  new: {_who(each.new)}"), soft_wrap=True)
    console.print(_table(each, comparison))
    for line in _conclusions(each, comparison):
        console.print(Text(line), soft_wrap=True)
    if comparison.worst:
        console.print("Largest differences:", highlight=False)
    for pair in comparison.worst:
        for line in _difference_lines(pair):
            console.print(Text(line), soft_wrap=True)


def _table(each: EvaluatorComparison, comparison: Comparison) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("", "old", "new", "difference", "95 % interval"):
        table.add_column(heading, justify="right" if heading else "left")
    table.add_row("mean score", *_cells(comparison.mean))
    if comparison.passing is not None:
        table.add_row("passed", *_cells(comparison.passing))
    table.add_row("cost", _usd(each.old.cost_usd), _usd(each.new.cost_usd))
    return table


def _who(side: ComparedEvaluator) -> str:
    judge = f"judged by {plain(side.judge)}" if side.judge else "no judge"
    return f"{side.evaluator} (version {side.version}), {judge}"


def _usd(cost: float | None) -> str:
    return "–" if cost is None else f"{cost:.4f} USD"


def _cells(comparison: MeanChange) -> tuple[str, str, str, str]:
    bounds = "–" if comparison.interval is None else f"{comparison.interval[0]:+.3f} … {comparison.interval[1]:+.3f}"
    return f"{comparison.old:.3f}", f"{comparison.new:.3f}", f"{comparison.difference:+.3f}", bounds


def _conclusions(each: EvaluatorComparison, comparison: Comparison) -> Iterator[str]:
    yield _verdict(comparison.mean)
    if comparison.same_verdict is not None:
        flips = f"{comparison.to_fail} from pass to fail, {comparison.to_pass} from fail to pass"
        yield f"Same verdict at the threshold: {comparison.same_verdict:.1%}; {flips}."
    if not math.isnan(comparison.rank_correlation):
        yield f"Rank correlation of the scores: {comparison.rank_correlation:.3f}."
    if comparison.weighted:
        yield "Means are weighted by 1 / sampling probability."
    if each.no_score:
        yield f"Without a new score{_unscored(each)}."


def _verdict(mean: MeanChange) -> str:
    if mean.interval is None:
        return "No interval: it needs at least two conversations."
    low, high = mean.interval
    if low <= 0.0 <= high:
        return "The means do not differ beyond chance."
    return f"The new scores are {'higher' if mean.difference > 0 else 'lower'}, beyond chance."


def _unscored(each: EvaluatorComparison) -> str:
    counts = ", ".join(f"{count} {what}" for what, count in each.no_score.items())
    return f": {counts}" if counts else ""


def _difference_lines(pair: EvaluationPair) -> Iterator[str]:
    subject = pair.old.subject
    what = f"turn {subject.turn_id}" if subject.turn_id else f"conversation {subject.conversation_id}"
    trace = f", trace {subject.trace_id}" if subject.trace_id else ""
    yield plain(f"  {pair.old.score:.3f} → {pair.new.score:.3f}  {what}{trace}")
    for side, evaluation in (("old", pair.old), ("new", pair.new)):
        reason = " ".join((evaluation.explanation or "").split())
        if reason:
            yield plain(f"      {side}: {reason[:_REASON]}{'…' if len(reason) > _REASON else ''}")


def _was(count: int) -> str:
    return "was" if count == 1 else "were"


def _omissions(report: ReplayReport) -> Iterator[str]:
    if report.unscored:
        yield f"{plural(report.unscored, 'evaluation')} had no old score and {_was(report.unscored)} omitted."
    if report.gone:
        yield f"{plural(report.gone, 'evaluation')} {_was(report.gone)} omitted: turns have expired (log.retention)."
