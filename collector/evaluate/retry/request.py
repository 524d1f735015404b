"""Requests for evaluations of past subjects: records of the turns log, each with its subject.

A retry replaces a failed evaluation. A backfill is an evaluation that was not made, or not by this definition.

Requests are in the turns log because its records become jobs: a pending job holds the low watermark, so a restart makes
it again, and the ledger recognizes it if it was made. So a request is made once without other machinery.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias, cast

import orjson

from collector.errors import BadInput
from collector.logs.log import Headers, Log, Record, RecordTooLarge, StoredRecord
from collector.logs.whole_log import read_partitions
from collector.records.json import case_in, case_json, evaluation_to_json, fields_of, not_none, readable, record_of
from evaluators.cases import Conversation, Json, Turn
from evaluators.identity import conversation_id_of, retry_id
from evaluators.records import to_json
from evaluators.results import Evaluation, Retry, Sampling

RETRY_HEADERS: Headers = (("retry", b"1"),)
"""The headers that tell a request from a turn. Others follow if the request was dead-lettered and redriven."""
_AT_ONCE = 100


def is_retry_request(record: StoredRecord) -> bool:
    """Whether a record of the turns log is a request."""
    return record.headers[:1] == RETRY_HEADERS


@dataclass(frozen=True, slots=True)
class RetryRequest:
    """A failed evaluation that is to be made again, and its subject.

    `happened_at` is when the subject ended, if the new evaluation belongs to that time (see `Evaluation`).
    """

    failed: Evaluation
    case: Turn | Conversation
    happened_at: datetime | None = None

    @property
    def evaluation_id(self) -> str:
        """The id of the new evaluation."""
        return retry_id(self.failed.evaluation_id)

    @property
    def evaluator(self) -> str:
        """The evaluator's name."""
        return self.failed.evaluator

    @property
    def sampling(self) -> Sampling:
        """How the subject was drawn."""
        return self.failed.sampling.of_subject

    @property
    def supersedes(self) -> tuple[str, ...]:
        """The ids that the new evaluation supersedes: the failed one's, and those that the failed one superseded."""
        return (self.failed.evaluation_id, *self.failed.supersedes)

    @property
    def retry(self) -> Retry:
        """The attributes by which the new evaluation refers to the failed one."""
        failed, before = self.failed, self.failed.retry or Retry(attempt=1, reason="")
        own = failed.ended_at if failed.is_lost else None
        failed_at = own if failed.happened_at is None else before.failed_at
        return Retry(attempt=before.attempt + 1, reason=failed.reason_code, failed_at=failed_at)

    def to_record(self, partition: int | None) -> Record:
        """The record to append: to the partition whose owner wrote the failed evaluation."""
        failed = orjson.Fragment(evaluation_to_json(self.failed))
        plain = not_none(failed=failed, happened_at=self.happened_at)
        return _record(self.failed.subject.conversation_id, plain, self.case, partition)


@dataclass(frozen=True, slots=True)
class BackfillRequest:
    """A request to evaluate a subject that ended at `happened_at`, as part of the past.

    `evaluation_id` follows from the definition by which it was requested; `sampling` says how the subject was drawn.
    """

    evaluation_id: str
    monitor: str
    evaluator: str
    case: Turn | Conversation
    sampling: Sampling
    happened_at: datetime
    supersedes: tuple[str, ...] = ()
    attributes: Mapping[str, Json] = field(default_factory=dict[str, Json])

    def to_record(self, partition: int | None) -> Record:
        """The record to append, to the subject's partition of the turns log."""
        plain: dict[str, Any] = {
            "backfill": self.evaluation_id,
            **fields_of(self, "monitor", "evaluator"),
            "sampling": orjson.Fragment(to_json(self.sampling)),
            **fields_of(self, "happened_at", "supersedes"),
            "attributes": dict(self.attributes),
        }
        return _record(conversation_id_of(self.case), plain, self.case, partition)


PastRequest: TypeAlias = RetryRequest | BackfillRequest
"""A request for an evaluation of a past subject."""


def _record(conversation_id: str, plain: dict[str, Any], case: Turn | Conversation, partition: int | None) -> Record:
    value = orjson.dumps(plain | case_json(case))
    return Record(conversation_id.encode("utf-8", "replace"), value, RETRY_HEADERS, partition)


def parse_request(value: bytes) -> PastRequest:
    """Read a request.

    Raises:
        BadInput: it is not one that this version can read.
    """
    try:
        plain = cast("dict[str, Any]", orjson.loads(value))
        fields = plain | {"case": case_in(plain)}
        if "backfill" not in plain:
            return record_of(fields, RetryRequest)
        return record_of(fields | {"evaluation_id": plain["backfill"]}, BackfillRequest)
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"not a request to make an evaluation again: {type(error).__name__}") from None


async def append_requests(turns: Log, requests: Iterable[tuple[PastRequest, int | None]]) -> Sequence[PastRequest]:
    """Append requests, each with its partition; returns those that are larger than the log accepts.

    Raises:
        LogUnavailable: it cannot be written now. Appending some again does no harm.
    """
    too_large: list[PastRequest] = []
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


async def requested_evaluations(turns: Log, done_below: Mapping[int, int]) -> Mapping[str, tuple[str, float]]:
    """The evaluations that requests at or above these offsets ask for: evaluators and sampling rates by evaluation id.

    Read the evaluations log after the offsets, below which all is done: it then has the evaluation of each finished
    request. If it has none, a service with another version took that request, and it may be made again.
    """
    requested: dict[str, tuple[str, float]] = {}
    async for batch in read_partitions(turns):
        for record in filter(is_retry_request, batch):
            request = readable(parse_request, record.value)  # None: the evaluate stage dead-lettered it
            if request is not None and record.offset >= done_below.get(record.partition, 0):
                requested[request.evaluation_id] = request.evaluator, request.sampling.probability
    return requested
