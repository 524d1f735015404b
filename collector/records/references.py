"""References: what is known of a turn or a conversation apart from it, as JSON from outside and in the turns log."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import orjson

from collector.errors import BadInput
from collector.logs.log import Headers, Log, Record, StoredRecord
from collector.records.foreign_shapes import tool_call_fields
from collector.records.json import record_of
from collector.records.nesting import refuse_depth
from collector.records.sent_documents import LONGEST_NAME, all_of, digest_of, plain_value, sent_fields, sent_ids
from evaluators.cases import Json, ToolCall
from evaluators.records import to_dict, to_json

REFERENCE_HEADERS: Headers = (("reference", b"1"),)
COPY_HEADERS: Headers = (("reference", b"copy"),)
"""Those of a reference in the turns log, and of its copies in the other partitions: not a turn."""

IDS = ("turn_id", "span_id", "response_id", "trace_id", "conversation_id")
"""By what a reference says whom it concerns, the most exact first."""
MOST_OUTCOMES = 32
"""Outcomes of one reference."""

_TEXTS = ("expected_output", "expected_outcome", "scenario", "chatbot_role")
_CONTENT = (*_TEXTS, "context", "expected_tools", "outcomes")
_KEYS = frozenset({*IDS, *_CONTENT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The facts about every turn that has all of these ids, or of a conversation if only its id is there.

    `outcomes` are what came of it, by name: numbers, texts, true or false. `tenant` is that of the sender; None for one
    who may say something of every tenant's turns. `reference_id` stands for all of it: the same, sent twice, is one.
    """

    reference_id: str
    tenant: str | None = None
    turn_id: str | None = None
    span_id: str | None = None
    response_id: str | None = None
    trace_id: str | None = None
    conversation_id: str | None = None
    expected_output: str | None = None
    expected_outcome: str | None = None
    scenario: str | None = None
    chatbot_role: str | None = None
    context: tuple[str, ...] | None = None
    expected_tools: tuple[ToolCall, ...] | None = None
    outcomes: Mapping[str, Json] = field(default_factory=dict[str, Json])

    @property
    def key(self) -> str:
        """The most exact of its ids, with its kind."""
        return next(f"{name}:{value}" for name in IDS if (value := getattr(self, name)) is not None)


def is_reference(record: StoredRecord) -> bool:
    """Whether a record of the turns log is a reference, or a copy of one."""
    return record.headers[:1] in (REFERENCE_HEADERS, COPY_HEADERS)


def reference_of(document: object, *, tenant: str | None) -> Reference:
    """Read a reference as a sender writes it.

    Raises:
        BadInput: it names nobody, says nothing, or has keys that nobody knows; names the path, not the content.
    """
    named_fields = sent_fields(document, "a reference", "{turn_id, expected_output}", _KEYS)
    if not any(name in named_fields for name in IDS):
        raise BadInput(f"a reference names a turn or a conversation: one of {', '.join(IDS)} is needed")
    if not any(name in named_fields for name in _CONTENT):
        raise BadInput(f"a reference says something: one of {', '.join(_CONTENT)} is needed")
    if isinstance(named_fields.get("context"), str):
        named_fields["context"] = [named_fields["context"]]
    if isinstance(named_fields.get("expected_tools"), list):
        calls = cast("list[object]", named_fields["expected_tools"])
        named_fields["expected_tools"] = [
            tool_call_fields(call, f"expected_tools.{number}") for number, call in enumerate(calls)
        ]
    outcomes = named_fields.setdefault("outcomes", {})
    _check_outcomes(outcomes)
    named_fields |= sent_ids(named_fields, IDS, tenant)
    refuse_depth(named_fields)
    digest = digest_of(tenant, named_fields)
    return record_of({**named_fields, "reference_id": digest, "tenant": tenant}, Reference)


def _check_outcomes(outcomes: object) -> None:
    if not isinstance(outcomes, Mapping):
        raise BadInput("outcomes: an object of names and values is needed, like {ticket_reopened: true}")
    named = cast("Mapping[object, object]", outcomes)
    if len(named) > MOST_OUTCOMES:
        raise BadInput(f"outcomes: at most {MOST_OUTCOMES} are taken")
    for name, value in named.items():
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
            raise BadInput(f"outcomes: a name has 1 to {LONGEST_NAME} characters")
        if not isinstance(value, bool | int | float | str):
            raise BadInput("outcomes: a value is a number, a text, true or false")


def reference_records(reference: Reference, log: Log) -> Iterator[Record]:
    """The record to append to the turns log."""
    value = _to_json(reference)
    if reference.conversation_id is not None:
        yield Record(reference.conversation_id.encode("utf-8", "replace"), value, REFERENCE_HEADERS)
        return
    home = int(reference.reference_id[:8], 16) % log.partitions
    for partition in range(log.partitions):
        headers = REFERENCE_HEADERS if partition == home else COPY_HEADERS
        yield Record(reference.key.encode("utf-8", "replace"), value, headers, partition)


def _to_json(reference: Reference) -> bytes:
    if reference.expected_tools == ():  # no tool is expected: that is something
        return orjson.dumps({**to_dict(reference), "expected_tools": []})
    return to_json(reference)


def parse_reference(value: bytes) -> Reference:
    """Read a reference of the turns log.

    Raises:
        BadInput: it is not one that this version can read.
    """
    reference = record_of(plain_value(value, "a reference"), Reference)
    if all(getattr(reference, name) is None for name in IDS):
        raise BadInput("not a reference: it names nobody")
    return reference


def references_in(documents: Sequence[object], *, tenant: str | None) -> list[Reference]:
    """The references of documents: all of them, or none.

    Raises:
        BadInput: one is none; says which.
    """
    return all_of(documents, "reference", partial(reference_of, tenant=tenant))
