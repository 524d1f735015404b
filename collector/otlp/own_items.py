"""Recognises this deployment's own exports by a signature that only it can make.

Any sender can write the name of a scope: it says nothing about who did. So the exporter signs its items with a key of
the deployment, and items that come back with a valid signature are left out: it is not to be judged.
"""

import hmac
from collections.abc import Iterator
from typing import Any

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

OWN_SCOPE = "evalstream"
"""The instrumentation scope of everything this service emits."""

SIGNATURE = "evalstream.signature"
EVALUATION_ID = "evalstream.evaluation.id"
_DIGEST_BYTES = 16


class OwnItems:
    """Signs spans and log records with the key of a deployment, and removes those from requests that it has signed."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def sign(self, item: Any) -> None:
        """Add the signature to a span or log record that has its ids and attributes."""
        item.attributes.append(KeyValue(key=SIGNATURE, value=AnyValue(string_value=self._signature(item))))

    def remove_from(self, scopes: Iterator[tuple[Any, Any]], *, everywhere: bool = False) -> int:
        """Remove what is ours from the (resource, scope) pairs of a request; returns how much it was.

        With `everywhere` in every scope: a judged span that was written again is in the one it came in.
        """
        removed = 0
        for _, scope in scopes:
            if everywhere or scope.scope.name == OWN_SCOPE:
                items = scope.spans if hasattr(scope, "spans") else scope.log_records
                for index in reversed(range(len(items))):
                    if self._is_own(items[index]):
                        del items[index]
                        removed += 1
        return removed

    def _is_own(self, item: Any) -> bool:
        signatures = [pair.value.string_value for pair in item.attributes if pair.key == SIGNATURE]
        return len(signatures) == 1 and hmac.compare_digest(signatures[0].encode(), self._signature(item).encode())

    def _signature(self, item: Any) -> str:
        """Of the kind of item, its ids, and the evaluation: parts that no program on the way has reason to change."""
        evaluation = "".join(pair.value.string_value for pair in item.attributes if pair.key == EVALUATION_ID)
        signed = b"\x1f".join((type(item).__name__.encode(), item.trace_id, item.span_id, evaluation.encode()))
        return hmac.digest(self._key, signed, "sha256")[:_DIGEST_BYTES].hex()
