"""Two tenants from their tokens to their conversations, over a real socket: one's ids never meet the other's."""

from __future__ import annotations

import aiohttp
from log_doubles import stored
from made_up import Trace, chat

from collector.assemble.open_traces import TraceLimits
from collector.assemble.stage import AssembleStage
from collector.assemble.trace import Assembler
from collector.dialects.registry import Dialects
from collector.evaluate.plan import conversation_key, text_at
from collector.link.turn_router import TurnRouter
from collector.logs.log import TICK, StoredRecord
from collector.logs.memory import MemoryLog
from collector.receive.otlp_http import OtlpHttpReceiver, OtlpHttpSettings
from collector.records.json import turn_from_json
from collector.telemetry.registry import Telemetry

TOKENS = {name: f"a-token-of-{name}-0123456789" for name in ("unnamed", "team-a", "team-b")}


async def turns_of(body: bytes, senders: list[str]) -> dict[str, list]:
    """The turns, by tenant, that one and the same request leads to when each of these senders sends it."""
    spans, turns, telemetry = MemoryLog("spans", 1), MemoryLog("turns", 1), Telemetry()
    tenants = [{"name": name, "token": token} for name, token in TOKENS.items() if name != "unnamed"]
    settings = OtlpHttpSettings.model_validate({"port": 0, "auth": {"tokens": [TOKENS["unnamed"]], "tenants": tenants}})
    async with OtlpHttpReceiver(settings, spans, telemetry).serve() as port, aiohttp.ClientSession() as session:
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
