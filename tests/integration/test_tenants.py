"""Two tenants from their tokens to their conversations, over a real socket: one's ids never meet the other's."""

from __future__ import annotations

from datetime import UTC, datetime

import aiohttp
import pytest
from log_doubles import stored
from made_up import Trace, chat

from collector.assemble.open_traces import TraceLimits
from collector.assemble.stage import AssembleStage
from collector.assemble.trace import Assembler
from collector.config.loading import check
from collector.dialects.registry import Dialects
from collector.errors import ConfigError
from collector.evaluate.guardrails import EvaluationGuardrails
from collector.link.turn_router import TurnRouter
from collector.logs.log import TICK, StoredRecord
from collector.logs.memory import MemoryLog
from collector.receive.otlp_http import OtlpHttpReceiver, OtlpHttpSettings
from collector.receive.otlp_ingest import IngestRules
from collector.records.attributes import text_at
from collector.records.json import turn_from_json
from collector.records.tenants import in_tenant
from collector.records.turns import conversation_key
from collector.redact.open_redactor import Redactors, RedactSettings, open_redactors
from collector.telemetry.registry import Telemetry
from evaluators.cases import Conversation, Turn
from evaluators.conversation.g_eval import ConversationalGEval
from evaluators.turn.g_eval import GEval

TOKENS = {name: f"a-token-of-{name}-0123456789" for name in ("unnamed", "team-a", "team-b")}


async def turns_of(body: bytes, senders: list[str], redactors: Redactors | None = None) -> dict[str, list]:
    """The turns, by tenant, that one and the same request leads to when each of these senders sends it."""
    spans, turns, telemetry = MemoryLog("spans", 1), MemoryLog("turns", 1), Telemetry()
    tenants = [{"name": name, "token": token} for name, token in TOKENS.items() if name != "unnamed"]
    settings = OtlpHttpSettings.model_validate({"port": 0, "auth": {"tokens": [TOKENS["unnamed"]], "tenants": tenants}})
    receiver = OtlpHttpReceiver(settings, spans, telemetry, rules=IngestRules(redactors=redactors or Redactors()))
    async with receiver.serve() as port, aiohttp.ClientSession() as session:
        for sender in senders:
            headers = {"Content-Type": "application/x-protobuf", "Authorization": f"Bearer {TOKENS[sender]}"}
            async with session.post(f"http://127.0.0.1:{port}/v1/traces", data=body, headers=headers) as response:
                assert response.status == 200
    stage = AssembleStage(Assembler(Dialects.installed()), TurnRouter(turns), TraceLimits(quiet=5.0))
    records = await stored(spans)
    async with stage.open_fold(0, None) as fold:
        await fold.deliver([*records, StoredRecord(0, 99, records[-1].timestamp + 60, None, b"", TICK)])
    by_tenant: dict[str, list] = {}
    for record in await stored(turns):
        turn = turn_from_json(record.value)
        assert record.key == conversation_key(turn).encode()
        by_tenant.setdefault(text_at(turn, "tenant"), []).append(turn)
    return by_tenant


async def test_the_same_ids_of_two_tenants_are_two_conversations():
    for more in ({"gen_ai.conversation.id": "42"}, {}):
        body = Trace().span(1, "chat", chat("Are you open?", "Yes.") | more).spans.SerializeToString()
        turns = await turns_of(body, ["unnamed", "team-a", "team-b", "team-a"])
        assert {name: len(each) for name, each in turns.items()} == {"": 1, "team-a": 1, "team-b": 1}
        assert len({conversation_key(each[0]) for each in turns.values()}) == 3
        assert len({each[0].turn_id for each in turns.values()}) == 3
        assert len({each[0].trace_id for each in turns.values()}) == 1, "their trace is viewed where it is"
        assert turns[""][0].conversation_id == more.get("gen_ai.conversation.id")


async def test_no_sender_gets_into_a_tenants_conversation():
    claims = {"gen_ai.conversation.id": "evalstream.tenant/team-a/42", "evalstream.tenant": "team-a"}
    body = Trace().span(1, "chat", chat("Are you open?", "Yes.") | claims).spans.SerializeToString()
    turns = await turns_of(body, ["unnamed", "team-b"])
    assert set(turns) == {"", "team-b"}
    assert turns[""][0].conversation_id == "unnamed:evalstream.tenant/team-a/42"
    assert turns["team-b"][0].conversation_id == "evalstream.tenant/team-b/evalstream.tenant/team-a/42"


MAIL, CASE = "anna@example.com", "C-12345678"
REDACTION = {
    "key": "a key of sixteen or more",
    "patterns": {"EMPLOYEE": r"E\d{6}"},
    "tenants": {"team-a": {"patterns": {"CASE": r"C-\d{8}"}}, "team-b": {"enabled": False}},
}


async def test_a_tenants_texts_are_redacted_as_it_wants_and_all_others_as_everybodys():
    redactors = open_redactors(RedactSettings.model_validate(REDACTION))
    text = f"I am {MAIL}, number E123456, case {CASE}."
    body = Trace().span(1, "chat", chat(text, "Fine.")).spans.SerializeToString()
    turns = await turns_of(body, ["unnamed", "team-a", "team-b"], redactors)
    stored_texts = {name: each[0].input for name, each in turns.items()}
    assert stored_texts["team-b"] == text
    assert MAIL not in stored_texts[""]
    assert "E123456" not in stored_texts[""]
    assert CASE in stored_texts[""]
    assert MAIL not in stored_texts["team-a"]
    assert "E123456" in stored_texts["team-a"], "theirs are instead of everybody's"
    assert CASE not in stored_texts["team-a"]


class SeeingJudge:
    """Sees what it is asked about, and cannot answer."""

    model = "m"

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def ask(self, prompt, reply, *, logprobs=False, samples=1):
        del reply, logprobs, samples
        self.seen.append(str(prompt.material))
        raise ValueError


STEPS = {"evaluation_steps": ["Say whether it is right."]}
FOR_TURNS = GEval(name="right", evaluation_params=["input"], **STEPS)
FOR_CONVERSATIONS = ConversationalGEval(name="right", **STEPS)


@pytest.mark.parametrize(("tenant", "visible"), [("", False), ("team-a", False), ("team-b", True), ("team-c", False)])
async def test_a_judge_sees_a_tenants_texts_as_the_tenant_wants(tenant: str, visible: bool):
    guardrails = EvaluationGuardrails(Telemetry(), redactors=open_redactors(RedactSettings.model_validate(REDACTION)))
    turn = in_tenant(Turn(turn_id="t", conversation_id="c", input=MAIL, actual_output="Fine."), tenant)
    for evaluator, case in (
        (FOR_TURNS, turn),
        (FOR_CONVERSATIONS, Conversation(conversation_id="c", turns=(turn,))),
    ):
        judge = SeeingJudge()
        await guardrails.run(evaluator, case, judge, now=lambda: datetime.now(UTC))
        assert (MAIL in judge.seen[0]) == visible


def test_a_tenant_that_does_not_exist_is_a_mistake():
    values = {
        "receive": {"otlp_http": {"auth": {"tenants": [{"name": "team-a", "token": TOKENS["team-a"]}]}}},
        "redact": {"tenants": {"team-q": {"enabled": False}}},
        "evaluators": {"same": {"kind": "exact_match"}},
        "monitors": {"all": {"evaluators": ["same"]}},
    }
    with pytest.raises(ConfigError, match=r"redact\.tenants: .*team-q.*team-a"):
        check(values, "test")
    values["redact"] = {"tenants": {"team-a": {"enabled": False}}}
    assert check(values, "test").settings.redact.tenants["team-a"].enabled is False
