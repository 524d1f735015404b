"""References: what is known of a turn or a conversation apart from it, as JSON from outside and in the turns log.

They share with feedback the way in which senders name a subject and list documents.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import orjson

from collector.errors import BadInput
from collector.logs.log import Headers, Log, Record, StoredRecord
from collector.records.foreign_shapes import tool_call_fields
from collector.records.json import record_of
from collector.records.nesting import refuse_depth
from collector.records.ready_made import LONGEST_ID
from collector.records.tenants import id_in_tenant
from collector.wording import suggestion
from evaluators.cases import Json, ToolCall
from evaluators.records import to_dict, to_json
from evaluators.texts.exact_json import place_in_json

T = TypeVar("T")


LONGEST_NAME = 100
"""Characters of a name that a sender gives."""
_NOTHING = {"trace_id": "0" * 32, "span_id": "0" * 16}
"""Ids that no span has. Any other text may be the trace of a ready-made turn."""
_EVALUATION_ID = re.compile("[0-9a-f]{32}")


def sent_fields(document: object, what: str, example: str, known: Collection[str]) -> dict[str, Any]:
    """The fields of a document; those that are null count as left out.

    Raises:
        BadInput: it is no object, or has keys that nobody knows. The message says `what` it is not.
    """
    if not isinstance(document, Mapping):
        raise BadInput(f"not {what}: an object is needed, like {example}")
    fields = {name: value for name, value in cast("Mapping[str, Any]", document).items() if value is not None}
    for name in fields:
        if name not in known:
            key = str(name)[:LONGEST_NAME]
            raise BadInput(f"not {what}: unknown key {key!r}; {suggestion(key, sorted(known))}")
    return fields


def sent_ids(fields: Mapping[str, Any], names: Sequence[str], tenant: str | None) -> dict[str, str]:
    """The ids among the fields, as the logs have them. Raises BadInput."""
    return {name: _sent_id(name, fields[name], tenant) for name in names if name in fields}


def comparable_id(name: str, value: str) -> str:
    """An id as it is compared: W3C ids have no case, so a ready-made turn's `T-1` is the trace `t-1`."""
    return value.lower() if name in ("trace_id", "span_id") else value


def digest_of(tenant: str | None, content: Mapping[str, Any]) -> str:
    """The id of what was sent: the same content of the same sender is the same."""
    return hashlib.sha256(orjson.dumps([tenant, content], option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]


def _sent_id(name: str, value: object, tenant: str | None) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_ID:
        raise BadInput(f"{name}: a text of 1 to {LONGEST_ID} characters is needed")
    if name == "evaluation_id" and not _EVALUATION_ID.fullmatch(value):
        raise BadInput(f"{name}: the id of a score of evalstream is needed, 32 hex digits in lower case")
    value = comparable_id(name, value)
    if value == _NOTHING.get(name):
        raise BadInput(f"{name}: all zeros, OpenTelemetry's id outside of a span, name nothing; send another id")
    return id_in_tenant(value, tenant) if tenant is not None and name in ("turn_id", "conversation_id") else value


def plain_value(value: bytes, what: str) -> Any:
    """The JSON of a record. Raises BadInput, which says `what` it is not."""
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise BadInput(f"not {what}: not JSON{place_in_json(error)}") from None


def all_of(documents: Sequence[object], noun: str, read: Callable[[object], T]) -> list[T]:
    """The documents as `read` makes them: all of them, or none.

    Raises:
        BadInput: one is bad; says which.
    """
    entries: list[T] = []
    for number, document in enumerate(documents, 1):
        try:
            entries.append(read(document))
        except BadInput as error:
            if len(documents) == 1:
                raise
            raise BadInput(f"{noun} {number} of {len(documents)}: {error}") from None
    return entries


REFERENCE_HEADERS: Headers = (("reference", b"1"),)
COPY_HEADERS: Headers = (("reference", b"copy"),)
"""The headers of a reference in the turns log, and of its copies in the other partitions."""

IDS = ("turn_id", "span_id", "response_id", "trace_id", "conversation_id")
"""The fields by which a reference names its subject, the most exact first."""
MOST_OUTCOMES = 32
"""Outcomes of one reference."""

_TEXTS = ("expected_output", "expected_outcome", "scenario", "chatbot_role")
_CONTENT = (*_TEXTS, "context", "expected_tools", "outcomes")
_KEYS = frozenset({*IDS, *_CONTENT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The facts about every turn with all of these ids, or about a conversation if only its id is given.

    `outcomes` are what came of it, by name: numbers, texts, true or false. `tenant` is the sender's tenant; None for
    one who may say something of every tenant's turns. `reference_id` stands for all of it: the same, sent twice, is
    one.
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
    _check_outcomes(named_fields.setdefault("outcomes", {}))
    named_fields |= sent_ids(named_fields, IDS, tenant)
    refuse_depth(named_fields)
    return record_of({**named_fields, "reference_id": digest_of(tenant, named_fields), "tenant": tenant}, Reference)


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
    """The records for the turns log."""
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
