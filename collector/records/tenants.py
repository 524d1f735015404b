"""Tenants in the logs: whose spans a record holds, whose turn it is, and ids that no other sender's can equal.

A named sender's spans have its name in their key, so that a trace never holds spans of two. Its turns have the
attribute `evalstream.tenant`, and ids that begin with it; no other sender's do, whatever it sends.
"""

from dataclasses import replace

from collector.records.recorded_turn import TurnFields
from evaluators.cases import Turn

ATTRIBUTE = "evalstream.tenant"
_SCOPE = f"{ATTRIBUTE}/"
_FOREIGN = "unnamed:"
_SEPARATOR = "@"


def trace_key(trace_id: str, tenant: str) -> bytes:
    """The key of a record of the spans log; `tenant` is "" for a sender without a name."""
    return f"{trace_id}{_SEPARATOR}{tenant}".encode() if tenant else trace_id.encode()


def tenant_in_key(key: str) -> str:
    """The tenant of such a key."""
    return key.partition(_SEPARATOR)[2]


def tenant_of(turn: TurnFields) -> str:
    """The tenant of a turn; "" without one."""
    name = turn.attributes.get(ATTRIBUTE)
    return name if isinstance(name, str) else ""


def in_tenant(turn: Turn, tenant: str) -> Turn:
    """The turn as one of this tenant, or of none: the sender's own statement about it is removed."""
    conversation_id = turn.conversation_id or None
    is_foreign = turn.turn_id.startswith(_SCOPE) or (conversation_id or "").startswith(_SCOPE)
    if not (tenant or is_foreign or ATTRIBUTE in turn.attributes):
        return turn
    turn_id = id_in_tenant(turn.turn_id, tenant)
    conversation_id = conversation_id and id_in_tenant(conversation_id, tenant)
    attributes = {name: value for name, value in turn.attributes.items() if name != ATTRIBUTE}
    if tenant:
        attributes[ATTRIBUTE] = tenant
    return replace(turn, turn_id=turn_id, conversation_id=conversation_id, attributes=attributes)


def own_conversation(turn: Turn) -> str:
    """The id of a turn that is a conversation of its own."""
    own = turn.trace_id or turn.turn_id
    tenant = tenant_of(turn)
    return id_in_tenant(own, tenant) if tenant and not own.startswith(_SCOPE) else own


def with_conversation(turn: Turn) -> Turn:
    """The turn with a conversation id, if it has a tenant: a trace id alone may be another tenant's, too."""
    if turn.conversation_id or not tenant_of(turn):
        return turn
    return replace(turn, conversation_id=own_conversation(turn))


def id_in_tenant(id_: str, tenant: str) -> str:
    """The id of a turn or conversation within this tenant, or within none."""
    if tenant:
        return f"{_SCOPE}{tenant}/{id_}"
    return f"{_FOREIGN}{id_}" if id_.startswith(_SCOPE) else id_


def conversation_key_in_tenant(conversation: str, tenant: str) -> str:
    """The key of the turns of a tenant's conversation, as readers of the turns log see it, always valid text."""
    return id_in_tenant(conversation, tenant).encode("utf-8", "replace").decode(errors="replace")
