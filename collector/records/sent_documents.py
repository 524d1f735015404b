"""The reading of what senders say about turns: feedback and references have ids and lists of documents in common."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import orjson

from collector.errors import BadInput
from collector.records.ready_made import LONGEST_ID
from collector.records.tenants import id_in_tenant

T = TypeVar("T")


def sent_id(name: str, value: object, tenant: str | None) -> str:
    """The id that a sender gives, as the logs have it. Raises BadInput."""
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
