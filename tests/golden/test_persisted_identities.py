"""What names things in the logs: ids, versions, hashes, draws and partitions, held to literal values.

Logs outlive the version that wrote them. Where one of these values changes, what a log holds is no longer known again,
and everything in it is judged and paid for once more. See `persisted/README.md` before changing an expected value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from made_up import Trace, chat, parts
from pydantic import BaseModel, Field

from collector.config.configured import Config
from collector.config.loading import check
from collector.dead_letters import letter_of
from collector.errors import BadInput
from collector.evaluate.conversations.packed_turn import user_message_hash
from collector.evaluate.guardrails import CanarySettings, EvaluationGuardrails
from collector.evaluate.plan import Assignment, Plan
from collector.evaluate.sampling.draw import draw, upstream_of
from collector.golden.runner import GoldenTarget, read_cases
from collector.judging.open_judges import open_judges
from collector.link.conversation_linker import ConversationLinker
from collector.link.turn_router import TurnRouter
from collector.logs.log import StoredRecord, partition_of
from collector.logs.memory import MemoryLog
from collector.otlp.evaluation_spans import span_id
from collector.receive.parsed_request import parse
from collector.receive.turn_ingest import message_location, parse_turns
from collector.records.ready_made import turns_in
from collector.records.turns import turn_record
from collector.service.plan_builder import build_plan
from collector.telemetry.registry import Telemetry
from evaluators.cases import Conversation, Message, ToolCall, Turn
from evaluators.catalogue import load_evaluators
from evaluators.evaluation import evaluate
from evaluators.identity import judged_version, turns_digest
from evaluators.judge import NoJudge, Prompt
from evaluators.judges.definition_cache import DefinitionCache
from evaluators.judges.jury import Jury
from evaluators.testing import ScriptedJudge, a_moment, answer_any_form

HERE = Path(__file__).parent / "persisted"
PINNED: Mapping[str, Any] = json.loads((HERE / "identities.json").read_text())
EVALUATORS: Mapping[str, Any] = json.loads((HERE / "evaluators.json").read_text())

TRACE = "5f" * 16
KEYS = ("", "c", "visit-7", "visit-8", "5f" * 16, "0af7651916cd43dd8448eb211c80319c", "Grüße 👋", "x" * 1000)

TURN = Turn(
    turn_id="turn-1",
    input="What is the capital of France?",
    actual_output='{"answer": "Paris is the capital of France."}',
    expected_output='{"answer": "Paris"}',
    context=("Paris is the capital.",),
    retrieval_context=("France has a capital.", "It is Paris."),
    tools_called=(ToolCall(id="1", name="search", arguments={"q": "capital"}, result="Paris"),),
    expected_tools=(ToolCall(name="search", arguments={"q": "capital"}, result="Paris"),),
    system_prompt="You know the world.",
    history=(Message(role="user", content="Hello"), Message(role="assistant", content="Hi")),
    started_at=datetime(2026, 1, 1, tzinfo=UTC),
    ended_at=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=4),
    attributes={"shadow.output": "Lyon, I would say."},
)
CONVERSATION = Conversation(
    conversation_id="conversation-1",
    turns=(TURN, replace(TURN, turn_id="turn-2")),
    chatbot_role="A guide.",
    scenario="Somebody asks for a capital.",
    expected_outcome="It is named.",
)


# Evaluators


class Store:
    """Answers to constant questions, in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    async def load(self, key: str) -> str | None:
        return self.kept.get(key)

    async def save(self, key: str, text: str) -> str:
        return self.kept.setdefault(key, text)


