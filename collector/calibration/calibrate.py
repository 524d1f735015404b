"""`evalstream calibrate`: agreement of an evaluator with human labels, the threshold that fits, the corrected mean."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
from rich import box
from rich.console import Console
from rich.table import Table

from collector.calibration.agreement import Pair
from collector.calibration.correction import Estimate, Labelled, Weighed, corrected, weighted_mean
from collector.calibration.given import LabelBook, Reader, Version
from collector.calibration.labels import Label, read_labels
from collector.calibration.measures import ENOUGH, FEWEST, Agreement, Scale, agreement
from collector.calibration.plot import plot_svg
from collector.config.loading import Config
from collector.errors import BadInput, ConfigError
from collector.logs.log import Stored
from collector.opening import open_logs
from collector.planning import version_in
from collector.records import evaluation_from_json
from evaluators.outcome import Evaluation


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrateOptions:
    """What the command line says. `target` is the share of bad answers that a new threshold should fail.

    Without a file the `labels` are those that people gave on the page.
    """

    labels: Path | None
    evaluator: str
    target: float = 0.9
    plot: Path | None = None
    json: bool = False


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
    notes: tuple[str, ...] = ()


def calibrate(config: Config, options: CalibrateOptions) -> str:
    """Calibrate; returns what to print.

    Raises:
        ConfigError: there is no such evaluator, or the labels cannot be used.
    """
    if options.evaluator not in config.evaluators:
        raise ConfigError(
            f"--evaluator: no evaluator is called {options.evaluator!r}; there is {', '.join(config.evaluators)}"
        )
    scale = Scale.of(config.evaluators[options.evaluator].evaluator)
    version: Version = (options.evaluator, version_in(config, options.evaluator))
    ledger = asyncio.run(_ledger_of(config, version, scale))
    if options.labels is None:
        labels, notes = _given(version, ledger)
    else:
        scores = {name: each.judged for each in ledger.scored for name in each.names}
        labels, notes = read_labels(options.labels, scores, lower_is_better=scale.lower_is_better), ()
    if ledger.others:
        notes = (
            *notes,
            f"{ledger.others} scores are of another version of {options.evaluator} or of another judge, and left out.",
        )
    found = calibration(options, labels, [each.judged for each in ledger.scored], scale, notes)
    if options.plot:
        _write(options.plot, plot_svg(labels, found.threshold, options.evaluator))
    return as_json(found) if options.json else as_text(found)


@dataclass(frozen=True, slots=True)
class _Scored:
    """A score of the ledger and the ids by which a label may name it."""

    judged: Weighed
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Ledger:
    """What the logs hold of a version of an evaluator. `others` are the scores of its other versions."""

    scored: tuple[_Scored, ...]
    others: int
    book: LabelBook


async def _ledger_of(config: Config, version: Version, scale: Scale) -> _Ledger:
    book = LabelBook([version[0]] if scale.lower_is_better else [])
    scored: list[_Scored] = []
    others = 0
    async with open_logs(config.settings.log) as logs:
        async for record in Reader(logs.evaluations).records():
            if (found := _of_evaluator(record, version[0])) is not None:
                if found.evaluator_version == version[1]:
                    scored.append(_scored(found))
                else:
                    others += 1
        async for record in Reader(logs.labels).records():
            book.add(record)
    return _Ledger(tuple(scored), others, book)


def _of_evaluator(record: Stored, evaluator: str) -> Evaluation | None:
    """The evaluation in a record, if it is one of the evaluator's and has a score."""
    try:
        found = evaluation_from_json(record.value)
    except BadInput:
        return None  # the exporters report it
    return found if found.evaluator == evaluator and found.score is not None else None


def _scored(evaluation: Evaluation) -> _Scored:
    assert evaluation.score is not None
    names = (evaluation.evaluation_id, evaluation.subject.turn_id or evaluation.subject.conversation_id)
    return _Scored(Weighed(evaluation.score, 1.0 / evaluation.sampling.probability), names)


def _given(version: Version, ledger: _Ledger) -> tuple[list[Label], tuple[str, ...]]:
    """The labels of the page, and what to bear in mind of them."""
    evaluator = version[0]
    labels, others = ledger.book.labels(version), ledger.book.others(version)
    older = f"{others} labels are of another version of {evaluator} or of another judge, and left out."
    if not labels:
        raise ConfigError(
            f"nobody has labelled {evaluator} on the page{'; ' + older if others else ''}; "
            "give some labels there, or name a file of labels"
        )
    chosen = (
        "People chose on the page what to label: the mean as they would have it holds only if they chose at random."
    )
    return labels, (chosen, older) if others else (chosen,)


def calibration(
    options: CalibrateOptions,
    labels: Sequence[Label],
    ledger: Sequence[Weighed],
    scale: Scale,
    notes: tuple[str, ...] = (),
) -> Calibration:
    """The figures; `ledger` holds all scores of the traffic that the labels were drawn from."""
    pairs = _pairs(labels)
    segments = sorted({label.segment for label in labels})
    agreements = [agreement("all", pairs, scale)]
    if len(segments) > 1:
        agreements += [
            agreement(each, _pairs([label for label in labels if label.segment == each]), scale) for each in segments
        ]
    return Calibration(
        evaluator=options.evaluator,
        threshold=scale.threshold,
        agreements=tuple(agreements),
        fitting_threshold=scale.threshold_for(pairs, options.target),
        target=options.target,
        raw_mean=weighted_mean(ledger) if ledger else None,
        corrected_mean=corrected(_labelled(labels), ledger) if len(pairs) >= FEWEST else None,
        notes=notes,
    )


def _write(path: Path, picture: str) -> None:
    try:
        path.write_text(picture, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror}); name another file with --plot") from error


def _pairs(labels: Sequence[Label]) -> list[Pair]:
    return [(label.judge, label.human) for label in labels]


def _labelled(labels: Sequence[Label]) -> list[Labelled]:
    return [Labelled(label.judge, label.human, label.weight) for label in labels]


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
        "notes": found.notes,
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
    yield from found.notes
