"""System or judge without a golden set: as an alert begins, what its evaluator scored before is scored again.

Scores of the day before the fall are compared with new ones of the same cases. They are drawn evenly over that day, as
the judge may have changed some time before the fall is seen. The new scores are no evaluations of the traffic: nothing
is written.
"""

import math
import time
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import nsmallest

from collector.backoff import FailureLog
from collector.golden.runner import CHECK_EVERY, GoldenCase, GoldenTarget, Requests, results_of, score_of
from collector.logs.log import Log, LogUnavailable
from collector.logs.whole_log import first_offsets
from collector.past.evaluations import REPLAY_OF, key_of, readable_evaluation
from collector.past.turns import case_of, turns_in_log
from collector.records.epochs import valid_evaluations
from collector.statistics.judge_change import GoldenRun, JudgeVerdict, Suspicion, judge_since
from evaluators.evaluation import Result
from evaluators.results import Evaluation

CASES = 80
"""Cases that are scored again: a shift of 0.1 is named though a score varies by 0.1 from one answer to the next."""
MOST_RUNS = 3
"""How often they are, in one fall."""
_FLAPS = 300.0
"""If an alert comes again within so many seconds of a run, that run still speaks for it, unless an incident has ended
since the run."""
_CALLS = 0.1
"""The share of the scores of the day before that is asked again at most, in one run."""
_DAY = 86_400.0
_SAME_FALL = 21_600.0
"""After this many seconds without an alert, the next one is about another fall. While a window still holds the fall,
scores that have recovered move the begin of what is looked for to now, so that tells nothing."""

Clock = Callable[[], float]
Ask = Callable[[GoldenTarget, GoldenCase], Awaitable[Result | None]]
"""Asks a target's judge about a case; None where there is no budget for that."""


@dataclass(slots=True)
class _Fall:
    suspicion: Suspicion
    alerted_at: float
    """When an alert was last on it (s)."""
    has_ended: bool = False
    """Whether the newest look found no alert."""
    cases: Sequence[GoldenCase] | None = None
    runs: list[GoldenRun] = field(default_factory=list[GoldenRun])

    def is_due(self, now: float) -> bool:
        return len(self.runs) <= MOST_RUNS and self.cases != () and self.suspicion.asks(self.runs, now)


class OwnPast:
    """The falls behind alerts, and the findings of the judges' earlier questions on them."""

    def __init__(
        self, targets: Sequence[GoldenTarget], evaluations: Log, turns: Log, ask: Ask, *, clock: Clock = time.time
    ) -> None:
        # a pack's answers depend on its other questions: alone, a score may differ though the judge is the same
        self._targets = {target.definition: target for target in targets if not target.assignment.pack}
        self._evaluations, self._turns = evaluations, turns
        self._ask = ask
        self._clock = clock
        self.falls: dict[tuple[str, str], _Fall] = {}
        self.incidents: dict[tuple[str, str], Collection[tuple[float, float]]] = {}
        """Begins and ends (s) of incidents that are over, by evaluator and version: the judge may then have been
        another, and nothing that was scored meanwhile is scored again."""
        self._reading = FailureLog("reading what was scored before a fall")
        self._requests = Requests()
        self.wait_for_answer = self._requests.wait_for_answer

    def continue_falls(self, earlier: object) -> None:
        """Keep the falls that an earlier configuration's `OwnPast` knows, with their runs: a change of the
        configuration neither asks again nor counts from zero.
        """
        if isinstance(earlier, OwnPast):
            since = self._clock() - _SAME_FALL
            self.falls = {of: fall for of, fall in earlier.falls.items() if fall.alerted_at >= since}

    def judge_since(
        self, evaluator: str, version: str, since: float, *, alerting: bool, detected_at: float = math.inf
    ) -> JudgeVerdict | None:
        """The verdict on a judge since scores fell (s), and were found to (s). As an alert begins, asks for what it is
        made of.
        """
        definition = evaluator, version
        if definition not in self._targets:
            return None
        fall, now = self.falls.get(definition), self._clock()
        if fall is None or now - fall.alerted_at > _SAME_FALL:
            if not alerting:
                return None
            fall = self.falls[definition] = _Fall(Suspicion(since, now), now)
        if alerting:
            has_ended = fall.has_ended or now - fall.alerted_at > _FLAPS
            newest = max((run.at for run in fall.runs), default=now)
            is_over = any(newest < end <= now for _, end in self.incidents.get(definition, ()))
            if is_over or (has_ended and now - newest > _FLAPS):  # the judge may be another one by now
                fall.suspicion = fall.suspicion._replace(alert_since=now)
            fall.alerted_at = now
            if fall.is_due(now):
                self._requests.ask()
        fall.has_ended, began = not alerting, fall.suspicion.alert_since or 0.0
        runs = [run for run in fall.runs if run.at >= began or run.at == 0.0]
        return judge_since(runs, fall.suspicion.since, "earlier cases", detected_at=detected_at)

    async def run_forever(self) -> None:
        """Ask whenever an alert asks for it."""
        await self._requests.serve(self.run_due, CHECK_EVERY)

    async def run_due(self) -> None:
        """Score again what is due."""
        for definition, fall in list(self.falls.items()):
            target = self._targets.get(definition)
            if target is None or not fall.is_due(self._clock()):
                continue
            with self._reading.attempt(LogUnavailable):
                if fall.cases is None:
                    fall.cases = await self._cases_before(target, fall.suspicion.since)
                    fall.runs.append(GoldenRun(0.0, {case.case_id: case.scores[definition[0]] for case in fall.cases}))
                results = await results_of(fall.cases, partial(self._ask, target))
                scores = {case: score for case, result in results.items() if (score := score_of(result)) is not None}
                fall.runs.append(GoldenRun(self._clock(), scores))

    async def _cases_before(self, target: GoldenTarget, since: float) -> tuple[GoldenCase, ...]:
        scored: dict[tuple[Hashable, ...], Evaluation] = {}
        number, over = 0, self.incidents.get(target.definition, ())
        for partition, start in enumerate(await first_offsets(self._evaluations, since - _DAY)):
            async for record in valid_evaluations(self._evaluations, partition, start):
                if record.timestamp >= since:
                    break
                evaluation = readable_evaluation(record)
                in_incident = any(begin <= record.timestamp < end for begin, end in over)
                if evaluation is not None and not in_incident and _is_usable(evaluation, target):
                    scored[key_of(evaluation)] = evaluation
                    number += evaluation.shares is None
                    if len(scored) > 100 * CASES:
                        scored = {key_of(entry): entry for entry in _draw(scored.values(), 50 * CASES)}
        sample = _draw(scored.values(), min(CASES, int(_CALLS * number)))
        conversations = {evaluation.subject.conversation_id for evaluation in sample}
        starts = await first_offsets(self._turns, since - 2.0 * _DAY)
        turns = await turns_in_log(self._turns, conversations, starts=starts)
        return tuple(
            GoldenCase(evaluation.evaluation_id, case, {evaluation.evaluator: evaluation.score})
            for evaluation in sample
            if evaluation.score is not None and (case := case_of(evaluation, turns)) is not None
        )


def _draw(evaluations: Iterable[Evaluation], number: int) -> Sequence[Evaluation]:
    """So many of them, by their ids, which are hashes."""
    return nsmallest(number, evaluations, key=lambda evaluation: evaluation.evaluation_id)


def _is_usable(evaluation: Evaluation, target: GoldenTarget) -> bool:
    return (
        evaluation.score is not None
        and (evaluation.evaluator, evaluation.evaluator_version) == target.definition
        and REPLAY_OF not in evaluation.attributes
    )