async def evaluator_facts(kind: str, configuration: Mapping[str, Any]) -> dict[str, Any]:
    """All that an evaluator writes into ids and records, asked of a judge that answers anything."""
    evaluator = load_evaluators()[kind](name="pinned", **configuration)
    store = Store()
    judge = DefinitionCache(ScriptedJudge(answer_any_form()), store=store)
    case: Any = TURN if evaluator.scope == "turn" else CONVERSATION
    result = await evaluate(evaluator, case, judge, now=a_moment)
    return {
        "version": evaluator.version,
        "version with judge-1": judged_version(evaluator, "judge-1" if evaluator.needs_judge else ""),
        "prompt hash": result.judge.prompt_hash if result.judge else None,
        "keys of definitions": sorted(store.kept),
    }


def test_every_kind_of_evaluator_is_pinned() -> None:
    """A new kind gets a line in `evaluators.json`; a kind that is there keeps its name."""
    ours = {kind for kind, cls in load_evaluators().items() if cls.__module__.startswith("evaluators.")}
    assert {name.partition(":")[0] for name in EVALUATORS} == ours


@pytest.mark.parametrize("name", EVALUATORS)
async def test_an_evaluator_keeps_its_version(name: str) -> None:
    pinned = EVALUATORS[name]
    facts = await evaluator_facts(name.partition(":")[0], pinned["configuration"])
    assert facts == pinned["facts"], f"the facts of a new evaluator: {json.dumps(facts)}"


class Form(BaseModel):
    """The form of a reply."""

    steps: list[str] = Field(min_length=1)


async def test_the_key_of_a_question_that_is_asked_once_and_for_all() -> None:
    store = Store()
    judge = DefinitionCache(ScriptedJudge({"steps": ["Look."]}), store=store)
    await judge.ask(Prompt("What are the steps?", temperature=0.5, max_tokens=100), Form)
    assert store.kept == {PINNED["key of a question"]: '{"steps":["Look."]}'}


# Evaluations


CONFIGURATION: dict[str, Any] = {
    "judges": {
        "main": {"model": "judge-1", "base_url": "http://127.0.0.1:1/v1", "fallback": "small"},
        "small": {"model": "judge-2", "base_url": "http://127.0.0.1:1/v1"},
    },
    "juries": {"jury": {"judges": ["main", "small"]}},
    "evaluators": {
        "helpful": {
            "kind": "g_eval",
            "judge": "main",
            "criteria": "It helps.",
            "evaluation_params": ["input", "actual_output"],
        },
        "agreed": {"kind": "toxicity", "judge": "jury"},
        "complete": {"kind": "completeness", "judge": "main"},
        "short": {"kind": "length", "maximum": 100},
    },
    "monitors": {
        "all": {
            "sample": 0.25,
            "evaluators": ["helpful", "agreed", "complete", "short", {"name": "short", "sample": 0.5, "salt": "other"}],
        }
    },
}


async def a_plan() -> Plan:
    config: Config = check(CONFIGURATION, "here")
    async with open_judges(config, Store(), Telemetry()) as judges:  # type: ignore[arg-type]
        return build_plan(config, judges)


async def evaluation_ids() -> dict[str, str]:
    [monitor] = (await a_plan()).monitors
    found: dict[str, str] = {}
    for each in monitor.assignments[:4]:
        name = each.evaluator.name
        found[f"{name}: version"] = each.version
        found[f"{name}: turn-1"] = each.evaluation_id("turn-1")
        found[f"{name}: turn-1, fallback"] = each.evaluation_id("turn-1", fallback=True)
        found[f"{name}: visit-7 of two turns"] = each.evaluation_id("visit-7", turns_digest(["turn-2", "turn-1"]))
    return found


async def test_evaluation_ids() -> None:
    assert await evaluation_ids() == PINNED["evaluation ids"]


def test_without_a_judge_the_version_is_the_evaluators() -> None:
    evaluator = load_evaluators()["length"](name="short", maximum=100)
    each = Assignment(evaluator, NoJudge(), judged_version(evaluator, ""))
    assert each.evaluation_id("turn-1") == PINNED["evaluation ids"]["short: turn-1"]


