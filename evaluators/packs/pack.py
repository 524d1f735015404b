"""A pack: evaluators that judge one case side by side, and whose questions go out together.

Each evaluator has a seat, which is a judge to it, and asks what it would ask alone. A round is complete when every
remaining evaluator waits for an answer: its questions go out as one request, and each evaluator gets its own answer.
Evaluators that take several steps continue in the next round.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, cast

from evaluators.attacks.read_material import ReadMaterials
from evaluators.errors import JudgeDenied, JudgeError, JudgeRejected, JudgeReplyInvalid
from evaluators.judge import Answer, Judge, Prompt, R, Verdict, decides, takes_packs
from evaluators.judges.wrapper import JudgeWrapper
from evaluators.packs.packed_prompt import PackedQuestion, PackReply, decided_entries, pack_questions
from evaluators.promises import FAULTS
from evaluators.results import Usage


@dataclass(frozen=True, slots=True, eq=False)
class _PendingQuestion:
    """A question that waits for its round to be complete."""

    seat: int
    question: PackedQuestion
    answer: asyncio.Future[Verdict[Any]]


class Pack:
    """The questions of `size` evaluators about one case, by one judge. `seats` are the judges that they ask.

    A request's tokens and price are split evenly over its questions. A question without the case, like one for
    evaluation steps, one with pictures and one for several samples go out by themselves. If a whole pack is refused,
    its questions are asked one by one, as they would be without a pack, so that only the question at fault is refused.
    A judge that takes no packs is always asked one by one. One event loop, one case.
    """

    def __init__(self, judge: Judge, size: int) -> None:
        self._judge = judge
        self.materials = ReadMaterials()
        self.seats = tuple(PackSeat(self, judge, number) for number in range(size))
        self._present = set(range(size))
        self._waiting: list[_PendingQuestion] = []
        self._rounds: set[asyncio.Task[None]] = set()

    async def ask(self, seat: int, question: PackedQuestion) -> Verdict[Any]:
        """Ask in the next round; at once if the seat was left."""
        pending = _PendingQuestion(seat, question, asyncio.get_running_loop().create_future())
        if seat not in self._present:
            self._send([pending])
        else:
            self._waiting.append(pending)
            self._send_if_complete()
        return await pending.answer

    def leave(self, seat: int) -> None:
        """No further question comes from a seat: the others no longer wait for it."""
        self._present.discard(seat)
        self._waiting = [question for question in self._waiting if not question.answer.done()]
        self._send_if_complete()
        if not self._present:
            for task in self._rounds:
                task.cancel()  # the task that waited for it was cancelled

    def _send_if_complete(self) -> None:
        if not self._waiting or self._present - {question.seat for question in self._waiting}:
            return
        complete, self._waiting = (
            sorted(self._waiting, key=lambda pending: (self._request_of(pending), pending.seat)),
            [],
        )
        for _, group in groupby(complete, key=self._request_of):
            self._send(list(group))

    def _request_of(self, pending: _PendingQuestion) -> tuple[float, bool]:
        """The properties that a request's questions share: the temperature, and whether they are decided or written."""
        prompt = pending.question.prompt
        temperature = -1.0 if prompt.temperature is None else prompt.temperature
        return (0.0, bool(prompt.groups)) if decides(self._judge) and prompt.groups else (temperature, False)

    def _send(self, group: Sequence[_PendingQuestion]) -> None:
        task = asyncio.create_task(self._answer(group), name="a round of a pack")
        self._rounds.add(task)
        task.add_done_callback(self._rounds.discard)

    async def _answer(self, group: Sequence[_PendingQuestion]) -> None:
        try:
            await self._ask_together(group)
        except asyncio.CancelledError:
            for question in group:
                question.answer.cancel()
            raise
        except FAULTS as error:  # a user's judge that breaks the interface's rules
            _fail(group, error)

    async def _ask_together(self, group: Sequence[_PendingQuestion]) -> None:
        """One request for the group; then requests for the questions that a cut-off answer did not finish, fewer each
        time.
        """
        if len(group) == 1 and decides(self._judge):
            await self._ask_one(group[0])  # a decision is the same, alone or in a pack of one
            return
        pack = pack_questions([question.question for question in group])
        try:
            verdict = await self._judge.ask(pack, PackReply, logprobs=pack.logprobs)
        except JudgeError as error:
            if len(group) > 1 and _concerns_a_question(error):
                await self._ask_each(group, error)
            else:
                _fail(group, error)
            return
        reply = verdict.reply
        if decisions := verdict.answers[0].decisions:
            reply = PackReply(entries=tuple(decided_entries(pack.questions, decisions)))
        for number, question in enumerate(group):
            usage, cost = _share(verdict.usage, number, len(group)), _part(verdict.cost_usd, len(group))
            entry = reply.entries[number]
            if isinstance(entry, Answer):
                answers = [cast("Answer[Any]", entry)]
                _settle(question, Verdict(answers, verdict.model, verdict.fingerprint, usage, cost))
            elif number not in reply.unreached:
                _settle(question, entry.with_bill(usage, cost))
            else:
                self.seats[question.seat].add_bill(usage, cost)
        rest = [
            question
            for number, question in enumerate(group)
            if number in reply.unreached and not question.answer.done()
        ]
        if len(rest) == len(group):  # no question came through: each half has twice the room
            middle = (len(rest) + 1) // 2
            await asyncio.gather(*(self._ask_part(part) for part in (rest[:middle], rest[middle:])))
        elif rest:
            await self._ask_part(rest)

    async def _ask_part(self, group: Sequence[_PendingQuestion]) -> None:
        """Ask a part of a pack that was cut off; one question by itself may be asked for its verdict alone."""
        if len(group) == 1:
            self.seats[group[0].seat].split_up = True
            await self._ask_one(group[0])
        elif group:
            await self._ask_together(group)

    async def _ask_each(self, group: Sequence[_PendingQuestion], error: JudgeError) -> None:
        """Each question by itself; the cost of the refused pack is split over them."""
        for number, question in enumerate(group):
            seat = self.seats[question.seat]
            seat.split_up = True
            seat.add_bill(_share(error.usage, number, len(group)), _part(error.cost_usd, len(group)))
        await asyncio.gather(*(self._ask_one(question) for question in group))

    async def _ask_one(self, pending: _PendingQuestion) -> None:
        question = pending.question
        try:
            _settle(pending, await self._judge.ask(question.prompt, question.reply, logprobs=question.logprobs))
        except JudgeError as error:
            _settle(pending, error)


