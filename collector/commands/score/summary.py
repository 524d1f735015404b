"""Summary of evaluations: per evaluator the mean score with its interval, and the counts without a score.

Summaries of scores, as a table for people and as JSON for programs.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import orjson
from rich import box
from rich.table import Table

from collector.statistics.confusion import Confusion
from collector.statistics.intervals import mean_interval
from collector.telemetry.wide_console import wide_console
from evaluators.results import Evaluation

NONE: Mapping[str, Confusion] = {}


@dataclass(slots=True)
class ScoreSummary:
    """One evaluator's evaluations. Scores of one conversation count as dependent in the interval."""

    scored: int = 0
    skipped: int = 0
    passed: int = 0
    judged: int = 0
    failed: Counter[str] = field(default_factory=Counter[str])
    problem: str | None = None
    """The first failure's message; never judged text."""
    cost_usd: float | None = None
    tokens: int = 0
    labels: Counter[str] = field(default_factory=Counter[str])
    """How often each label was chosen that says more than pass and fail."""
    clusters: dict[str, tuple[float, int]] = field(default_factory=dict[str, tuple[float, int]])

    def add(self, evaluation: Evaluation) -> None:
        """Count one evaluation."""
        if evaluation.usage:
            self.tokens += evaluation.usage.input_tokens + evaluation.usage.output_tokens
        if evaluation.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + evaluation.cost_usd
        if evaluation.score is not None:
            total, count = self.clusters.get(evaluation.subject.conversation_id, (0.0, 0))
            self.clusters[evaluation.subject.conversation_id] = (total + evaluation.score, count + 1)
            self.scored += 1
            self.judged += evaluation.passed is not None
            self.passed += evaluation.passed is True
            if evaluation.label not in (None, "pass", "fail"):
                self.labels[evaluation.label] += 1
        elif evaluation.outcome == "skipped":
            self.skipped += 1
        else:
            self.failed[evaluation.error.type if evaluation.error else "unknown"] += 1
            self.problem = self.problem or (evaluation.error.message if evaluation.error else None)

    @property
    def mean(self) -> float | None:
        """The mean score; None without scores."""
        return sum(total for total, _ in self.clusters.values()) / self.scored if self.scored else None

    @property
    def error(self) -> float | None:
        """The mean's standard error, by conversation (Taylor linearisation); None below two of them."""
        mean, n = self.mean, len(self.clusters)
        if mean is None or n < 2:
            return None
        squares = sum((total - mean * count) ** 2 for total, count in self.clusters.values())
        return math.sqrt(squares * n / (n - 1)) / self.scored

    @property
    def interval(self) -> tuple[float, float] | None:
        """The mean's 95 % interval, within [0, 1]; None without scores."""
        if self.mean is None:
            return None
        number = self.scored**2 / sum(count**2 for _, count in self.clusters.values())
        return mean_interval(self.mean, self.error or 0.0, number)

    @property
    def pass_share(self) -> float | None:
        """The share of scores that meet the threshold; None without a threshold."""
        return self.passed / self.judged if self.judged else None


def summarize(evaluations: Iterable[Evaluation]) -> dict[str, ScoreSummary]:
    """The tallies by evaluator, in the order of their first evaluation."""
    by_name: dict[str, ScoreSummary] = {}
    for evaluation in evaluations:
        by_name.setdefault(evaluation.evaluator, ScoreSummary()).add(evaluation)
    return by_name


def below(summary: ScoreSummary, line: float, *, lower_is_better: bool = False) -> bool:
    """Whether the mean is worse than the line, or there is none. Where less is better, the line is turned round."""
    if summary.mean is None:
        return True
    return summary.mean > turned(line) if lower_is_better else summary.mean < line


def turned(line: float) -> float:
    """The line for evaluators whose best score is 0."""
    return round(1.0 - line, 9)


def as_json(
    by_evaluator: Mapping[str, ScoreSummary], lower: Collection[str] = (), classified: Mapping[str, Confusion] = NONE
) -> str:
    """One JSON object by evaluator; `lower` are those for which lower is better."""
    plain = {name: _plain(summary, name in lower) for name, summary in by_evaluator.items()}
    for name, confusion in classified.items():
        plain[name]["classification"] = confusion.as_json()
    return orjson.dumps(plain).decode() + "\n"


def _plain(summary: ScoreSummary, lower_is_better: bool) -> dict[str, object]:
    return {
        "direction": "lower_is_better" if lower_is_better else "higher_is_better",
        "scored": summary.scored,
        "skipped": summary.skipped,
        "failed": dict(summary.failed),
        "mean": summary.mean,
        "interval": summary.interval,
        "pass_share": summary.pass_share,
        "tokens": summary.tokens,
        "cost_usd": summary.cost_usd,
        **({"labels": dict(summary.labels.most_common())} if summary.labels else {}),
    }


def as_table(
    by_evaluator: Mapping[str, ScoreSummary], lower: Collection[str] = (), classified: Mapping[str, Confusion] = NONE
) -> str:
    """A table as text, coloured only on a terminal; `lower` are the evaluators for which lower is better."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("evaluator")
    for heading in ("scored", "mean", "95 % interval", "passed", "skipped", "failed", "cost"):
        table.add_column(heading, justify="right", overflow="fold")
    for name, summary in by_evaluator.items():
        table.add_row(f"{name} (lower is better)" if name in lower else name, *_cells(summary))
    console = wide_console()
    with console.capture() as captured:
        console.print(table)
        for name, summary in by_evaluator.items():
            if summary.labels:
                console.print(f"{name}: {_labels(summary)}", markup=False, highlight=False)
        for name, confusion in classified.items():
            console.print(_matrix(name, confusion))
    return captured.get()


def _matrix(name: str, confusion: Confusion) -> Table:
    """Expected labels as rows and chosen ones as columns, with precision, recall and F1."""
    title = f"{name}: accuracy {confusion.accuracy:.3f}, macro F1 {confusion.macro_f1:.3f}"
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    table.add_column("expected \\ chosen")
    for heading in (*confusion.labels, "precision", "recall", "F1"):
        table.add_column(heading, justify="right", overflow="fold")
    for label in confusion.labels:
        cells = (str(confusion.counts.get((label, chosen), 0)) for chosen in confusion.labels)
        ratios = ("–" if ratio is None else f"{ratio:.3f}" for ratio in confusion.ratios(label))
        table.add_row(label, *cells, *ratios)
    return table


def _labels(summary: ScoreSummary) -> str:
    total = summary.labels.total()
    return ", ".join(f"{label} {count} ({count / total:.0%})" for label, count in summary.labels.most_common())


def _cells(summary: ScoreSummary) -> list[str]:
    interval = summary.interval
    return [
        str(summary.scored),
        "–" if summary.mean is None else f"{summary.mean:.3f}",
        "–" if interval is None else f"{interval[0]:.3f} … {interval[1]:.3f}",
        "–" if summary.pass_share is None else f"{summary.pass_share:.1%}",
        str(summary.skipped),
        ", ".join(f"{count} {type_}" for type_, count in summary.failed.items()) or "0",
        "–" if summary.cost_usd is None else f"{summary.cost_usd:.4f} USD",
    ]