def test_the_digest_of_a_conversations_turns() -> None:
    assert turns_digest([]) == "cae66941d9efbd404e4d88758ea67670"
    assert [turns_digest(["turn-1", "turn-2"]), turns_digest(["turn-2", "turn-1"])] == [
        PINNED["digest of two turns"]
    ] * 2


def test_what_a_jury_is_called_is_a_part_of_the_id() -> None:
    judges = [ScriptedJudge({}, model="judge-1"), ScriptedJudge({}, model="judge-2")]
    assert Jury(judges, combine="median", quorum=1).model == "median(judge-1, judge-2)"


def test_span_ids_of_evaluations() -> None:
    assert span_id("0123456789abcdef0123456789abcdef").hex() == PINNED["span id of an evaluation"]


def test_hashes_of_what_users_say() -> None:
    assert {text: user_message_hash(text) for text in PINNED["hashes of words"]} == PINNED["hashes of words"]


# Turns


WORDLESS = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.usage.output_tokens": 3}


def traces() -> dict[str, list[str]]:
    """The ids of turns of traces, by what the trace is like."""
    twice = Trace().span(1, "agent").span(2, "chat", chat("Hi", "Hello"), parent=1).span(3, "x", {}, parent=1)
    twice.span(4, "chat", chat("Hi", "Hello"), parent=1, at=20).span(5, "chat", chat("Hi", "Hello"), parent=1, at=40)
    asked_again = chat("And in March?", "From 9 to 6.")
    asked_again["gen_ai.input.messages"] = parts(
        ("system", "You rent kayaks."),
        ("user", "When are you open?"),
        ("assistant", "From 8."),
        ("user", "And in March?"),
    )
    found = {
        "one exchange": Trace().span(1, "chat", chat("How much is a kayak?", "84 euros.")),
        "another trace": Trace("0af7651916cd43dd8448eb211c80319c").span(
            1, "chat", chat("How much is a kayak?", "84 euros.")
        ),
        "the same words, spaced": Trace().span(1, "chat", chat(" How  much is\na kayak?", "84   euros. ")),
        "with a history": Trace().span(1, "chat", asked_again),
        "three times the same": twice,
        "failed": Trace().span(7, "chat", chat("Hi", None), error="timeout"),
        "without its texts": Trace().span(8, "chat", WORDLESS),
        "no answer but silence": Trace().span(9, "chat", chat("Hi", "")),
        "letters of all kinds": Trace().span(1, "chat", chat("Grüße 👋", "你好")),
    }
    return {name: [turn.turn_id for turn in trace.turns()] for name, trace in found.items()}


def test_ids_of_turns_of_traces() -> None:
    assert traces() == PINNED["turns of traces"]