class PackSeat(JudgeWrapper):
    """The judge of one evaluator in a pack. `leave` it when the evaluator has ended, however it ended.

    `split_up` says that a question of the evaluator was asked without the others, as they were refused together.
    """

    def __init__(self, pack: Pack, judge: Judge, number: int) -> None:
        super().__init__(judge)
        self._pack = pack
        self._number = number
        self._bills: list[tuple[Usage, float | None]] = []
        self.split_up = False
        self.materials = pack.materials
        """The material of the whole pack, which the questions at other seats share."""

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Ask together with the others of the pack."""
        if prompt.constant or prompt.media or samples != 1 or not takes_packs(self.inner):
            return await self.inner.ask(prompt, reply, logprobs=logprobs, samples=samples)
        try:
            verdict = await self._pack.ask(self._number, PackedQuestion(prompt, reply, logprobs))
        except JudgeError as error:
            error.usage, error.cost_usd = self._with_owed(error.usage, error.cost_usd)
            raise
        usage, cost_usd = self._with_owed(verdict.usage, verdict.cost_usd)
        return Verdict(verdict.answers, verdict.model, verdict.fingerprint, usage, cost_usd)

    def leave(self) -> None:
        """The evaluator asks no more. If it is asked nevertheless, as by a second evaluation, it forms a separate
        pack.
        """
        self._pack.leave(self._number)

    def add_bill(self, usage: Usage, cost_usd: float | None) -> None:
        """Put a part of a request on the bill that brought no answer."""
        self._bills.append((usage, cost_usd))

    def _with_owed(self, usage: Usage, cost_usd: float | None) -> tuple[Usage, float | None]:
        for owed, cost in self._bills:
            usage += owed
            cost_usd = cost if cost_usd is None else cost_usd + (cost or 0.0)
        self._bills.clear()
        return usage, cost_usd


def _concerns_a_question(error: JudgeError) -> bool:
    """Whether a refusal may be that of one question, or of the pack's length: then the other questions get answers."""
    refused = isinstance(error, JudgeReplyInvalid) and error.type == "judge_refused"
    return refused or (isinstance(error, JudgeRejected) and not isinstance(error, JudgeDenied))


def _settle(pending: _PendingQuestion, result: Verdict[Any] | JudgeError) -> None:
    if pending.answer.done():
        return  # its evaluation was cancelled
    if isinstance(result, JudgeError):
        pending.answer.set_exception(result)
    else:
        pending.answer.set_result(result)


def _fail(group: Iterable[_PendingQuestion], error: BaseException) -> None:
    """Each question fails by itself, with its part of what was paid."""
    waiting = [question for question in group if not question.answer.done()]
    for number, question in enumerate(waiting):
        if isinstance(error, JudgeError):
            usage, cost = _share(error.usage, number, len(waiting)), _part(error.cost_usd, len(waiting))
            _settle(question, error.with_bill(usage, cost))
        else:
            question.answer.set_exception(error)


def _share(usage: Usage, number: int, count: int) -> Usage:
    """A question's part of what a request used. The parts are whole numbers, and add up to the whole."""

    def part(total: int) -> int:
        return total // count + (number < total % count)

    return Usage(
        input_tokens=part(usage.input_tokens),
        output_tokens=part(usage.output_tokens),
        calls=part(usage.calls),
        cached_input_tokens=part(usage.cached_input_tokens or 0) or None,
        cache_write_tokens=part(usage.cache_write_tokens or 0) or None,
        estimated_calls=part(usage.estimated_calls or 0) or None,
    )


def _part(cost_usd: float | None, count: int) -> float | None:
    return None if cost_usd is None else cost_usd / count
