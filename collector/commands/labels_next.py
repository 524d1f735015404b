"""`evalstream labels next`: evaluations for people to label in a file, drawn as the page's queue draws them."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from collector.config.command_options import require_known
from collector.config.configured import Config
from collector.errors import ConfigError
from collector.evaluate.sampling.draw_key import draw_key
from collector.logs.log import Log
from collector.page.label_queue import Draw, LabelQueueSettings, draw, queue_position
from collector.past.evaluations import evaluations_in
from collector.past.turns import case_of, labels_in, turns_in_log
from collector.records.numbered_lines import numbered_lines
from collector.service.open_logs import Logs, open_logs
from collector.service.plan_builder import evaluator_versions
from collector.wording import plural
from evaluators.cases import Conversation, Turn
from evaluators.results import Evaluation, Label

_AHEAD = 4
"""How many candidates are read for each wanted line: the log no longer has the texts of some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelsNextOptions:
    """The command's options. `without` are files of earlier calls: what is in them is left out."""

    number: int = 50
    evaluator: str | None = None
    monitor: str | None = None
    by: str = ""
    without: Sequence[Path] = ()


@dataclass(frozen=True, slots=True)
class LabelTasks:
    """`lines` to label. `open` evaluations were drawn, of `scored` ones, and are not labelled yet; the oldest is of
    `since`.
    """

    lines: tuple[bytes, ...]
    open: int
    scored: int
    since: datetime | None


def next_labels(config: Config, options: LabelsNextOptions) -> LabelTasks:
    """The evaluations to label next, in an order independent of the scores, without scores.

    Raises:
        ConfigError: a name is not in the configuration, or a file cannot be read.
    """
    require_known("--evaluator", "evaluator", [options.evaluator], config.evaluators)
    require_known("--monitor", "monitor", [options.monitor], config.settings.monitors)
    listed = {evaluation_id for path in options.without for evaluation_id in _ids_in(path)}
    return asyncio.run(_next(config, options, listed))


async def _next(config: Config, options: LabelsNextOptions, listed: set[str]) -> LabelTasks:
    async with open_logs(config.settings.log, create=False) as logs:
        labels = await _labels_by_person(logs.labels)
        draws, scored = dict[str, tuple[Evaluation, Draw]](), 0
        async for evaluation, label_draw in _draws(config, options, logs):
            scored += evaluation.score is not None
            if label_draw is None or evaluation.evaluation_id in listed:
                continue
            if _is_open(labels.get(evaluation.evaluation_id, {}), label_draw, options.by):
                draws[evaluation.evaluation_id] = evaluation, label_draw
        ordered = sorted(draws.values(), key=lambda each: queue_position(each[0].evaluation_id, options.by))
        candidates = ordered[: options.number * _AHEAD]
        turns = await turns_in_log(logs.turns, {evaluation.subject.conversation_id for evaluation, _ in candidates})
    lines = [
        _line(evaluation, label_draw, case)
        for evaluation, label_draw in candidates
        if (case := case_of(evaluation, turns)) is not None
    ]
    since = min((evaluation.time for evaluation, _ in ordered), default=None)
    return LabelTasks(tuple(lines[: options.number]), len(ordered), scored, since)


async def _draws(
    config: Config, options: LabelsNextOptions, logs: Logs
) -> AsyncIterator[tuple[Evaluation, Draw | None]]:
    page = config.settings.page
    settings = page.queue if page is not None else LabelQueueSettings()
    key = await draw_key(await logs.generated_steps())
    versions = evaluator_versions(config)
    async for past in evaluations_in(logs.evaluations):
        evaluation = past.evaluation
        if evaluation.evaluator_version != versions.get((evaluation.monitor, evaluation.evaluator)):
            continue  # by an earlier version of evaluator or judge, so a label on it says nothing about this one
        if not _is_wanted(evaluation, options):
            continue
        yield evaluation, draw(evaluation, config.evaluators[evaluation.evaluator].evaluator.threshold, settings, key)


def _is_wanted(evaluation: Evaluation, options: LabelsNextOptions) -> bool:
    return options.evaluator in (None, evaluation.evaluator) and options.monitor in (None, evaluation.monitor)


async def _labels_by_person(labels: Log) -> dict[str, dict[str | None, Label]]:
    """The labels of the drawn evaluations that count, by evaluation and person."""
    labels_of: dict[str, dict[str | None, Label]] = {}
    async for label in labels_in(labels):
        if label.label_probability is not None:
            labels_of.setdefault(label.evaluation_id, {})[label.given_by] = label
    return {
        evaluation_id: {person: label for person, label in by_person.items() if label.state is None}
        for evaluation_id, by_person in labels_of.items()
    }


def _is_open(labels: dict[str | None, Label], label_draw: Draw, person: str) -> bool:
    return (person or None) not in labels and len(labels) < (2 if label_draw.twice else 1)


def _line(evaluation: Evaluation, label_draw: Draw, case: Turn | Conversation) -> bytes:
    """A line to fill in: `human` is to be a number on 0..1, true or false; null is none yet."""
    row: dict[str, Any] = {
        "evaluation_id": evaluation.evaluation_id, "evaluator": evaluation.evaluator, "monitor": evaluation.monitor,
        "label_probability": label_draw.probability, "weight": 1.0 / evaluation.sampling.probability,
    }  # fmt: skip
    # the subject's id finds the label after another version has judged the subject
    if isinstance(case, Turn):
        row |= {"turn_id": case.turn_id, **_texts(case)}
    else:
        row |= {"conversation_id": case.conversation_id, "turns": [_texts(turn) for turn in case.turns]}
    return orjson.dumps({**row, "human": None}) + b"\n"


def _texts(turn: Turn) -> dict[str, Any]:
    texts: dict[str, Any] = {"input": turn.input, "actual_output": turn.actual_output}
    if turn.retrieval_context:
        texts["retrieval_context"] = list(turn.retrieval_context)
    return texts


def _ids_in(path: Path) -> Iterator[str]:
    for number, line in numbered_lines(path):
        try:
            yield str(orjson.loads(line)["evaluation_id"])
        except (orjson.JSONDecodeError, KeyError, TypeError):
            raise ConfigError(f"{path}: line {number}: has no evaluation_id; name files of labels next") from None


def summary(tasks: LabelTasks) -> str:
    """The summary for stderr."""
    more = "; a larger page.queue.random draws more" if len(tasks.lines) == tasks.open else ""
    if not tasks.scored:
        more = "; the log has no score by the present version; evalstream rejudge scores past answers with it"
    since = f", of scores since {tasks.since:%Y-%m-%dT%H:%MZ}" if tasks.since else ""
    what = f"{plural(len(tasks.lines), 'evaluation')} to label, of {tasks.open} that are drawn and not labelled"
    return f"{what}{since}{more}"
