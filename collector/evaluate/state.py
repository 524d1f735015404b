"""What a partition's records lead to: a pure fold, from turns to evaluations that are due. No clock, no log, no judge.

Evaluators without judge are run here where a boost asks for their score: that is computing, and gives the same on every
replay.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

from collector.errors import BadInput
from collector.evaluate.carry import CARRY, carried_from
from collector.evaluate.conversations import Conversations
from collector.evaluate.decisions import DECISION, Decision
from collector.evaluate.kept import Arrival, heard, keep
from collector.evaluate.marks import Mark
from collector.evaluate.plan import Assignment, Job, Monitor, NoJudge, Plan, conversation_key
from collector.evaluate.population import Population
from collector.evaluate.rates import WHOLE, Rates, Share
from collector.evaluate.sampling import upstream_of
from collector.evaluate.session import Closed, Closing
from collector.evaluate.tally import NoTally, Tally
from collector.logs.log import Stored
from collector.records import turn_from_json
from collector.whole_conversation import said_of_whole
from evaluators.cases import Conversation, Turn
from evaluators.outcome import Sampling, Score
from evaluators.run import run

_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)


class State:
    """The state of one partition, whose reading begins at `start`.

    `decisions` are those that were taken before, by position. What is applied while `tally` is one that counts, is
    counted.
    """

    def __init__(self, plan: Plan, start: Mark, decisions: Iterable[Decision] = ()) -> None:
        self.tally: Tally = NoTally()
        self.on_bad_record: Callable[[Stored, BadInput], None] = lambda _record, _error: None
        self.demand: Callable[[Monitor, Assignment, float], None] = lambda _monitor, _assignment, _units: None
        self.time = start.time
        self.rates: Rates = start.rates
        self.next = start.position
        self.conversations = {
            monitor.name: Conversations(monitor.ends, fallback=partial(self._fallback, monitor.name))
            for monitor in plan.monitors
            if monitor.of_scope("conversation")
        }
        self._populations = {
            monitor.name: Population(monitor.ends.idle) for monitor in plan.monitors if monitor.of_scope("conversation")
        }
        self._plan = plan
        self._limited = {each.name for each in plan.monitors if each.limits.limited or plan.limits.limited}
        self._stamp = start.time
        self._size = 0
        self._carried: dict[int, bool] = {}
        self._decisions = deque(sorted(decisions, key=lambda each: each.at))
        self._by_key = not any(monitor.reads_content for monitor in plan.monitors)
        self._decided(start.position)  # by earlier owners: what is decided from now on goes before it

    @property
    def mark(self) -> Mark:
        """The mark of the next record."""
        return Mark(self.next, self.time, self.rates)

    def _fallback(self, monitor: str) -> bool:
        return self._share(monitor).fallback

    def _share(self, monitor: str) -> Share:
        """What is left of a monitor's rates; all of them where a budget that it once had is gone."""
        return self.rates.of(monitor) if monitor in self._limited else WHOLE

    def decide(self, decision: Decision) -> list[Job]:
        """Put a decision into force; gives what falls due by it."""
        if decision.rates is not None:
            self.rates = decision.rates
        self._carried.update(decision.carried or {})
        jobs: list[Job] = []
        for name, victims in (decision.evicted or {}).items():
            if name in self.conversations:
                monitor = next(each for each in self._plan.monitors if each.name == name)
                for victim in victims:
                    for closed in self.conversations[name].evict(victim):
                        jobs += self._conversation_jobs(monitor, closed, max(0, self.next - 1))
        return jobs

    async def apply(self, record: Stored) -> list[Job]:
        """Take the next record; gives the evaluations that fall due by it."""
        jobs = self._decided(record.position)
        mark = Mark(record.position, self.time, self.rates)
        self.next = record.position + 1
        self._stamp, self._size = record.timestamp, len(record.value)
        if record.headers == CARRY:
            self._take_back(record, mark)
        elif record.is_tick:
            jobs += self._advance(record.timestamp, record.position)
        elif record.headers != DECISION:
            jobs += await self._apply_turn(record, mark)
        return jobs + self._decided(self.next)

    def _decided(self, position: int) -> list[Job]:
        """Put into force what was decided before, up to a position."""
        jobs: list[Job] = []
        while self._decisions and self._decisions[0].at <= position:
            jobs += self.decide(self._decisions.popleft())
        return jobs

    async def _apply_turn(self, record: Stored, mark: Mark) -> list[Job]:
        if self._by_key and record.key is not None and self._unwanted(record.key.decode(errors="replace")):
            return []
        try:
            turn = turn_from_json(record.value)
        except BadInput as error:
            self.on_bad_record(record, error)
            return []
        at = min(_happened(turn, record.timestamp), record.timestamp)
        jobs = list(self._advance(at, record.position))
        matching = [monitor for monitor in self._plan.monitors if monitor.matches(turn)]
        if not matching:
            self.tally.turn("", "unmatched")
        for monitor in matching:
            jobs += await self._watch(monitor, turn, at, mark)
        return jobs

    def _unwanted(self, key: str) -> bool:
        """Whether no evaluator of any monitor wants the conversation, as its key alone tells; if so it is counted."""
        for monitor in self._plan.monitors:
            factor = self._share(monitor.name).factor
            for each in monitor.assignments:
                if self._plan.draw(each, key) < monitor.chance(each, factor, 1.0):
                    return False
        for monitor in self._plan.monitors:
            self.tally.turn(monitor.name, "sampled_out")
            self._see(monitor, key)
            for each in monitor.of_scope("turn"):
                self._due(monitor, each, "sampled_out")
                self.demand(monitor, each, monitor.chance(each, 1.0, 1.0))
        return True

    def _due(self, monitor: Monitor, assignment: Assignment, end: Any = None) -> None:
        self.tally.evaluation(monitor.name, assignment.evaluator.name, "matched")
        if end is not None:
            self.tally.evaluation(monitor.name, assignment.evaluator.name, end)

    def _advance(self, time: float, position: int) -> Iterator[Job]:
        self.time = max(self.time, time)
        for name, population in self._populations.items():
            if silent := population.silent(self.time):
                self.tally.silent(name, silent)
        for monitor in self._plan.monitors:
            if monitor.name in self.conversations:
                for closed in self.conversations[monitor.name].advance(self.time, position):
                    yield from self._conversation_jobs(monitor, closed, position)

    def _see(self, monitor: Monitor, key: str) -> None:
        if (population := self._populations.get(monitor.name)) is not None:
            population.see(key, self.time)

    async def _watch(self, monitor: Monitor, turn: Turn, at: float, mark: Mark) -> list[Job]:
        """What a turn means to a monitor that it matches."""
        key = conversation_key(turn)
        self._see(monitor, key)
        boost, stratum = await _stratum(monitor, turn)
        jobs: list[Job] = []
        for each in monitor.of_scope("turn"):
            job = self._turn_job(monitor, each, turn, key, boost, stratum, mark)
            self._due(monitor, each, None if job else "sampled_out")
            jobs += [job] if job else []
        taken, more = self._remember(monitor, turn, key, at, boost, stratum, mark)
        wanted = jobs or taken != "sampled_out"
        self.tally.turn(
            monitor.name, taken if taken in ("late", "duplicate") else "sampled" if wanted else "sampled_out"
        )
        return jobs + more

    def _turn_job(
        self, monitor: Monitor, each: Assignment, turn: Turn, key: str, boost: float, stratum: str, mark: Mark
    ) -> Job | None:
        share = self._share(monitor.name)
        chance = monitor.chance(each, share.factor, boost)
        self.demand(monitor, each, monitor.chance(each, 1.0, boost))
        if self._plan.draw(each, key) >= chance:
            return None
        fallback = share.fallback and each.fallback is not None
        return Job(
            evaluation_id=each.evaluation_id(turn.turn_id, fallback=fallback),
            monitor=monitor,
            assignment=each,
            case=lambda: turn,
            needs=mark,
            emitted=mark.position,
            since=self._stamp,
            size=self._size,
            sampling=_sampling(chance, stratum, upstream_of(turn.trace_state), has_id=turn.conversation_id is not None),
            fallback=fallback,
        )

    def _remember(
        self, monitor: Monitor, turn: Turn, key: str, at: float, boost: float, stratum: str, mark: Mark
    ) -> tuple[Any, list[Job]]:
        conversations = self.conversations.get(monitor.name)
        factor, most = self._share(monitor.name).factor, monitor.strata.strongest
        if conversations is None or not any(
            self._plan.draw(each, key) < monitor.chance(each, factor, most) for each in monitor.of_scope("conversation")
        ):
            return "sampled_out", []
        arrival = Arrival(
            turn.turn_id,
            keep(turn, at),
            heard(turn),
            ends=monitor.end_rule.met_by(turn),
            rate=factor,
            boost=boost,
            stratum=stratum,
            upstream=upstream_of(turn.trace_state),
        )
        taken, closed = conversations.add(key, arrival, mark, self.time)
        return taken, [job for each in closed for job in self._conversation_jobs(monitor, each, mark.position)]

    def _conversation_jobs(self, monitor: Monitor, closed: Closed, position: int) -> Iterator[Job]:
        self.tally.closed(monitor.name, closed.closed_by, closed.gaps)
        attributes: dict[str, Any] = {"closed_by": closed.closed_by, "turns": len(closed.turns)}
        if closed.gaps:
            attributes |= {"gaps": closed.gaps, "incomplete": True}
        case = _conversation(closed, attributes)
        size = sum(len(kept.packed) for _, kept in closed.turns)
        for each in monitor.of_scope("conversation"):
            wanted = self._wanted(monitor, each, closed.conversation_id, closed.closing)
            self._due(monitor, each, None if wanted else "sampled_out")
            if not wanted:
                continue
            earlier = [
                _id_of(each, closed.conversation_id, closing)
                for closing in closed.supersedes
                if self._wanted(monitor, each, closed.conversation_id, closing)
            ]
            chance = monitor.chance(each, closed.closing.rate, closed.closing.boost)
            self.demand(monitor, each, monitor.chance(each, 1.0, closed.closing.boost) / chance)
            yield Job(
                evaluation_id=_id_of(each, closed.conversation_id, closed.closing),
                monitor=monitor,
                assignment=each,
                case=case,
                needs=closed.needs,
                emitted=position,
                since=self._stamp,
                size=size,
                sampling=_sampling(chance, closed.stratum, closed.upstream, has_id=True),
                fallback=closed.closing.fallback and each.fallback is not None,
                supersedes=tuple(earlier),
                attributes=attributes,
            )

    def _wanted(self, monitor: Monitor, each: Assignment, key: str, closing: Closing) -> bool:
        return self._plan.draw(each, key) < monitor.chance(each, closing.rate, closing.boost)

    def verdicts(self, records: Iterable[Stored]) -> dict[int, bool]:
        """By position, which of the next records, all of which carry conversations, hold: those that are unchanged.

        What was decided before, to the same effect, is left out.
        """
        found: dict[int, bool] = {}
        for record in records:
            try:
                carried = carried_from(record.value)
            except BadInput:
                continue  # reported when it is applied
            mine = self.conversations.get(carried.monitor)
            found[record.position] = mine is not None and mine.unchanged(
                carried.conversation_id, carried.first, carried.since
            )
        return {position: holds for position, holds in found.items() if holds != self._carried.get(position, False)}

    def _take_back(self, record: Stored, mark: Mark) -> None:
        holds = self._carried.pop(record.position, False)
        try:
            carried = carried_from(record.value)
        except BadInput as error:
            self.on_bad_record(record, error)
            return
        conversations = self.conversations.get(carried.monitor)
        if conversations is None:
            return
        if holds:
            conversations.take_back(carried.conversation_id, carried.sessions, mark)
        else:
            conversations.passed(carried.conversation_id)


