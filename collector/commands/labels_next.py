"""`evalstream labels next`: evaluations for people to label in a file, drawn as the page's queue draws them."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isclose
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from collector.config.command_options import require_known
from collector.config.configured import Config
from collector.errors import ConfigError
from collector.evaluate.sampling.draw_key import draw_key
from collector.logs.log import Log
from collector.page.label_queue import Draw, draw, queue_position
from collector.page.settings import PageSettings
from collector.past.evaluations import REPLAY_OF, evaluations_in, key_of
from collector.past.turns import case_of, newest_labels, turns_in_log
from collector.records.numbered_lines import numbered_lines
from collector.service.open_logs import Logs, open_stored_logs
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
    """`lines` to label. `open` evaluations, of `scored`, were drawn and wait for a label, the oldest since `since`.
    Of them `second` have one person's, and `again` are labelled or listed, by a draw with other shares. With `fewer`, a
    larger `page.queue.random` draws more. `repeated` lines are about an answer of another line, for another monitor.
    `gone` are monitors of before, whose scores by an evaluator no monitor of now has.
    """

    lines: tuple[bytes, ...]
    open: int
    scored: int
    since: datetime | None
    fewer: bool
    second: int
    again: int
    repeated: int
    gone: Collection[str]


def next_labels(config: Config, options: LabelsNextOptions) -> LabelTasks:
    """The evaluations to label next, in an order independent of the scores, without scores.

    Raises:
        ConfigError: a name is not in the configuration, or a file cannot be read.
    """
    require_known("--evaluator", "evaluator", [options.evaluator], config.evaluators)
    require_known("--monitor", "monitor", [options.monitor], config.settings.monitors)
    return asyncio.run(_next(config, options, {path: dict(_listed_in(path)) for path in options.without}))


class _AnswerDraw(NamedTuple):
    """A score by the present version; the ids of all scores of the answer, the newest first; how the oldest was drawn.

    An answer is drawn once, as labels are about it, whichever version scores it.
    """

    evaluation: Evaluation
    names: Sequence[str]
    draw: Draw | None


@dataclass(frozen=True, slots=True)
class _Earlier:
    """Earlier draws: the labels in the log, and the probability of each line in each file.

    A source is an evaluator, for the log's labels of its evaluations, or a file.
    """

    labels: Mapping[str, Mapping[str | None, Label]]
    files: Mapping[Path, Mapping[str, float]]
    person: str

    def people(self, answer: _AnswerDraw) -> Mapping[str | None, Label]:
        """The labels of an answer by person."""
        return {who: label for name in reversed(answer.names) for who, label in self.labels.get(name, {}).items()}

    def changed(self, answer: _AnswerDraw) -> Iterator[str | Path]:
        """The sources that drew an answer with another probability than that of now."""
        now = answer.draw.probability if answer.draw else 0.0
        if any(not isclose(label.label_probability or 0.0, now) for label in self.people(answer).values()):
            yield answer.evaluation.evaluator
        for path, listed in self.files.items():
            if any(not isclose(listed.get(name, now), now) for name in answer.names):
                yield path

    def having(self, answer: _AnswerDraw) -> Iterator[str | Path]:
        """The sources that have an answer, so that it need not be labelled."""
        people, most = self.people(answer), 2 if answer.draw and answer.draw.twice else 1
        if (self.person or None) in people or len(people) >= most:
            yield answer.evaluation.evaluator
        yield from (path for path, listed in self.files.items() if not listed.keys().isdisjoint(answer.names))


async def _next(config: Config, options: LabelsNextOptions, files: Mapping[Path, Mapping[str, float]]) -> LabelTasks:
    async with open_stored_logs(config.settings.log) as logs:
        earlier = _Earlier(await _labels_by_person(logs.labels), files, options.by)
        gone: dict[str, set[str]] = {}
        answers = [answer async for answer in _draws(config, options, logs, gone)]
        changed = {source for answer in answers for source in earlier.changed(answer)}
        draws = {answer.names[-1]: (answer, answer.draw) for answer in answers if answer.draw is not None}
        # what a draw with other shares took first is no random part of this one: without it, no probability is true
        wanted = [each for each in draws.values() if changed.issuperset(earlier.having(each[0]))]
        ordered = sorted(wanted, key=lambda each: queue_position(str(key_of(each[0].evaluation)), options.by))
        candidates = [(answer.evaluation, label_draw) for answer, label_draw in ordered[: options.number * _AHEAD]]
        turns = await turns_in_log(logs.turns, {evaluation.subject.conversation_id for evaluation, _ in candidates})
    cases = ((judged, how, case_of(judged, turns)) for judged, how in candidates)
    listed = [(judged, how, case) for judged, how, case in cases if case is not None][: options.number]
    new = [answer for answer, _ in ordered if not any(earlier.having(answer))]
    scored = {(answer.evaluation.monitor, answer.evaluation.evaluator) for answer in answers}
    unscored = [use for use in evaluator_versions(config).keys() - scored if options.monitor in (None, use[0])]
    return LabelTasks(
        tuple(_line(*task, options.by) for task in listed), len(ordered), len(answers),
        since=min((answer.evaluation.time for answer, _ in ordered), default=None),
        fewer=len(ordered) < options.number and (config.settings.page or PageSettings()).queue.random < 1.0,
        second=sum(bool(earlier.people(answer)) for answer in new),
        again=len(ordered) - len(new), repeated=len(listed) - len({key_of(judged) for judged, _, _ in listed}),
        gone=sorted({name for _, of in unscored if options.evaluator in (None, of) for name in gone.get(of, ())}),
    )  # fmt: skip


async def _draws(
    config: Config, options: LabelsNextOptions, logs: Logs, gone: dict[str, set[str]]
) -> AsyncIterator[_AnswerDraw]:
    """The answers with a score by the present version; `gone` gets the former monitors of each evaluator."""
    settings, versions = (config.settings.page or PageSettings()).queue, evaluator_versions(config)
    key = await draw_key(await logs.generated_steps())
    answers = dict[str, tuple[list[str], Draw | None]]()
    async for past in evaluations_in(logs.evaluations):
        evaluation, replayed = past.evaluation, str(past.evaluation.attributes.get(REPLAY_OF, ""))
        present = versions.get((evaluation.monitor, evaluation.evaluator))
        if evaluation.monitor not in config.settings.monitors and evaluation.score is not None:
            gone.setdefault(evaluation.evaluator, set()).add(evaluation.monitor)
        wanted = options.evaluator in (None, evaluation.evaluator) and options.monitor in (None, evaluation.monitor)
        if present is None or evaluation.score is None or not wanted:
            continue
        if (known := answers.get(replayed)) is None:
            threshold = config.evaluators[evaluation.evaluator].evaluator.threshold
            known = [replayed or evaluation.evaluation_id], draw(evaluation, threshold, settings, key)
        answers[evaluation.evaluation_id] = known
        known[0].insert(0, evaluation.evaluation_id)
        if evaluation.evaluator_version == present:
            yield _AnswerDraw(evaluation, *known)


async def _labels_by_person(labels: Log) -> dict[str, dict[str | None, Label]]:
    """The labels of the drawn evaluations that count, by evaluation and person."""
    labels_of: dict[str, dict[str | None, Label]] = {}
    for label in await newest_labels(labels):
        if label.label_probability is not None and label.state is None:
            labels_of.setdefault(label.evaluation_id, {})[label.given_by] = label
    return labels_of


def _line(evaluation: Evaluation, label_draw: Draw, case: Turn | Conversation, by: str) -> bytes:
    """A line to fill in: `human` is to be a number on 0..1, true or false; null is none yet."""
    row: dict[str, Any] = {
        "evaluation_id": evaluation.evaluation_id, "evaluator": evaluation.evaluator, "monitor": evaluation.monitor,
        "label_probability": label_draw.probability, "weight": 1.0 / evaluation.sampling.probability,
    }  # fmt: skip
    # the subject's id finds the label after another version has judged the subject
    if isinstance(case, Turn):
        row |= {"turn_id": case.turn_id, "conversation_id": evaluation.subject.conversation_id, **_texts(case)}
    else:
        row |= {"conversation_id": case.conversation_id, "turns": [_texts(turn) for turn in case.turns]}
    return orjson.dumps({**row, "human": None, "given_by": by or None}) + b"\n"


def _texts(turn: Turn) -> dict[str, Any]:
    texts: dict[str, Any] = {"input": turn.input, "actual_output": turn.actual_output}
    if turn.retrieval_context:
        texts["retrieval_context"] = list(turn.retrieval_context)
    return texts


def _listed_in(path: Path) -> Iterator[tuple[str, float]]:
    for number, line in numbered_lines(path, remedy="; name another file with --without"):
        try:
            row = orjson.loads(line)
            yield str(row["evaluation_id"]), float(row["label_probability"])
        except (ValueError, KeyError, TypeError):
            raise ConfigError(f"{path}: line {number}: no evaluation_id or label_probability of labels next") from None


def summary(tasks: LabelTasks) -> str:
    """The summary for stderr."""
    more = "; a larger page.queue.random draws more" if tasks.fewer else ""
    if tasks.gone:
        why = f"; scores of former monitors ({', '.join(tasks.gone)}) are left out"
        more = f"{why}; give the monitor its former name again, or wait for new scores"
    elif not tasks.scored:
        more = "; no score is by the present version; evalstream rejudge --what all makes it score past answers"
    among = f", {tasks.second} of them for a second person" if tasks.second else ""
    copy = "copy the earlier verdicts into `human` of this file, and give calibrate this file alone"
    why = "as page.queue, a threshold or the release of evalstream has changed since"
    again = f"; {tasks.again} labelled or listed before come again, {why}: {copy}"
    repeated = f"; {tasks.repeated} repeat the answer of the line before for another monitor: copy that line's `human`"
    since = f" (scores since {tasks.since:%Y-%m-%dT%H:%MZ})" if tasks.since else ""
    some = f"{len(tasks.lines)} of {plural(tasks.open, 'drawn evaluation')} waiting for a label{among}"
    what = some if tasks.open else "no drawn evaluation waits for a label"
    return f"{what}{since}{again if tasks.again else ''}{repeated if tasks.repeated else ''}{more}"
