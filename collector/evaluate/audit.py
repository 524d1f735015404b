"""The audit of evaluations: what the turns log makes due, against what the evaluations log holds.

The stage's own fold finds the evaluations that are due, so the audit is no second opinion about them. Ids are compared
in a temporary database on disk: logs are larger than memory.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from collector.evaluate.outcomes import OutcomeSums
from collector.evaluate.plan import Job
from collector.telemetry import series
from evaluators.results import Evaluation, SkipReason

EXAMPLES = 5
"""The number of missing evaluations that the report names."""

_SQL = {
    name: statement
    for part in files("collector.evaluate").joinpath("audit.sql").read_text(encoding="utf-8").split("-- # ")[1:]
    for name, statement in [part.split("\n", 1)]
}
"""The statements of `audit.sql` by their names."""


@dataclass(frozen=True, slots=True)
class MissingEvaluation:
    """An evaluation that a record of the turns log made due, but that is not in the evaluations log."""

    evaluation_id: str
    partition: int
    offset: int


@dataclass(slots=True)
class Balance:
    """The outcomes of the evaluations of one monitor and evaluator.

    The states of `audit.sql` have the names of these fields. `replaced` counts those that a later revision superseded
    before they were made. Evaluations that became due before the first one by the present definition are not compared:
    `made_earlier` counts those whose subjects another definition has judged, `not_compared` the others.
    """

    monitor: str
    evaluator: str
    due: int = 0
    outcomes: dict[str, int] = field(default_factory=dict[str, int])
    sampled_out: int = 0
    """Turns or conversations that matched and were not drawn; not among those due."""
    replaced: int = 0
    retried: int = 0
    """Failed evaluations that are made again. The two count as one, with the outcome of the second."""
    in_flight: int = 0
    made_earlier: int = 0
    not_compared: int = 0
    missing: int = 0
    examples: list[MissingEvaluation] = field(default_factory=list[MissingEvaluation])
    earlier: int = 0
    """Evaluations in the log of subjects of which another one is due: by another definition."""
    others: int = 0
    """Evaluations in the log of subjects of which none is due: their turns are gone, or an earlier configuration judged
    more."""
    later: int = 0
    """Evaluations that are not due, and were appended after the audit began."""
    repeated: int = 0
    """The number of evaluations that are in the log more than once."""
    scored_twice: int = 0
    """Subjects with several scores, live or of retries, by one version of the evaluator, under different ids."""
    scored_twice_example: str = ""


class EvaluationAudit(AbstractContextManager["EvaluationAudit"]):
    """Collects the evaluations that are due and those that are done; `balances` compares them, once."""

    def __init__(self) -> None:
        self.turns = defaultdict[int, OutcomeSums](OutcomeSums)
        """The turns of each partition, sampled or not, by their outcome."""
        self._database = sqlite3.connect("")  # a temporary file, deleted when it is closed
        self._database.executescript(_SQL["tables"])

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def add_due(self, partition: int, jobs: Iterable[Job]) -> None:
        """Add evaluations that a partition of the turns log makes due."""
        for job in jobs:
            self._database.execute(
                _SQL["add_due"],
                [job.evaluation_id, partition, job.trigger_offset, job.monitor.name, job.assignment.evaluator.name,
                 *job.subject, job.sampling.probability,
                 2 if job.retry is not None else int(job.happened_at is not None)],
            )  # fmt: skip
            superseded = [(name,) for name in job.supersedes]
            self._database.executemany("INSERT OR IGNORE INTO replaced VALUES (?)", superseded)

    def forget(self, partition: int) -> None:
        """Leave out the evaluations that a partition has made due so far, and the turns that it has not."""
        self.turns[partition].numbers.clear()
        self._database.execute("DELETE FROM due WHERE partition = ?", [partition])

    def add_done(self, evaluation: Evaluation, *, later: bool = False) -> None:
        """Add an evaluation of the evaluations log; `later`: appended after the audit began."""
        subject, is_backfill = evaluation.subject, evaluation.happened_at is not None
        is_compared = evaluation.score is not None and not (is_backfill and evaluation.retry is None)
        is_known = len({*subject.links}) == len(subject.links)  # else it does not say which turns of a span were judged
        self._database.execute(
            "INSERT INTO done VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 1) ON CONFLICT (id) DO UPDATE SET number = number + 1",
            [evaluation.evaluation_id, evaluation.monitor, evaluation.evaluator, subject.id,
             f"{evaluation.evaluator_version} of {hash(subject.links)}" if is_compared and is_known else None,
             evaluation.reason_code if evaluation.reason_code == SkipReason.OVER_BUDGET else evaluation.outcome,
             evaluation.sampling.of_subject.probability, is_backfill, later],
        )  # fmt: skip
        superseded = [(name,) for name in evaluation.supersedes]
        self._database.executemany("UPDATE done SET live_score_by = NULL WHERE id = ?", superseded)

    def is_done(self, evaluation_id: str) -> bool:
        """Whether an evaluation was added as done."""
        with closing(self._database.execute("SELECT 1 FROM done WHERE id = ?", [evaluation_id])) as rows:
            return rows.fetchone() is not None

    def balances(self, done_below: Mapping[int, int]) -> list[Balance]:
        """Compare. `done_below` has an offset for each partition; everything that became due before it is done."""
        self._database.executescript(_SQL["compare"])
        balances: dict[tuple[str, str], Balance] = {}

        def balance(monitor: str, evaluator: str) -> Balance:
            key = series.EVALUATIONS_ENDED.name, monitor, evaluator, "sampled_out", ""
            sampled_out = sum(turns.numbers[key] for turns in self.turns.values())
            return balances.setdefault((monitor, evaluator), Balance(monitor, evaluator, sampled_out=sampled_out))

        for partition, below in done_below.items():
            where = {"partition": partition, "done_below": below}
            for monitor, evaluator, state, number in self._rows(_SQL["states"], where):
                each = balance(monitor, evaluator)
                each.due += number if state != "retried" else 0
                if state != "done":  # else by its outcome, below
                    setattr(each, state, getattr(each, state) + number)
                if state == "missing":
                    names = {"monitor": monitor, "evaluator": evaluator, "examples": EXAMPLES - len(each.examples)}
                    each.examples += [
                        MissingEvaluation(name, partition, offset)
                        for name, offset in self._rows(_SQL["missing"], where | names)
                    ]
        for monitor, evaluator, outcome, state, number, repeated in self._rows(_SQL["outcomes"], {}):
            each = balance(monitor, evaluator)
            if state in ("earlier", "others", "later"):
                setattr(each, state, getattr(each, state) + number)
            elif state != "retried":
                each.outcomes[outcome] = each.outcomes.get(outcome, 0) + number
            each.repeated += repeated
        for monitor, evaluator, number, example in self._rows(_SQL["scored_twice"], {}):
            each = balance(monitor, evaluator)
            each.scored_twice, each.scored_twice_example = number, example
        return [balances[key] for key in sorted(balances)]

    def _rows(self, query: str, parameters: Mapping[str, object]) -> Iterator[tuple[Any, ...]]:
        with closing(self._database.execute(query, parameters)) as rows:
            yield from rows.fetchall()
