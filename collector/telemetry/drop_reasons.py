"""Reasons of drops, the label `reason` of `evalstream_drops_total`: why something was lost or left out."""

from enum import StrEnum


class DropReason(StrEnum):
    """A reason for which something is dropped. The runbook EvalstreamDrops says what one is and what to do.

    Exporters also drop what a destination refuses, with its answer as the reason: `http_403`, `not_accepted` or
    `no_trace`.
    """

    UNREADABLE_MESSAGE = "unreadable_message"
    UNREADABLE_BATCH = "unreadable_batch"
    UNREADABLE_FILE = "unreadable_file"
    UNREADABLE_ITEM = "unreadable_item"
    UNREADABLE = "unreadable"
    TRACES_WITHOUT_TRACE_ID = "traces_without_trace_id"
    LOGS_WITHOUT_TRACE_ID = "logs_without_trace_id"
    TOO_LARGE = "too_large"
    SPAN_TOO_LARGE = "span_too_large"
    FEEDBACK_TOO_LARGE = "feedback_too_large"
    SPAN_UNKNOWN = "span_unknown"
    CRASHED = "crashed"
    FEEDBACK_REJECTED = "feedback_rejected"
    NO_LOGS_ENDPOINT = "no_logs_endpoint"
    PARTIAL_SUCCESS = "partial_success"
    NOT_SENT_IN_TIME = "not_sent_in_time"


class LossReason(StrEnum):
    """A reason for which records that a consumer needed are gone. The runbook is EvalstreamRecordsLost."""

    RETENTION = "retention"
    """Deleted unread."""
    RETENTION_REPLAY = "retention_replay"
    """Delivered before, but still needed: to rebuild the open state of a restart or of another owner, such as open
    traces, open conversations and evaluations that were not done."""
    TOPIC_REPLACED = "topic_replaced"
    """The topic was deleted, and another one made under its name."""