def _happened(turn: Turn, otherwise: float) -> float:
    """When a turn happened (s since the epoch), as far as it says."""
    moment = turn.ended_at or turn.started_at
    return moment.timestamp() if moment is not None else otherwise


async def _stratum(monitor: Monitor, turn: Turn) -> tuple[float, str]:
    if not monitor.strata.boosts:
        return 1.0, "all"
    scores: dict[str, float] = {}
    for evaluator in monitor.strata.cheap:
        result = await run(evaluator, turn, NoJudge(), now=lambda: _NO_TIME)
        if isinstance(result.outcome, Score):
            scores[evaluator.name] = result.outcome.value
    return monitor.strata.of(turn, scores)


def _sampling(chance: float, stratum: str, upstream: float | None, *, has_id: bool) -> Sampling:
    return Sampling(
        probability=chance * (1.0 if upstream is None else upstream),
        stratum=stratum,
        unit="conversation" if has_id else "trace",
        upstream="unknown" if upstream is None else upstream,
    )


def _id_of(assignment: Assignment, conversation_id: str, closing: Closing) -> str:
    fallback = closing.fallback and assignment.fallback is not None
    return assignment.evaluation_id(conversation_id, closing.digest, fallback=fallback)


def _conversation(closed: Closed, attributes: dict[str, Any]) -> Callable[[], Conversation]:
    """The conversation, unpacked when it is its turn."""

    def unpack() -> Conversation:
        turns = tuple(kept.turn(turn_id, closed.conversation_id) for turn_id, kept in closed.turns)
        return Conversation(
            **said_of_whole(turns),
            conversation_id=closed.conversation_id,
            turns=turns,
            closed_by=closed.closed_by,
            revision=closed.revision,
            attributes=attributes,
        )

    return unpack