DOCUMENTS: Mapping[str, Any] = {
    "a turn": {"input": "Hi", "actual_output": "Hello"},
    "a turn with an id": {"turn_id": "mine", "input": "Hi", "actual_output": "Hello"},
    "a turn of a conversation": {"conversation_id": "c", "input": "Hi", "actual_output": "Hello"},
    "a turn with its time": {"conversation_id": "c", "input": "Hi", "actual_output": "Hello", "started_at": "2026-05-04T14:00:00+02:00"},
    "a turn of a trace": {"trace_id": TRACE, "span_id": "5f" * 8, "input": "Hi", "actual_output": "Hello"},
    "a failed turn": {"conversation_id": "c", "input": "Hi", "error": "timeout"},
    "a conversation": {
        "conversation_id": "c",
        "turns": [{"input": "Hi", "actual_output": "Hello"}, {"input": "Bye", "actual_output": "Bye"}],
    },
    "a conversation that repeats itself": {"conversation_id": "c", "turns": [{"input": "Hi", "actual_output": "Hello"}] * 3},
    "a chat": {
        "messages": [
            {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"},
            {"role": "user", "content": "Bye"}, {"role": "assistant", "content": "Bye"},
        ],
    },
    "a chat with an id": {
        "id": 7,
        "messages": [
            {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"},
            {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"},
        ],
    },
}  # fmt: skip


def readymade() -> dict[str, list[list[str | None]]]:
    place = message_location("chats", 3, 41)
    return {
        name: [[turn.turn_id, turn.conversation_id] for turn in turns_in(document, f"{place}.0")]
        for name, document in DOCUMENTS.items()
    }


def test_ids_of_readymade_turns() -> None:
    assert message_location("chats", 3, 41) == "chats/3/41"
    assert readymade() == PINNED["readymade turns"]


def test_the_place_of_each_document_of_a_message() -> None:
    body = json.dumps([DOCUMENTS["a turn"], DOCUMENTS["a turn"]]).encode()
    intake = parse_turns(body, "chats/3/41", at=a_moment)
    assert [json.loads(record.value)["turn_id"] for record in intake.records] == PINNED["two in a message"]


# Conversations that nobody named


def told() -> list[Turn]:
    history: tuple[Message, ...] = ()
    turns: list[Turn] = []
    for number, (asked, answer) in enumerate((("Hi", "Hello"), ("Lamps?", "Many."), ("Red ones?", "Two.")), 1):
        turns.append(
            Turn(
                turn_id=f"t{number}", trace_id=f"{number:032x}", service="shop", user_id="ann",
                history=history, input=asked, actual_output=answer,
            )
        )  # fmt: skip
        history = (*history, Message(role="user", content=asked), Message(role="assistant", content=answer))
    return turns


def test_turns_that_name_no_conversation_are_given_the_first_trace_of_theirs() -> None:
    links = ConversationLinker()
    given = [links.conversation_of(turn, number, float(number)) for number, turn in enumerate(told())]
    assert given == ["00000000000000000000000000000001"] * 3


def test_keys_of_turns_that_are_to_be_linked() -> None:
    """All turns of a conversation have the key of its first exchange, so that they meet in one partition."""
    router = TurnRouter(MemoryLog("turns", 1), MemoryLog("unlinked", 1), ["*"])
    sent = [outgoing for turn in told() for outgoing in router.route([turn])]
    assert [(each.record.key, each.unlinked) for each in sent] == [(PINNED["key of an opening"].encode(), True)] * 3


# Partitions and keys


def partitions() -> dict[str, list[int]]:
    return {key: [partition_of(key.encode(), count) for count in (1, 2, 3, 16, 1000)] for key in KEYS}


def test_the_partition_of_a_key() -> None:
    assert partitions() == PINNED["partitions of keys (of 1, 2, 3, 16, 1000)"]


async def test_a_log_puts_records_there() -> None:
    log = MemoryLog("turns", 16)
    turns = [Turn(turn_id="t", conversation_id=key) for key in KEYS if key]
    await log.append([turn_record(turn) for turn in turns])
    found = {
        record.key.decode(): record.partition
        for partition in range(16)
        async for batch in log.read(partition, 0)
        for record in batch
        if record.key is not None
    }
    assert found == {key: PINNED["partitions of keys (of 1, 2, 3, 16, 1000)"][key][3] for key in KEYS if key}


def test_keys_of_turns() -> None:
    whole = Turn(turn_id="t", conversation_id="c", trace_id=TRACE)
    assert turn_record(whole).key == b"c"
    assert turn_record(replace(whole, conversation_id=None)).key == TRACE.encode()
    assert turn_record(replace(whole, conversation_id=None, trace_id=None)).key == b"t"
    assert (turn_record(whole).headers, turn_record(whole).partition) == ((), None)


def test_keys_of_spans() -> None:
    trace = Trace().span(1, "chat", chat("Hi", "Hello")).record(1, "gen_ai.choice", {"x": 1})
    for signal, request in (("traces", trace.spans), ("logs", trace.logs)):
        body = request.SerializeToString()
        [record] = parse(body, signal, "protobuf").records
        assert (record.key, record.headers, record.partition) == (
            TRACE.encode(), (("signal", signal.encode()),), None,
        )  # fmt: skip
        assert record.value == body


# Draws


def draws() -> dict[str, float]:
    return {f"{salt}/{unit}": draw(salt, unit) for salt in ("evalstream", "other", "s" * 80) for unit in KEYS[1:5]}


def test_sampling_draws() -> None:
    assert draws() == PINNED["draws"]


async def drawn() -> dict[str, list[bool]]:
    """Which conversations are judged by each of a monitor's evaluators."""
    plan = await a_plan()
    [monitor] = plan.monitors
    return {
        f"{number} {each.evaluator.name}": [
            plan.draw(each, f"visit-{n}") < monitor.probability(each, 1.0, 1.0) for n in range(16)
        ]
        for number, each in enumerate(monitor.assignments)
    }


async def test_which_conversations_are_in_the_sample() -> None:
    assert check(CONFIGURATION, "here").settings.evaluate.sampling_salt == "evalstream"
    assert await drawn() == PINNED["which of visit-0 to visit-15 are judged"]


async def twins() -> list[bool]:
    """Of which turns a canary twin is judged."""
    found: list[bool] = []
    for number in range(12):
        judge = ScriptedJudge({"reason": "so", "score": 7})
        guard = EvaluationGuardrails(Telemetry(), canary=CanarySettings(share=0.5))
        steps = {"evaluation_steps": ["Does it help?"], "evaluation_params": ["input"], "mode": "single"}
        evaluator = load_evaluators()["g_eval"](name="helpful", **steps)
        await guard.run(evaluator, replace(TURN, turn_id=f"turn-{number}"), judge, now=a_moment)
        await guard.wait()
        found.append(len(judge.questions) == 2)
    return found


async def test_which_evaluations_have_a_canary_twin() -> None:
    assert await twins() == PINNED["which of turn-0 to turn-11 have a canary twin, at 0.5"]


@pytest.mark.parametrize(
    ("trace_state", "probability"),
    [
        ("ot=th:8", 0.5),
        ("vendor=x,ot=rv:1;th:c", 0.25),
        ("ot=th:fd70a3d70a3d71", 0.009999999999999995),
        ("ot=rv:1", None),
    ],
)
def test_what_samplers_before_us_let_through(trace_state: str, probability: float | None) -> None:
    assert upstream_of(trace_state) == probability


# The golden set and dead letters


def golden_ids(folder: Path) -> list[str]:
    lines: Sequence[Mapping[str, Any]] = [
        {"turn_id": "t1", "input": "Hi", "actual_output": "Hello", "scores": {"helpful": 0.5}},
        {"actual_output": "Hello", "input": "Hi", "turn_id": "t1"},
        {"conversation_id": "c", "turns": [{"turn_id": "t1", "input": "Hi", "actual_output": "Hello"}]},
    ]
    path = folder / "golden.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return [case.case_id for case in read_cases(path)]


def test_ids_of_golden_cases(tmp_path: Path) -> None:
    assert golden_ids(tmp_path) == PINNED["golden cases"]


async def test_what_a_run_of_the_golden_set_belongs_to() -> None:
    [monitor] = (await a_plan()).monitors
    each = monitor.assignments[0]
    assert GoldenTarget(each, "main").key == f"helpful/{PINNED['evaluation ids']['helpful: version']}/judge-1"


def test_ids_of_dead_letters() -> None:
    record = StoredRecord(partition=3, offset=41, timestamp=0.0, key=b"k", value=b"v")
    found = [
        letter_of(stage, source, record, BadInput("no"), keep=True).letter_id
        for stage, source in (
            ("receive", "otlp_spans"),
            ("assemble", "spans"),
            ("link", "unlinked"),
            ("evaluate", "turns"),
        )
    ]
    assert found == PINNED["dead letters"]
