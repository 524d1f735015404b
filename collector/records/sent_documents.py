"""The reading of what senders say about turns: feedback and references have ids and lists of documents in common."""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar, cast

import orjson

from collector.errors import BadInput
from collector.records.ready_made import LONGEST_ID
from collector.records.tenants import id_in_tenant
from collector.wording import suggestion

T = TypeVar("T")


LONGEST_NAME = 100
"""Characters of a name that a sender gives."""


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


def digest_of(tenant: str | None, content: Mapping[str, Any]) -> str:
    """The id of what was sent: the same content of the same sender is the same."""
    return hashlib.sha256(orjson.dumps([tenant, content], option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]


def _sent_id(name: str, value: object, tenant: str | None) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_ID:
        raise BadInput(f"{name}: a text of 1 to {LONGEST_ID} characters is needed")
    if name in ("trace_id", "span_id"):
        return value.lower()
    return id_in_tenant(value, tenant) if tenant is not None and name in ("turn_id", "conversation_id") else value


def plain_value(value: bytes, what: str) -> Any:
    """The JSON of a record. Raises BadInput, which says `what` it is not."""
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        raise BadInput(f"not {what}: not JSON") from None


def all_of(documents: Sequence[object], noun: str, read: Callable[[object], T]) -> list[T]:
    """The documents as `read` makes them: all of them, or none.

    Raises:
        BadInput: one is none; says which.
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
