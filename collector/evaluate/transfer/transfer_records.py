"""The records that hand the state of partitions to another log. A copy of a turns log begins with them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

import orjson

from collector.errors import BadInput
from collector.evaluate.conversations.session_window import ConversationWindows
from collector.evaluate.conversations.snapshot import snapshot_record
from collector.evaluate.plan import Job
from collector.logs.log import Headers, Record, StoredRecord
from collector.records.json import case_in, case_json, fields_of, not_none, record_from_json, record_of
from evaluators.cases import Conversation, Json, Turn
from evaluators.identity import conversation_id_of
from evaluators.records import to_json
from evaluators.results import Retry, Sampling

TRANSFER = "transfer"
START_HEADERS: Headers = ((TRANSFER, b"start"),)
CONVERSATION_HEADERS: Headers = ((TRANSFER, b"conversation"),)
JOB_HEADERS: Headers = ((TRANSFER, b"job"),)


def is_transfer(record: StoredRecord) -> bool:
    """Whether a record of the turns log hands over state."""
    return record.headers in (START_HEADERS, CONVERSATION_HEADERS, JOB_HEADERS)


@dataclass(frozen=True, slots=True)
class TransferStart:
    """The start of a transferred state: the partition's time (s since the epoch), and its retries.

    `retries` maps the ids of failed evaluations to the ids of their replacements. The fold forgets its earlier state.
    """

    time: float
    retries: Mapping[str, str] = field(default_factory=dict[str, str])

    def to_record(self, partition: int) -> Record:
        """The record to append."""
        return Record(None, orjson.dumps({"time": self.time, "retries": self.retries}), START_HEADERS, partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferredJob:
    """An evaluation that was due and not made.

    `evaluation_id` is the id at the time of the copy: another configuration may give another id, unless it is a
    `retry`.
    """

    evaluation_id: str
    monitor: str
    evaluator: str
    case: Turn | Conversation
    triggered_at: float
    size: int
    sampling: Sampling
    fallback: bool
    supersedes: tuple[str, ...]
    retry: Retry | None
    attributes: Mapping[str, Json]
    happened_at: datetime | None = None

    @property
    def key(self) -> str:
        """The key of its conversation."""
        return conversation_id_of(self.case)

    def to_record(self) -> Record:
        """The record to append."""
        plain: dict[str, Any] = {
            "id": self.evaluation_id,
            **fields_of(self, "monitor", "evaluator", "triggered_at", "size"),
            "sampling": orjson.Fragment(to_json(self.sampling)),
            **fields_of(self, "fallback", "supersedes", "retry", "attributes"),
            **not_none(happened_at=self.happened_at),
        }
        return Record(self.key.encode("utf-8", "replace"), orjson.dumps(plain | case_json(self.case)), JOB_HEADERS)


def transferred(job: Job) -> TransferredJob:
    """A job as a record, for another log."""
    return TransferredJob(
        monitor=job.monitor.name,
        evaluator=job.assignment.evaluator.name,
        case=job.case(),
        **fields_of(job, "evaluation_id", "triggered_at", "size", "sampling", "fallback"),
        **fields_of(job, "supersedes", "retry", "attributes", "happened_at"),
    )


def conversation_record(monitor: str, conversation_id: str, conversation: ConversationWindows) -> Record:
    """The record of an open conversation, as in a snapshot."""
    record = snapshot_record(monitor, conversation_id, conversation, 0, 0)
    return replace(record, headers=CONVERSATION_HEADERS, partition=None)


def parse_start(value: bytes) -> TransferStart:
    """Read the start of a transferred state. Raises BadInput."""
    return record_from_json(value, TransferStart)


def parse_job(value: bytes) -> TransferredJob:
    """Read an evaluation that is due. Raises BadInput."""
    try:
        plain = cast("dict[str, Any]", orjson.loads(value))
        return record_of(plain | {"evaluation_id": plain["id"], "case": case_in(plain)}, TransferredJob)
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"not an evaluation that is due: {type(error).__name__}") from None
