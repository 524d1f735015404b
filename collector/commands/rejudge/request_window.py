"""Requests, few at a time: the next ones when the evaluations of the ones before are in the log, and are paid for."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import KW_ONLY, InitVar, dataclass, field
from datetime import datetime
from time import monotonic

from collector.backoff import Backoff
from collector.commands.rejudge.candidates import Candidate, KnownEvaluations
from collector.commands.rejudge.current_step import CurrentStep
from collector.evaluate.retry.request import append_requests
from collector.logs.log import Log, LogUnavailable
from collector.past.evaluations import readable_evaluation
from collector.records.epochs import valid_evaluations
from collector.wording import usd
from evaluators.results import Evaluation

WINDOW = 32
"""Requests whose evaluations are not made yet: more would delay the live traffic behind them."""
_POLL, _TALK, _HINT = 0.2, 10.0, 15.0
_FEW = 5
_LOOKING = "looking for the next evaluations to make in the turns log"


@dataclass(slots=True)
class Progress:
    """The outcome of the candidates. `covered_until` is when the last requested subject ended."""

    made: int = 0
    outcomes: Counter[str] = field(default_factory=Counter[str])
    too_large: int = 0
    spent_usd: float = 0.0
    out_of_money: bool = False
    stalled: bool = False
    covered_until: datetime | None = None


@dataclass(eq=False, repr=False)
class RequestWindow:
    """Requests candidates and follows them until they are evaluated.

    `known` says what is spent of the `limit` (US dollars; None: none) and how far the evaluations log was read. An
    evaluation probably costs the `expected` of its evaluator. `outstanding` were requested before, each with its
    evaluator. Without an evaluation for `patience` seconds it gives up: the log keeps the requests.
    """

    turns: Log
    evaluations: Log
    known: KnownEvaluations
    _: KW_ONLY
    limit: float | None
    expected: Mapping[str, float]
    outstanding: InitVar[Mapping[str, str]]
    step: CurrentStep
    patience: float

    def __post_init__(self, outstanding: Mapping[str, str]) -> None:
        self.progress = Progress(spent_usd=sum(self.known.spent.values()))
        self._paid: dict[str, tuple[float, int]] = {}
        self._ends = dict(self.known.ends)
        self._outstanding = dict(outstanding)
        self._settled_at = self._talked_at = monotonic()
        self._has_hinted = False

    async def request_all(self, candidates: AsyncIterator[Candidate]) -> None:
        """Request all that the limit covers, and wait until it is made."""
        batch: list[Candidate] = []
        self.step.begin(_LOOKING)
        async for candidate in candidates:
            while not self._is_affordable(candidate, batch) and (self._outstanding or batch):
                await self._request(batch)
                if not await self._follow():
                    return
            if not self._is_affordable(candidate, batch):
                self.progress.out_of_money = True
                break
            batch.append(candidate)
            if len(batch) + len(self._outstanding) >= WINDOW:
                await self._request(batch)
                while len(self._outstanding) >= WINDOW:
                    if not await self._follow():
                        return
            self.step.begin(_LOOKING)
        await self._request(batch)
        while self._outstanding and await self._follow():
            pass

    def _is_affordable(self, candidate: Candidate, batch: Collection[Candidate]) -> bool:
        evaluators = (*self._outstanding.values(), *(each.request.evaluator for each in (*batch, candidate)))
        return self.limit is None or self.progress.spent_usd + sum(map(self._cost, evaluators)) <= self.limit

    def _cost(self, evaluator: str) -> float:
        """The most that an evaluation may cost: the highest cost of this run; at first, the estimate too."""
        dearest, number = self._paid.get(evaluator, (0.0, 0))
        return dearest if number >= _FEW else max(dearest, self.expected.get(evaluator, 0.0))

    async def _request(self, batch: list[Candidate]) -> None:
        """Request a batch, but for what the service has judged meanwhile: no evaluation would follow."""
        if not batch:
            return
        await self._read_on()
        self.step.begin("writing requests to the turns log")
        pairs = [(one.request, one.partition) for one in batch if one.request.evaluation_id not in self.known.rates]
        too_large = await Backoff(cap=10.0).repeat(
            lambda: append_requests(self.turns, pairs), LogUnavailable, action="writing to the turns log"
        )
        self.progress.too_large += len(too_large)
        self._outstanding |= {one.evaluation_id: one.evaluator for one, _ in pairs if one not in too_large}
        self.progress.covered_until = max(candidate.happened_at for candidate in batch)
        batch.clear()
        self._settled_at = monotonic()

    async def _follow(self) -> bool:
        """Wait a moment for evaluations; False if there were none for too long."""
        self.step.begin("")  # the lines below say more
        await asyncio.sleep(_POLL)
        before = len(self._outstanding)
        await self._read_on()
        now = monotonic()
        if len(self._outstanding) < before:
            self._settled_at, self._has_hinted = now, False
            if now - self._talked_at >= _TALK:
                self._talked_at = now
                self.step.say(f"made {self.progress.made:,}, {usd(self.progress.spent_usd)} so far")
        silent = now - self._settled_at
        if silent >= _HINT and not self._has_hinted:
            self._has_hinted = True
            self.step.say(
                f"no evaluation was made for {_HINT:g} s: the service is busy (live traffic goes first), its judge "
                "does not answer, or a plug-in has changed and the service has to be restarted"
            )
        self.progress.stalled = silent >= self.patience
        return not self.progress.stalled

    async def _read_on(self) -> None:
        self.step.begin("reading the evaluations log")
        action, failures = "reading the evaluations log", list[LogUnavailable]()
        await Backoff(cap=10.0).repeat(self._read, LogUnavailable, action=action, on_failure=failures.append)
        if failures:  # the service made nothing either
            self._settled_at = monotonic()

    async def _read(self) -> None:
        for partition, start in list(self._ends.items()):
            end = await self.evaluations.end_offset(partition)
            if end == start:
                continue
            async for record in valid_evaluations(self.evaluations, partition, start):
                if (evaluation := readable_evaluation(record)) is not None:
                    self._settle(evaluation)
            self._ends[partition] = end

    def _settle(self, evaluation: Evaluation) -> None:
        self.progress.spent_usd += self.known.cost_of(evaluation)  # another run's, too
        self.known.rates[evaluation.evaluation_id] = evaluation.sampling.probability
        is_ours = self._outstanding.pop(evaluation.evaluation_id, None) is not None
        if not (is_ours and (evaluation.happened_at or evaluation.retry)):  # it is of another run, or was judged live
            return
        self.progress.made += 1
        self.progress.outcomes[evaluation.outcome + (f" by {evaluation.error.type}" if evaluation.error else "")] += 1
        if evaluation.cost_usd is not None:
            dearest, number = self._paid.get(evaluation.evaluator, (0.0, 0))
            self._paid[evaluation.evaluator] = (max(dearest, evaluation.cost_usd), number + 1)
