"""A replay's figures as tables for people and as JSON for programs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from collector.logging_json import plain
from collector.replay.comparison import Change, Comparison, Pair
from evaluators.outcome import Evaluation

_REASON = 200
"""Characters of a reason that the table shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a comparison: who judged, and what it cost (None where no price is known)."""

    evaluator: str
    version: str
    judge: str
    cost_usd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What became of one evaluator's past evaluations.

    `no_score` counts, by outcome, what the new evaluator came to instead of a score; `failed` names errors.
    """

    old: Side
    new: Side
    comparison: Comparison | None
    no_score: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A whole replay. `unscored`, `gone`, `left`: not judged again, as there was no old score, no text, no money."""

    replayed: tuple[Replayed, ...]
    unscored: int
    gone: int
    left: int
    spent_usd: float


def sides(pairs: Iterable[tuple[Evaluation, Evaluation]]) -> tuple[Side, Side]:
    """Who judged, then and now, by the records; of several the one with the newest record."""
    old, new = zip(*sorted(pairs, key=lambda each: each[0].ended_at), strict=True)
    return _side(old), _side(new)


def _side(evaluations: tuple[Evaluation, ...]) -> Side:
    newest = evaluations[-1]
    costs = [each.cost_usd for each in evaluations if each.cost_usd is not None]
    return Side(
        evaluator=newest.evaluator,
        version=newest.evaluator_version,
        judge=newest.judge.model if newest.judge else "",
        cost_usd=math.fsum(costs) if costs else None,
    )


def as_json(report: Report) -> str:
    """One JSON object."""
    document = {
        "evaluators": [_plain(each) for each in report.replayed],
        "left_out": {"no_old_score": report.unscored, "text_is_gone": report.gone, "no_money": report.left},
        "spent_usd": report.spent_usd,
    }
    return orjson.dumps(document).decode() + "\n"


def _plain(each: Replayed) -> dict[str, Any]:
    found = each.comparison
    figures: dict[str, Any] = {"pairs": 0}
    if found is not None:
        figures = {
            "pairs": found.pairs,
            "conversations": found.conversations,
            "weighted": found.weighted,
            "mean": found.mean,
            "passing": found.passing,
            "same_verdict": found.same_verdict,
            "pass_to_fail": found.to_fail,
            "fail_to_pass": found.to_pass,
            "rank_correlation": found.rank_correlation,  # NaN becomes null
            "worst_disagreements": [_plain_pair(pair) for pair in found.worst],
        }
    return {"old": each.old, "new": each.new, "no_new_score": dict(each.no_score), **figures}


def _plain_pair(pair: Pair) -> dict[str, Any]:
    subject = pair.old.subject
    return {
        "conversation_id": subject.conversation_id,
        "turn_id": subject.turn_id,
        "trace_id": subject.trace_id,
        "difference": pair.difference,
        "old": {"evaluation_id": pair.old.evaluation_id, "score": pair.old.score, "explanation": pair.old.explanation},
        "new": {"evaluation_id": pair.new.evaluation_id, "score": pair.new.score, "explanation": pair.new.explanation},
    }


def as_text(report: Report, console: Console) -> None:
    """Print a table per evaluator and what there is to say about it."""
    for each in report.replayed:
        _print(each, console)
    for line in _left_out(report):
        console.print(line, highlight=False)


def _print(each: Replayed, console: Console) -> None:
    found = each.comparison
    if found is None:
        console.print(Text(f"{each.new.evaluator}: no new score{_unscored(each)}"))
        return
    console.print(Text(f"\n{each.new.evaluator}: {found.pairs} pairs in {found.conversations} conversations"))
    console.print(Text(f"  old: {_who(each.old)}\n  new: {_who(each.new)}"), soft_wrap=True)
    console.print(_table(each, found))
    for line in _conclusions(each, found):
        console.print(Text(line), soft_wrap=True)
    if found.worst:
        console.print("Furthest apart:", highlight=False)
    for pair in found.worst:
        for line in _furthest(pair):
            console.print(Text(line), soft_wrap=True)


def _table(each: Replayed, found: Comparison) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("", "old", "new", "difference", "95 % interval"):
        table.add_column(heading, justify="right" if heading else "left")
    table.add_row("mean score", *_cells(found.mean))
    if found.passing is not None:
        table.add_row("passed", *_cells(found.passing))
    table.add_row("cost", _usd(each.old.cost_usd), _usd(each.new.cost_usd))
    return table


def _who(side: Side) -> str:
    judge = f"judged by {plain(side.judge)}" if side.judge else "no judge"
    return f"{side.evaluator} (version {side.version}), {judge}"


def _usd(cost: float | None) -> str:
    return "–" if cost is None else f"{cost:.4f} USD"


def _cells(found: Change) -> tuple[str, str, str, str]:
    bounds = "–" if found.interval is None else f"{found.interval[0]:+.3f} … {found.interval[1]:+.3f}"
    return f"{found.old:.3f}", f"{found.new:.3f}", f"{found.difference:+.3f}", bounds


def _conclusions(each: Replayed, found: Comparison) -> Iterator[str]:
    yield _verdict(found.mean)
    if found.same_verdict is not None:
        flips = f"{found.to_fail} from pass to fail, {found.to_pass} from fail to pass"
        yield f"Same verdict at the threshold: {found.same_verdict:.1%}; {flips}."
    if not math.isnan(found.rank_correlation):
        yield f"Rank correlation of the scores: {found.rank_correlation:.3f}."
    if found.weighted:
        yield "Means are weighted by 1 / sampling probability."
    if each.no_score:
        yield f"Not in the table{_unscored(each)}."


def _verdict(mean: Change) -> str:
    if mean.interval is None:
        return "One conversation says nothing about others: there is no interval."
    low, high = mean.interval
    if low <= 0.0 <= high:
        return "The means do not differ beyond chance."
    return f"The new scores are {'higher' if mean.difference > 0 else 'lower'}, beyond chance."


def _unscored(each: Replayed) -> str:
    counts = ", ".join(f"{count} {what}" for what, count in each.no_score.items())
    return f": {counts}" if counts else ""


def _furthest(pair: Pair) -> Iterator[str]:
    subject = pair.old.subject
    what = f"turn {subject.turn_id}" if subject.turn_id else f"conversation {subject.conversation_id}"
    trace = f", trace {subject.trace_id}" if subject.trace_id else ""
    yield plain(f"  {pair.old.score:.3f} → {pair.new.score:.3f}  {what}{trace}")
    for side, evaluation in (("old", pair.old), ("new", pair.new)):
        reason = " ".join((evaluation.explanation or "").split())
        if reason:
            yield plain(f"      {side}: {reason[:_REASON]}{'…' if len(reason) > _REASON else ''}")


def _left_out(report: Report) -> Iterator[str]:
    if report.unscored:
        yield f"{report.unscored} had no score then and were left out."
    if report.gone:
        yield f"{report.gone} were left out: their turns are not in the log any more (log.retention)."
