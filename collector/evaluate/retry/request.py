"""Requests to make failed evaluations again: records of the turns log, each with the failed evaluation and its subject.

Why in the turns log: its records lead to jobs, and what is pending of them holds the low watermark, so that a restart
makes it again and the ledger recognizes it if it was made. A request needs no other machinery to be made once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import orjson

from collector.errors import BadInput
from collector.logs.log import Headers, Log, Record, RecordTooLarge, StoredRecord
from collector.records.json import (
    conversation_from_json,
    conversation_to_json,
    evaluation_from_json,
    evaluation_to_json,
    turn_from_json,
    turn_to_json,
)
from evaluators.cases import Conversation, Turn
from evaluators.identity import retry_id
from evaluators.results import Evaluation, Retry

RETRY_HEADERS: Headers = (("retry", b"1"),)
"""The headers of a request: not a turn. Behind them may be others, where it was dead-lettered and redriven."""
_AT_ONCE = 100


def is_retry_request(record: StoredRecord) -> bool:
    """Whether a record of the turns log is a request."""
    return record.headers[:1] == RETRY_HEADERS


@dataclass(frozen=True, slots=True)
class RetryRequest:
    """A failed evaluation that is to be made again, and its subject."""

    failed: Evaluation
    case: Turn | Conversation

    @property
    def evaluation_id(self) -> str:
        """The id of the new evaluation."""
        return retry_id(self.failed.evaluation_id)

    @property
    def supersedes(self) -> tuple[str, ...]:
        """What the new evaluation supersedes: the failed one, and what that superseded."""
        return (self.failed.evaluation_id, *self.failed.supersedes)

    @property
    def retry(self) -> Retry:
        """What the new evaluation says of the failed one."""
        before = self.failed.retry
        return Retry(attempt=2 if before is None else before.attempt + 1, reason=reason_of(self.failed))

    def to_record(self, partition: int) -> Record:
        """The record to append: to the partition whose owner wrote the failed evaluation."""
        plain = {"failed": orjson.Fragment(evaluation_to_json(self.failed))}
        if isinstance(self.case, Turn):
            plain["turn"] = orjson.Fragment(turn_to_json(self.case))
        else:
            plain["conversation"] = orjson.Fragment(conversation_to_json(self.case))
        key = self.failed.subject.conversation_id.encode("utf-8", "replace")
        return Record(key, orjson.dumps(plain), RETRY_HEADERS, partition)


def parse_retry_request(value: bytes) -> RetryRequest:
    """Read a request.

    Raises:
        BadInput: it is not one that this version can read.
    """
    try:
        plain = cast("dict[str, Any]", orjson.loads(value))
        failed = evaluation_from_json(orjson.dumps(plain["failed"]))
        if "turn" in plain:
            return RetryRequest(failed, turn_from_json(orjson.dumps(plain["turn"])))
        return RetryRequest(failed, conversation_from_json(orjson.dumps(plain["conversation"])))
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"not a request to make an evaluation again: {type(error).__name__}") from None


def reason_of(evaluation: Evaluation) -> str:
    """Why there is no score, in a word: the error's type, or the prefix of a skip's reason."""
    if evaluation.error is not None:
        return evaluation.error.type
    return (evaluation.reason or "").partition(":")[0]


async def append_requests(turns: Log, requests: Iterable[tuple[RetryRequest, int]]) -> Sequence[RetryRequest]:
    """Append requests, each with its partition; returns those that are larger than the log accepts.

    Raises:
        LogUnavailable: it cannot be written now. Appending some again does no harm.
    """
    too_large: list[RetryRequest] = []
    pairs = list(requests)
    for start in range(0, len(pairs), _AT_ONCE):
        batch = pairs[start : start + _AT_ONCE]
        try:
            await turns.append([request.to_record(partition) for request, partition in batch])
        except RecordTooLarge:
            for request, partition in batch:
                try:
                    await turns.append([request.to_record(partition)])
                except RecordTooLarge:
                    too_large.append(request)
    return too_large


async def requested_ids(turns: Log) -> frozenset[str]:
    """The ids of the evaluations that requests in the turns log lead to, made already or not."""
    names: set[str] = set()
    for partition in range(turns.partitions):
        async for batch in turns.read(partition, 0):
            for record in filter(is_retry_request, batch):
                try:
                    names.add(parse_retry_request(record.value).evaluation_id)
                except BadInput:
                    continue  # the evaluate stage dead-lettered it
    return frozenset(names)
