"""The result of an alignment: as text, as JSON, and the new definition as YAML."""

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson
from rich.table import Table

from collector.commands.align.candidates import AlignCandidate, definition_yaml
from collector.commands.align.gain import Gain, HoldoutTest, Share, TrainingTrial
from collector.commands.align.reading import Contradiction
from collector.records.json import fields_of
from collector.telemetry.plain import plain
from collector.telemetry.wide_console import figures_table, report_text
from collector.wording import listed, percent, plural, usd

_WIDTH = 100
_MOST_CONTRADICTIONS = 5
"""Contradictions that the text lists, those of most labels first; JSON has all."""


@dataclass(frozen=True, slots=True)
class TriedCandidate:
    """A candidate and what it came to on the training part."""

    candidate: AlignCandidate
    trial: TrainingTrial


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignReport:
    """A whole alignment. `name` is the new definition's name.

    `labels` counts those that could be used, `gone` those whose texts are not known any more; `at_random` says that the
    held-out ones were drawn at random. `disagreements` are the ones in the training part. `proposed` counts the
    candidates that were valid, `tried` has those that the spending limit allowed. `tested` is the chosen one on the
    held-out part; `refusal` says why nothing is better for sure, None where it is. `spent_usd` is None without a price.
    """

    evaluator: str
    name: str
    judge: str
    proposer: str
    labels: int
    training: int
    holdout: int
    at_random: bool
    gone: int
    contradictions: tuple[Contradiction, ...]
    output: Path
    disagreements: int = 0
    no_score: Mapping[str, int] = field(default_factory=dict[str, int])
    proposed: int = 0
    tried: tuple[TriedCandidate, ...] = ()
    chosen: AlignCandidate | None = None
    tested: HoldoutTest | None = None
    refusal: str | None = None
    spent_usd: float | None = None

    @property
    def gain(self) -> Gain | None:
        """The results of the chosen candidate on the held-out part."""
        return self.tested.gain if self.tested is not None else None


def as_json(report: AlignReport) -> str:
    """One JSON object."""
    aligned = report.chosen if report.refusal is None else None
    document = {
        **fields_of(report, "evaluator", "judge", "proposer", "refusal", "spent_usd"),
        "gained": report.refusal is None,
        "labels": {
            "used": report.labels, "training": report.training, "held_out": report.holdout,
            "held_out_drawn_at_random": report.at_random, "without_texts": report.gone,
            "disagreements_in_training": report.disagreements,
        },
        "no_score": dict(report.no_score),
        "contradictions": [asdict(contradiction) for contradiction in report.contradictions],
        "candidates": [_plain_trial(candidate) for candidate in report.tried],
        "held_out": None if report.gain is None else asdict(report.gain),
        "definition": None if aligned is None else {report.name: aligned.definition.values},
        "why": None if aligned is None else aligned.why,
        "written": None if aligned is None else str(report.output),
    }  # fmt: skip
    return orjson.dumps(document).decode() + "\n"


def _plain_trial(tried: TriedCandidate) -> dict[str, Any]:
    return {
        "changed": tried.candidate.changed, "why": tried.candidate.why, "answered": tried.trial.answered,
        "training_before": tried.trial.before, "training_after": tried.trial.after,
    }  # fmt: skip


def as_text(report: AlignReport) -> str:
    """The cases read, the candidates tried, the conclusion, and the worst contradictions."""
    tried = [_table(report)] if report.tried else []
    return report_text([*_read(report), *tried, *_conclusions(report), *_contradicting(report)])


def _read(report: AlignReport) -> Iterator[str]:
    subjects = report.training + report.holdout
    yield (
        f"{report.evaluator}: {plural(report.labels, 'label')} of {plural(subjects, 'answer')} that can be used, "
        f"{report.training} to learn from and {report.holdout} held out; judged by {report.judge}, "
        f"{plural(report.disagreements, 'disagreement')} to learn from."
    )
    if report.gone:
        yield f"Not used: {plural(report.gone, 'label')} whose texts the log no longer has."
    if not report.at_random:
        yield (
            "The labels do not say that they were drawn at random (--random, or label_probability): the gain is known "
            "for answers like the labelled ones, not for all traffic."
        )


