"""Scores that people give on other platforms come back as labels: once each, and again when they change their mind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from aiohttp import web
from evaluation_samples import SPAN, TRACE, of_conversation, scored
from platform_stub import Call, PlatformStub

from collector import plugins
from collector.backoff import Backoff
from collector.calibration.feedback_join import SETTLE, JoinSettings
from collector.calibration.feedback_stage import FeedbackStage
from collector.export.exporter import ExportContext, ExportUnavailable
from collector.logs.log import Record
from collector.logs.memory import MemoryLog
from collector.receive.feedback_ingest import FeedbackRules
from collector.records.json import evaluation_to_json, label_from_json
from collector.service.export import CorrectionReader, Ownership
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import DROPS
from evaluators.results import Label

NAME, AT = "answers_question", "2026-05-04T13:00:00.000Z"
SETTINGS: dict[str, dict[str, Any]] = {
    "langfuse": {"public_key": "pk", "secret_key": "sk"},
    "langsmith": {"api_key": "key"},
    "phoenix": {"project": "desk"},
}


def langfuse(call: Call, value: float) -> Any:
    query = parse_qs(urlsplit(call.path).query)
    assert query["source"] == ["ANNOTATION"]
    common = {"name": NAME, "authorUserId": "ada", "updatedAt": AT, "source": "ANNOTATION"}
    if "cursor" in query:
        subject = {"kind": "session", "id": "visit-7"}
        return {"data": [{**common, "id": "s3", "dataType": "CATEGORICAL", "value": "disagree", "subject": subject}]}
    of_span = {"kind": "observation", "id": SPAN, "traceId": TRACE}
    scores = [
        {**common, "id": "s1", "dataType": "NUMERIC", "value": value, "subject": of_span, "comment": "Wrong price."},
        {**common, "id": "s2", "dataType": "CORRECTION", "value": "10 EUR", "subject": of_span, "name": "output"},
    ]
    return {"data": scores, "meta": {"limit": 100, "cursor": "next"}}


def langsmith(call: Call, value: float) -> Any:
    query = parse_qs(urlsplit(call.path).query)
    if query["source"] != ["app"]:
        assert query["source"] == ["model", "api"]
        return []
    source = {"type": "app", "user_id": "u-1", "user_name": "ada"}
    common = {"key": NAME, "feedback_source": source, "modified_at": AT}
    run = f"00000000-0000-0000-{SPAN[:4]}-{SPAN[4:]}"
    if query["offset"] == ["0"]:
        other = {**common, "id": "f0", "run_id": "b2ad6b71-6920-4331-8000-000000000001", "score": 1}
        return [{**common, "id": "f1", "run_id": run, "score": value, "comment": "Wrong price."}, *[other] * 99]
    last = f"00000000-0000-0000-{'cd' * 2}-{'cd' * 6}"
    return [{**common, "id": "f2", "run_id": last, "score": None, "value": "disagree"}]


def phoenix(call: Call, value: float) -> Any:
    parts = urlsplit(call.path)
    query, kind = parse_qs(parts.query), parts.path.rpartition("/")[2].removesuffix("_annotations")
    assert parts.path.startswith("/v1/projects/desk/")
    common = {"name": NAME, "annotator_kind": "HUMAN", "user_id": "ada", "updated_at": AT, "metadata": {}}
    ours = {**common, "id": "a0", "span_id": SPAN, "metadata": {"evalstream.evaluation.id": "x"}}
    match kind:
        case "span" if SPAN in query["span_ids"] and "cursor" not in query:
            result = {"score": value, "explanation": "Wrong price."}
            judge = {**ours, "annotator_kind": "LLM", "metadata": {}}
            found: list[Any] = [{**common, "id": "a1", "span_id": SPAN, "result": result}, ours, judge]
            return {"data": found, "next_cursor": "next"}
        case "session" if query["session_ids"] == ["visit-7"]:
            return {"data": [{**common, "id": "a2", "session_id": "visit-7", "result": {"label": "disagree"}}]}
        case _:
            return {"data": [], "next_cursor": None}


RESPONSES = {"langfuse": langfuse, "langsmith": langsmith, "phoenix": phoenix}
every_platform = pytest.mark.parametrize("name", sorted(SETTINGS))


class Desk:
    """Logs with an evaluation of a turn and one of a conversation, and a platform on which people correct them."""

    def __init__(self) -> None:
        self.stub = PlatformStub()
        self.value = 0.25
        self.now = datetime.now(UTC).timestamp()
        self.telemetry = Telemetry()
        self.evaluations, self.labels, self.turns = (MemoryLog(name, 1) for name in ("evaluations", "labels", "turns"))
        self.owned = True

    async def reader(self, name: str, stack: Any, **changes: Any) -> CorrectionReader:
        plugin = plugins.load(plugins.EXPORTERS, name)
        settings = plugin.Settings(endpoint=self.stub.endpoint, corrections="5m", **SETTINGS[name])
        opened = plugin.open(settings, ExportContext(telemetry=self.telemetry), backoff=Backoff())
        exporter = await stack.enter_async_context(opened)
        assert exporter.corrections.every == 300.0
        return CorrectionReader(
            name,
            exporter.corrections,
            (self.evaluations, self.labels),
            FeedbackRules(experts=None),
            self.telemetry,
            redactor=None,
            ownership=Ownership(lambda: self.owned, self.evaluations_are_ours),
            clock=lambda: self.now,
            **changes,
        )

    async def evaluations_are_ours(self) -> None:
        await self.evaluations.confirm("export")

    async def records(self) -> list[Any]:
        return [record async for batch in self.labels.read(0, 0) for record in batch]

    async def joined(self) -> list[Label]:
        """Join what is there, and give the labels."""
        later = self.now
        stage = FeedbackStage(
            self.labels, self.evaluations, self.turns, JoinSettings(), self.telemetry, clock=lambda: later
        )
        async with stage.open_fold(0, None) as fold:
            await fold.deliver(await self.records())
            await stage.step()
            later += 100 * SETTLE
            await stage.step()
        return [label_from_json(each.value) for each in await self.records() if not each.headers]


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    made = Desk()
    judged = [scored(1), of_conversation(4)]
    await made.evaluations.append([Record(each.evaluation_id.encode(), evaluation_to_json(each)) for each in judged])
    async with made.stub.serve():
        yield made


@pytest.fixture
async def stack() -> AsyncIterator[Any]:
    from contextlib import AsyncExitStack

    async with AsyncExitStack() as stack:
        yield stack


@every_platform
async def test_a_correction_is_a_label_of_the_evaluation_by_the_evaluator_of_its_name(
    name: str, desk: Desk, stack: Any
) -> None:
    desk.stub.respond = lambda call: web.json_response(RESPONSES[name](call, desk.value))
    reader = await desk.reader(name, stack)
    assert await reader.step() == 2
    labels = {each.evaluation_id: each for each in await desk.joined()}
    turn = labels[f"{1:032x}"]
    assert (turn.score, turn.given_by, turn.note) == (0.25, "ada", "Wrong price.")
    assert turn.given_at == datetime.fromisoformat(AT)
    assert turn.evaluator == NAME
    if name != "langsmith":  # its API knows no sessions
        assert labels[f"{4:032x}"].opinion == "disagree"


@every_platform
async def test_what_is_stored_is_not_stored_again_but_for_a_change_of_mind(name: str, desk: Desk, stack: Any) -> None:
    desk.stub.respond = lambda call: web.json_response(RESPONSES[name](call, desk.value))
    reader = await desk.reader(name, stack)
    assert [await reader.step(), await reader.step()] == [2, 0]
    assert await (await desk.reader(name, stack)).step() == 0, "after a restart"
    desk.value = 0.5
    assert await reader.step() == 1
    assert len(await desk.records()) == 3
    assert {each.score for each in await desk.joined() if each.score is not None} == {0.25, 0.5}


async def test_langsmith_scores_that_people_corrected_are_labels_of_their_evaluations(desk: Desk, stack: Any) -> None:
    """As `update_feedback(id, correction={"score": 0.25})` and its page store it: in our own feedback, by page of 100."""

    def ours(number: int, **changes: Any) -> dict[str, Any]:
        source = {"type": "model", "metadata": {"evalstream.evaluation.id": f"{number:032x}"}}
        return {"id": f"o{number}", "key": NAME, "score": 0.75, "feedback_source": source, "modified_at": AT, **changes}

    def respond(call: Call) -> web.Response:
        query = parse_qs(urlsplit(call.path).query)
        if query["source"] == ["app"]:
            return web.json_response([])
        if query["offset"] == ["0"]:
            foreign = ours(1, feedback_source={"type": "model", "metadata": {}}, correction={"score": 1})
            untouched = [ours(9, correction=each) for each in (None, {}, {"score": "high"}, "no", [1])]
            return web.json_response([foreign, *untouched, *[ours(9)] * 94])
        corrected = ours(1, correction={"score": 0.25, "comment": "Wrong price."})
        return web.json_response([corrected, ours(4, correction={"value": "disagree"})])

    desk.stub.respond = respond
    assert await (await desk.reader("langsmith", stack)).step() == 2
    labels = {each.evaluation_id: each for each in await desk.joined()}
    turn, conversation = labels[f"{1:032x}"], labels[f"{4:032x}"]
    assert (turn.score, turn.note, turn.given_at) == (0.25, "Wrong price.", datetime.fromisoformat(AT))
    assert conversation.opinion == "disagree"


async def test_one_of_several_processes_reads(desk: Desk, stack: Any) -> None:
    desk.stub.respond = lambda call: web.json_response(langfuse(call, desk.value))
    reader = await desk.reader("langfuse", stack)
    desk.owned = False
    assert await reader.step() == 0
    assert not desk.stub.calls
    desk.owned = True
    assert await reader.step() == 2


async def test_what_cannot_be_read_is_counted_and_takes_nothing_with_it(desk: Desk, stack: Any) -> None:
    def respond(call: Call) -> web.Response:
        page = langfuse(call, desk.value)
        page["data"] += [{"id": "s9", "name": 7, "value": [1], "subject": {"kind": "trace", "id": TRACE}}, "no object"]
        page["data"] += [{"id": "s8", "name": NAME, "value": 1.0, "subject": {"kind": "experiment", "id": "e"}}]
        return web.json_response(page)

    desk.stub.respond = respond
    assert await (await desk.reader("langfuse", stack)).step() == 2
    assert desk.telemetry.counter(DROPS, "corrections.langfuse", "unreadable")._value.get() == 2, "one on each page"


async def test_answers_that_are_no_answers_give_nothing_and_refusals_are_told(desk: Desk, stack: Any) -> None:
    reader = await desk.reader("langfuse", stack)
    desk.stub.answers = [web.Response(text="<html>")]
    with pytest.raises(ExportUnavailable, match="a page for people"):
        await reader.step()
    for text in ("[]", '{"data": {}}', '{"data": [null, 1], "meta": 3}'):
        desk.stub.answers = [web.Response(text=text)]
        assert await reader.step() == 0
    desk.stub.answers = [web.Response(status=401)]
    with pytest.raises(ExportUnavailable, match="refuses the credentials"):
        await reader.step()


async def test_a_trace_of_several_turns_gives_no_label_as_nobody_knows_of_which(desk: Desk, stack: Any) -> None:
    from dataclasses import replace

    second = scored(2)
    second = replace(second, subject=replace(second.subject, turn_id="e" * 32, span_id="a" * 16))
    await desk.evaluations.append([Record(b"2", evaluation_to_json(second))])
    desk.stub.respond = lambda _call: web.json_response(
        {"data": [{"id": "s1", "name": NAME, "value": 1.0, "subject": {"kind": "trace", "id": TRACE}, "updatedAt": AT}]}
    )
    assert await (await desk.reader("langfuse", stack)).step() == 1
    assert await desk.joined() == []
