"""`evalstream calibrate`: agreement of an evaluator with human labels, the threshold that fits, the corrected mean."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import orjson
from rich import box
from rich.console import Console
from rich.table import Table

from collector.calibration.agreement import (
    Pair,
    interval,
    kendall,
    krippendorff,
    sensitivity,
    spearman,
    specificity,
    threshold_for,
    weighted_kappa,
)
from collector.calibration.correction import Estimate, corrected
from collector.calibration.labels import Label, read_labels
from collector.calibration.plot import plot_svg
from collector.config.loading import Config
from collector.errors import BadInput, ConfigError
from collector.opening import open_logs
from collector.records import evaluation_from_json

ENOUGH = 200
"""Labels from which intervals hold what they say."""
FEWEST = 10

Interval = tuple[float, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrateOptions:
    """What the command line says. `target` is the share of bad answers that a new threshold should fail."""

    labels: Path
    evaluator: str
    target: float = 0.9
    plot: Path | None = None
    json: bool = False


@dataclass(frozen=True, slots=True)
class Agreement:
    """The measures of one segment, each with its interval."""

    segment: str
    labels: int
    measures: dict[str, tuple[float, Interval]]


@dataclass(frozen=True, slots=True)
class Calibration:
    """What `calibrate` finds out."""

    evaluator: str
    threshold: float
    agreements: tuple[Agreement, ...]
    fitting_threshold: float | None
    target: float
    raw_mean: float | None
    corrected_mean: Estimate | None


def calibrate(config: Config, options: CalibrateOptions) -> str:
    """Calibrate; returns what to print.

    Raises:
        ConfigError: there is no such evaluator, or the labels cannot be used.
    """
    if options.evaluator not in config.evaluators:
        raise ConfigError(
            f"--evaluator: no evaluator is called {options.evaluator!r}; there is {', '.join(config.evaluators)}"
        )
    threshold = config.evaluators[options.evaluator].evaluator.threshold
    ledger = asyncio.run(_ledger_of(config, options.evaluator))
    labels = read_labels(options.labels, {name: each.score for each in ledger for name in each.names})
    scores = sorted(each.score for each in ledger)
    found = calibration(options, labels, scores, 0.5 if threshold is None else threshold)
    if options.plot:
        options.plot.write_text(plot_svg(labels, found.threshold, options.evaluator), encoding="utf-8")
    return as_json(found) if options.json else as_text(found)


@dataclass(frozen=True, slots=True)
class _Scored:
    """A score of the ledger and the ids by which a label may name it."""

    score: float
    names: tuple[str, ...]


async def _ledger_of(config: Config, evaluator: str) -> list[_Scored]:
    async with open_logs(config.settings.log) as logs:
        return [
            scored
            for partition in range(logs.evaluations.partitions)
            async for batch in logs.evaluations.read(partition, 0)
            for record in batch
            if (scored := _scored(record.value, evaluator)) is not None
        ]


def _scored(value: bytes, evaluator: str) -> _Scored | None:
    try:
        evaluation = evaluation_from_json(value)
    except BadInput:
        return None  # a tick, a label: no evaluation
    if evaluation.evaluator != evaluator or evaluation.score is None:
        return None
    names = (evaluation.evaluation_id, evaluation.subject.turn_id or evaluation.subject.conversation_id)
    return _Scored(evaluation.score, names)


def calibration(
    options: CalibrateOptions, labels: Sequence[Label], ledger: Sequence[float], threshold: float
) -> Calibration:
    """The figures; `ledger` holds all scores of the traffic that the labels were drawn from."""
    pairs = _pairs(labels)
    segments = sorted({label.segment for label in labels})
    agreements = [agreement("all", pairs, threshold)]
    if len(segments) > 1:
        agreements += [
            agreement(each, _pairs([la for la in labels if la.segment == each]), threshold) for each in segments
        ]
    return Calibration(
        evaluator=options.evaluator,
        threshold=threshold,
        agreements=tuple(agreements),
        fitting_threshold=threshold_for(pairs, options.target),
        target=options.target,
        raw_mean=math.fsum(ledger) / len(ledger) if ledger else None,
        corrected_mean=corrected(pairs, ledger) if len(pairs) >= FEWEST else None,
    )


def _pairs(labels: Sequence[Label]) -> list[Pair]:
    return [(label.judge, label.human) for label in labels]


def agreement(segment: str, pairs: Sequence[Pair], threshold: float) -> Agreement:
    """All measures of one segment."""
    measures: dict[str, Callable[[Sequence[Pair]], float]] = {
        "spearman": spearman,
        "kendall_tau_b": kendall,
        "weighted_kappa": weighted_kappa,
        "krippendorff_alpha": krippendorff,
        "sensitivity": partial(sensitivity, threshold=threshold),
        "specificity": partial(specificity, threshold=threshold),
    }
    found = {name: (measure(pairs), interval(pairs, measure)) for name, measure in measures.items()}
    return Agreement(segment, len(pairs), found)


def as_json(found: Calibration) -> str:
    """One JSON object."""
    document = {
        "evaluator": found.evaluator,
        "threshold": found.threshold,
        "segments": [
            {
                "segment": each.segment,
                "labels": each.labels,
                **{name: {"value": value, "interval": bounds} for name, (value, bounds) in each.measures.items()},
            }
            for each in found.agreements
        ],
        "fitting_threshold": found.fitting_threshold,
        "target_specificity": found.target,
        "raw_mean": found.raw_mean,
        "corrected_mean": found.corrected_mean,
    }
    return orjson.dumps(document).decode() + "\n"


def as_text(found: Calibration) -> str:
    """A table per segment and what follows from it."""
    console = Console()
    with console.capture() as captured:
        for each in found.agreements:
            console.print(_table(found.evaluator, each))
        for line in _conclusions(found):
            console.print(line, highlight=False)
    return captured.get()


def _table(evaluator: str, of: Agreement) -> Table:
    table = Table(title=f"{evaluator}, segment {of.segment}: {of.labels} labels", box=box.SIMPLE_HEAD)
    table.add_column("measure")
    table.add_column("value", justify="right")
    table.add_column("95 % interval", justify="right")
    for name, (value, bounds) in of.measures.items():
        table.add_row(
            name.replace("_", " "),
            "–" if math.isnan(value) else f"{value:.3f}",
            "–" if bounds is None else f"{bounds[0]:.3f} … {bounds[1]:.3f}",
        )
    return table


def _conclusions(found: Calibration) -> Iterator[str]:
    if found.fitting_threshold is None:
        yield f"No threshold fails {found.target:.0%} of what people call bad."
    else:
        yield f"From threshold {found.fitting_threshold:.3f} on, {found.target:.0%} of what people call bad fails."
    if found.raw_mean is not None and found.corrected_mean is not None:
        by_people = f"{found.corrected_mean.mean:.3f} ± {1.96 * found.corrected_mean.error:.3f}"
        yield f"Mean of the judge: {found.raw_mean:.3f}. As people would have it: {by_people}."
    if found.agreements[0].labels < ENOUGH:
        yield f"These are {found.agreements[0].labels} labels; below {ENOUGH} the intervals are too narrow."
