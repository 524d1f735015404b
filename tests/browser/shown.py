"""The page over logs in memory, and what a test puts into them."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from evaluation_samples import failed, scored, skipped

from collector.logs.consumer_runner import ConsumerTiming
from collector.logs.log import Record
from collector.logs.memory import MemoryLog
from collector.page.server import Login, Page, PageLogs
from collector.page.settings import PageSettings
from collector.page.sources import Sources
from collector.page.view import EvaluatorView
from collector.records.json import evaluation_to_json, label_from_json, turn_to_json
from collector.service.tasks import open_tasks
from collector.telemetry.registry import Telemetry
from evaluators.cases import Message, ToolCall, Turn
from evaluators.results import Evaluation, Label, Subject, Usage

WATCHED = (
    EvaluatorView(
        monitor="helpdesk", evaluator="answers_question", threshold=0.5, asks="Does the answer say what was asked?"
    ),
    EvaluatorView(monitor="helpdesk", evaluator="grounded", threshold=0.5),
)


class Shown:
    """A served page. Times are given as seconds before now."""

    def __init__(self, page: Page, turns: MemoryLog, evaluations: MemoryLog, given: MemoryLog, port: int) -> None:
        self.page = page
        self.turns = turns
        self.evaluations = evaluations
        self.given = given
        """The log of labels."""
        self.port = port
        self.number = 0

    def url(self, query: str = "") -> str:
        return f"http://127.0.0.1:{self.port}/{query}"

    async def put_turn(self, conversation: str, asked: str, answer: str | None, **changes: Any) -> Turn:
        self.number += 1
        started = changes.pop("started_at", datetime.now(UTC) - timedelta(seconds=1))
        turn = Turn(
            turn_id=f"{self.number:032x}",
            conversation_id=conversation,
            trace_id=f"{self.number:032x}",
            span_id=f"{self.number:016x}",
            model="helpdesk-1",
            input=asked,
            actual_output=answer,
            started_at=started,
            ended_at=started + timedelta(seconds=0.8),
            **changes,
        )
        await self.turns.append([Record(conversation.encode(), turn_to_json(turn))])
        return turn

    async def put(self, *evaluations: Evaluation) -> None:
        await self.evaluations.append(
            [Record(each.evaluation_id.encode(), evaluation_to_json(each)) for each in evaluations]
        )

    def judged(self, turn: Turn, score: float | None, *, ago: float = 1.0, **changes: Any) -> Evaluation:
        """What an evaluator made of a turn; a score of None is a failure."""
        self.number += 1
        ended = datetime.fromtimestamp(time.time() - ago, UTC)
        fields: dict[str, Any] = {
            "subject": Subject(
                conversation_id=turn.conversation_id or turn.turn_id,
                turn_id=turn.turn_id,
                trace_id=turn.trace_id,
                span_id=turn.span_id,
            ),
            "usage": Usage(input_tokens=410, output_tokens=38, calls=1),
            "started_at": ended - timedelta(seconds=0.6),
            "ended_at": ended,
        }
        if score is None:
            return failed(self.number, **{**fields, **changes})
        masses = {"8": 0.7, "9": 0.2, "3": 0.1} if score > 0.5 else {"0": 0.5, "1": 0.3, "2": 0.2}
        return scored(
            self.number,
            **{"score": score, "raw_score": 10 * score, "label": None, "passed": score >= 0.5, "details": {"masses": masses}, **fields, **changes},
        )  # fmt: skip

    async def labels(self) -> list[Label]:
        return [
            label_from_json(record.value)
            for partition in range(self.given.partitions)
            async for batch in self.given.read(partition, 0)
            for record in batch
        ]

    async def until_listed(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.page.view) < count:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def showing(
    settings: PageSettings | None = None,
    *,
    watched: Sequence[EvaluatorView] = WATCHED,
    sources: Sources | None = None,
    door: Login | None = None,
) -> AsyncIterator[Shown]:
    settings = (settings or PageSettings()).model_copy(update={"port": 0})
    timing = ConsumerTiming(commit_interval=0.1)
    turns, evaluations = MemoryLog("turns", 2, timing=timing), MemoryLog("evaluations", 2, timing=timing)
    labels = MemoryLog("labels", 2, timing=timing)
    page = Page(settings, PageLogs(evaluations, labels, turns), watched, sources=sources, login=door)
    page.view.started -= 60  # what a test says was judged a moment ago counts
    async with open_tasks(Telemetry()) as tasks, page.serve() as port:
        tasks.start("page", partial(page.follow, tasks.start))
        yield Shown(page, turns, evaluations, labels, port)


ASKED = (
    ("How long does a full bicycle service take?", "Two working days, if you bring the bicycle before ten.", "Our shop was founded by two brothers."),
    ("Can I return a helmet that does not fit?", "Yes, within thirty days, if it was not worn outside.", "Please contact someone about that."),
    ("Do you rent cargo bikes for a weekend?", "Yes, for 60 euros, child seats included.", "Bicycles have been popular since the nineteenth century."),
    ("What does fitting a new chain cost?", "35 euros, the chain itself included.", "It depends."),
    ("Are you open on Sunday?", "No; Monday to Saturday, nine to six.", "Thank you for your message, it is important to us."),
)  # fmt: skip


async def a_busy_hour(shown: Shown) -> None:
    """An hour of traffic whose quality drops a quarter of an hour before its end."""
    chance = random.Random(5)
    batch: list[Evaluation] = []
    for number in range(360):
        ago = 3540 - number * 9.6
        good = chance.random() < (0.96 if ago > 900 else 0.1)
        asked, right, wrong = ASKED[number % len(ASKED)]
        turn = await shown.put_turn(
            f"visit-{number // 2:04d}",
            asked,
            right if good else wrong,
            started_at=datetime.fromtimestamp(time.time() - ago - 2, UTC),
            system_prompt="You are the helpdesk of Spoke & Sons, a bicycle shop. Answer from the shop's pages, shortly.",
            retrieval_context=(f"Pages of the shop: {right}",),
            tools_called=(ToolCall(id="1", name="find_page", arguments={"query": asked}, result={"found": 1}),),
            history=(
                Message(role="user", content="Hello!"),
                Message(role="assistant", content="Hello, how can I help?"),
            ),
        )
        spread = chance.gauss(0, 0.06)
        score = min(1.0, max(0.0, (0.88 if good else 0.14) + spread))
        why = (
            "The answer names what was asked for, and nothing else."
            if good
            else "The answer speaks of something else; what was asked for is not in it."
        )
        batch.append(shown.judged(turn, round(score, 3), ago=ago, explanation=why))
        if number % 60 == 59:
            batch.append(shown.judged(turn, None, ago=ago, evaluator="grounded"))
        elif number % 11 == 0:
            batch.append(
                replace(
                    skipped(90000 + number, "missing_field: retrieval_context"),
                    evaluator="grounded",
                    subject=batch[-1].subject,
                    started_at=batch[-1].started_at,
                    ended_at=batch[-1].ended_at,
                )
            )
        else:
            grounded = min(1.0, max(0.0, score + chance.gauss(0, 0.08)))
            batch.append(shown.judged(turn, round(grounded, 3), ago=ago, evaluator="grounded", explanation=why))
    await shown.put(*batch)
    await shown.until_listed(len(batch))
