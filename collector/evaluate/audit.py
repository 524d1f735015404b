"""The audit of evaluations: what the turns log makes due, against what the evaluations log holds.

The stage's own fold finds the evaluations that are due, so the audit is no second opinion about them. Ids are compared
in a temporary database on disk: logs are larger than memory.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Self

from collector.evaluate.plan import Job
from evaluators.results import Evaluation

EXAMPLES = 5
"""How many of the missing evaluations are named."""

_TABLES = """
CREATE TABLE due (
    id TEXT PRIMARY KEY, partition INTEGER, trigger_offset INTEGER, monitor TEXT, evaluator TEXT, probability REAL,
    requested INTEGER, state TEXT DEFAULT ''
) WITHOUT ROWID;
CREATE TABLE done (
    id TEXT PRIMARY KEY, monitor TEXT, evaluator TEXT, outcome TEXT, probability REAL, backfill INTEGER, number INTEGER
) WITHOUT ROWID;
CREATE TABLE retried (id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE replaced (id TEXT PRIMARY KEY) WITHOUT ROWID;
"""

_ADD_DUE = """
INSERT INTO due VALUES (?, ?, ?, ?, ?, ?, ?, '') ON CONFLICT (id) DO UPDATE
SET trigger_offset = excluded.trigger_offset, probability = excluded.probability, requested = 1
WHERE excluded.requested
"""
"""A turn of the past makes an evaluation due that nobody has to make, until `rejudge` requests it."""

_COMPARE = """
CREATE INDEX by_evaluator ON due (partition, monitor, evaluator, trigger_offset);
UPDATE due SET state = 'done' WHERE id IN (SELECT id FROM done);
UPDATE due SET state = 'replaced' WHERE state = '' AND id IN (SELECT id FROM replaced);
UPDATE due SET state = 'retried' WHERE id IN (SELECT id FROM retried);
CREATE TABLE comparable AS
    SELECT partition, monitor, evaluator, max(first_match, changed) AS first FROM (
        SELECT due.partition, due.monitor, due.evaluator, min(trigger_offset) AS first_match,
            coalesce(max(CASE WHEN abs(due.probability - done.probability) > 1e-9 THEN trigger_offset + 1 END), 0)
                AS changed
        FROM due JOIN done USING (id) WHERE NOT backfill GROUP BY 1, 2, 3
    );
"""

_STATES = """
SELECT monitor, evaluator, CASE
    WHEN state != '' THEN state
    WHEN trigger_offset >= :done_below THEN 'in flight'
    WHEN NOT requested AND (first IS NULL OR trigger_offset < first) THEN 'not compared'
    ELSE 'missing' END AS what, count(*)
FROM due LEFT JOIN comparable USING (partition, monitor, evaluator) WHERE partition = :partition GROUP BY 1, 2, 3
"""

_MISSING = """
SELECT id, trigger_offset FROM due LEFT JOIN comparable USING (partition, monitor, evaluator)
WHERE partition = :partition AND state = '' AND trigger_offset < :done_below
    AND (requested OR trigger_offset >= first)
    AND monitor = :monitor AND evaluator = :evaluator
ORDER BY trigger_offset LIMIT :examples
"""


_OUTCOMES = """
SELECT done.monitor, done.evaluator, outcome, coalesce(due.state, 'other'), count(*), sum(number - 1)
FROM done LEFT JOIN due USING (id) GROUP BY 1, 2, 3, 4
"""


@dataclass(frozen=True, slots=True)
class MissingEvaluation:
    """An evaluation that became due by a record of the turns log, and is not in the evaluations log."""

    evaluation_id: str
    partition: int
    offset: int


@dataclass(slots=True)
class Balance:
    """The outcomes of the evaluations of one monitor and evaluator.

    `replaced` were superseded by a later revision before they were made. `not_compared` became due before the first
    evaluation that was made as it is configured now.
    """

    monitor: str
    evaluator: str
    due: int = 0
    outcomes: dict[str, int] = field(default_factory=dict[str, int])
    replaced: int = 0
    retried: int = 0
    """Failed ones in whose place another one is due: the two count as one, with its outcome."""
    in_flight: int = 0
    not_compared: int = 0
    missing: int = 0
    examples: list[MissingEvaluation] = field(default_factory=list[MissingEvaluation])
    others: int = 0
    """Evaluations in the log that are not among the due ones: made as it was configured before, or by a replay."""
    repeated: int = 0
    """How many evaluations are in the log more than once."""


class EvaluationAudit:
    """Collects what is due and what is done; `balances` compares them, once."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("")  # a temporary file, deleted when it is closed
        self._database.executescript(_TABLES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def add_due(self, partition: int, jobs: Iterable[Job]) -> None:
        """Evaluations that a partition of the turns log makes due."""
        for job in jobs:
            self._database.execute(
                _ADD_DUE,
                [job.evaluation_id, partition, job.trigger_offset, job.monitor.name, job.assignment.evaluator.name,
                 job.sampling.probability, job.happened_at is not None],
            )  # fmt: skip
            if job.retry is not None and job.supersedes:
                self._database.execute("INSERT OR IGNORE INTO retried VALUES (?)", [job.supersedes[0]])
            if job.supersedes:
                self._database.executemany(
                    "INSERT OR IGNORE INTO replaced VALUES (?)", [(superseded,) for superseded in job.supersedes]
                )

    def forget(self, partition: int) -> None:
        """Evaluations that a partition has made due so far are not compared."""
        self._database.execute("DELETE FROM due WHERE partition = ?", [partition])

    def add_done(self, evaluation: Evaluation) -> None:
        """An evaluation of the evaluations log."""
        self._database.execute(
            "INSERT INTO done VALUES (?, ?, ?, ?, ?, ?, 1) ON CONFLICT (id) DO UPDATE SET number = number + 1",
            [evaluation.evaluation_id, evaluation.monitor, evaluation.evaluator, evaluation.outcome,
             evaluation.sampling.probability, evaluation.happened_at is not None],
        )  # fmt: skip

    def is_done(self, evaluation_id: str) -> bool:
        """Whether an evaluation was added as done."""
        with closing(self._database.execute("SELECT 1 FROM done WHERE id = ?", [evaluation_id])) as rows:
            return rows.fetchone() is not None

    def balances(self, done_below: Mapping[int, int]) -> list[Balance]:
        """Compare. `done_below` has for each partition the offset below which everything that was due is done."""
        self._database.executescript(_COMPARE)
        balances: dict[tuple[str, str], Balance] = {}

        def balance(monitor: str, evaluator: str) -> Balance:
            return balances.setdefault((monitor, evaluator), Balance(monitor, evaluator))

        for partition, below in done_below.items():
            where = {"partition": partition, "done_below": below}
            for monitor, evaluator, state, number in self._rows(_STATES, where):
                each = balance(monitor, evaluator)
                if state == "retried":
                    each.retried += number
                    continue
                each.due += number
                each.replaced += number if state == "replaced" else 0
                each.in_flight += number if state == "in flight" else 0
                each.not_compared += number if state == "not compared" else 0
                if state == "missing":
                    each.missing += number
                    names = {"monitor": monitor, "evaluator": evaluator, "examples": EXAMPLES - len(each.examples)}
                    each.examples += [
                        MissingEvaluation(name, partition, offset)
                        for name, offset in self._rows(_MISSING, where | names)
                    ]
        for monitor, evaluator, outcome, state, number, repeated in self._rows(_OUTCOMES, {}):
            each = balance(monitor, evaluator)
            if state == "other":
                each.others += number
            elif state != "retried":
                each.outcomes[outcome] = each.outcomes.get(outcome, 0) + number
            each.repeated += repeated
        return [balances[key] for key in sorted(balances)]

    def _rows(self, query: str, parameters: Mapping[str, object]) -> Iterator[tuple[Any, ...]]:
        with closing(self._database.execute(query, parameters)) as rows:
            yield from rows.fetchall()
