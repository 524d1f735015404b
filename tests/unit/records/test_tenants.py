"""Whose turn it is: two tenants' ids never meet, and nobody can claim to be one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collector.link.conversation_linker import history_of
from collector.records.tenants import (
    ATTRIBUTE,
    in_tenant,
    own_conversation,
    tenant_in_key,
    tenant_of,
    trace_key,
    with_conversation,
)
from evaluators.cases import Turn

TURN = Turn(turn_id="t", conversation_id="c", trace_id="ab" * 16, service="bot", input="Hi", actual_output="Hello")


def test_without_tenants_nothing_changes():
    assert in_tenant(TURN, "") is TURN
    assert with_conversation(TURN) is TURN
    assert trace_key("ab" * 16, "") == b"ab" * 16
    assert own_conversation(TURN) == TURN.trace_id
    assert tenant_in_key("ab" * 16) == ""


def test_one_conversation_id_of_two_tenants_is_two_conversations():
    one, two = in_tenant(TURN, "team-a"), in_tenant(TURN, "team-b")
    assert len({TURN.conversation_id, one.conversation_id, two.conversation_id}) == 3
    assert len({TURN.turn_id, one.turn_id, two.turn_id}) == 3
    assert one.conversation_id == "evalstream.tenant/team-a/c"
    assert (tenant_of(one), one.trace_id) == ("team-a", TURN.trace_id)
    assert tenant_in_key(trace_key("ab" * 16, "team-a").decode()) == "team-a"


def test_a_turn_without_conversation_is_one_of_its_tenant():
    one, two = (in_tenant(replace(TURN, conversation_id=None), name) for name in ("team-a", "team-b"))
    assert with_conversation(one).conversation_id != with_conversation(two).conversation_id
    assert history_of(one).opening != history_of(two).opening, "nor does linking join them"
    assert history_of(TURN) == history_of(replace(TURN, attributes={"other": 1}))


@pytest.mark.parametrize("tenant", ["", "team-b"])
def test_nobody_can_claim_to_be_a_tenant(tenant: str):
    real = in_tenant(TURN, "team-a")
    forged = in_tenant(replace(real, attributes={ATTRIBUTE: "team-a", "k": "v"}), tenant)
    assert tenant_of(forged) == tenant
    assert forged.attributes["k"] == "v"
    assert forged.conversation_id != real.conversation_id
    assert forged.turn_id != real.turn_id