def _contradicting(report: AlignReport) -> Iterator[str]:
    worst = sorted(report.contradictions, key=lambda each: -len(each.passing) - len(each.failing))
    for contradiction in worst[:_MOST_CONTRADICTIONS]:
        yield f"Labels of one answer contradict each other: {plain(_who(contradiction))}."
    if (more := len(report.contradictions) - _MOST_CONTRADICTIONS) > 0:
        yield f"… and {plural(more, 'contradiction')} more (--json has all)."
    if report.contradictions:
        yield "Where labels of one answer contradict each other, the majority counts; in a tie, none does."


def _who(contradiction: Contradiction) -> str:
    names = (*contradiction.passing, *contradiction.failing)
    about = f"{names[0].split(' by ')[0]} by "
    start = len(about) if all(name.startswith(about) for name in names) else 0
    passing, failing = (
        listed([name[start:] for name in side]) for side in (contradiction.passing, contradiction.failing)
    )
    return f"{about[:-4]}: " * bool(start) + f"passed by {passing}, failed by {failing}"


def _table(report: AlignReport) -> Table:
    table = figures_table("changed", ("scored", "before", "after"), title="Candidates on the training part", whole=True)
    for candidate in report.tried:
        figures = (
            "–" if figure is None else f"{figure:.3f}" for figure in (candidate.trial.before, candidate.trial.after)
        )
        mark = " (chosen)" if candidate.candidate is report.chosen else ""
        table.add_row(f"{candidate.candidate.changed}{mark}", percent(candidate.trial.answered), *figures)
    return table


def _conclusions(report: AlignReport) -> Iterator[str]:
    if (left := report.proposed - len(report.tried)) and report.tried:
        yield f"Not tried: {plural(left, 'candidate')}; --max-usd left no money for more."
    if report.gain is not None:
        yield f"{_gain_sentence(report.gain)}."
        yield f"It corrects {plural(report.gain.better, 'verdict')} on these labels, and spoils {report.gain.worse}."
        if report.gain.plain[1] < report.gain.plain[0]:
            old, new = report.gain.plain
            yield f"But the share of these labels that the evaluator agrees with falls: {old:.3f} → {new:.3f}."
    if report.refusal is None and report.chosen is not None:
        yield f"Gained. {report.chosen.changed}; why: {plain(report.chosen.why)}"
        yield f"Written to {report.output}; {report.evaluator} is unchanged. Read the file before you paste it."
    else:
        yield "Nothing was written."
    cost = "unknown, as a judge has no price" if report.spent_usd is None else usd(report.spent_usd)
    yield f"Cost of judges and proposer: {cost}."


def _gain_sentence(gain: Gain) -> str:
    return (
        f"Balanced accuracy on {plural(gain.labels, 'held-out answer')}: {_share(gain.before)} before, "
        f"{_share(gain.after)} after; gain {gain.gain.value:+z.3f} "
        f"({gain.gain.interval[0]:+z.3f} … {gain.gain.interval[1]:+z.3f}, 95 %)"
    )


def _share(share: Share) -> str:
    return f"{share.value:.3f} ({share.interval[0]:.3f} … {share.interval[1]:.3f})"


def as_yaml(report: AlignReport, candidate: AlignCandidate) -> str:
    """The new definition as a piece of configuration, with what changed and why in comments."""
    assert report.gain is not None, "what was not tested is not written"
    how = "drawn at random" if report.at_random else "not known to be drawn at random"
    remark = f"Paste it beside {report.evaluator}, which is unchanged."
    labels = f"{report.training} to learn from, {report.holdout} held out, {how}"
    remarks = (
        f"{report.name}: {report.evaluator}, changed by evalstream align. {remark}",
        f"Changed: {candidate.changed}.",
        f"Why, in the words of judge {report.proposer}: {candidate.why}",
        f"Labels: {labels}; {plural(len(report.contradictions), 'contradiction')} among them.",
        f"{_gain_sentence(report.gain)}; judged by {report.judge}.",
        "Balanced accuracy is (sensitivity + specificity) / 2; verdicts by chance reach 0.5.",
        f"Chosen of {plural(len(report.tried), 'candidate')} on the training part, tested once on the held-out part.",
    )
    lines = [line for each in remarks for line in textwrap.wrap(plain(" ".join(each.split())), _WIDTH)]
    return "".join(f"# {line}\n" for line in lines) + definition_yaml(report.name, candidate.definition.values)
