"""Feedback: what a user, an expert or a program says of a turn or a conversation, as JSON from outside and in the log.

It is stored in the labels log twice: as received, under the ids that its sender knows, and again when it has joined its
subject, or when the wait for the subject is over. Both records have the same `feedback_id` and partition. If it came
again since, a third record says, one wait later, that it is over.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal, get_args

from collector.errors import BadInput
from collector.logs.log import Headers, Record, StoredRecord
from collector.records.json import record_of
from collector.records.ready_made import LONGEST_ID
from collector.records.references import LONGEST_NAME, digest_of, plain_value, sent_fields, sent_ids
from collector.wording import is_like, suggestion
from evaluators.cases import Feedback, Turn
from evaluators.records import to_dict, to_json
from evaluators.results import Sampling

FEEDBACK_HEADERS: Headers = (("feedback", b"1"),)
JOINED_HEADERS: Headers = (("feedback", b"joined"),)
REPEATED_HEADERS: Headers = (("feedback", b"repeated"),)
"""Headers of feedback in the labels log, as received, when it is over, and when it came again since: not a label."""

Source = Literal["user", "expert", "code"]
JoinOutcome = Literal["joined", "unmatched", "crowded_out"]
"""The result: joined, no subject within the wait, or given up because too much was waiting."""

OPINIONS = ("agree", "disagree")
"""An expert's labels on a judge's score."""
IDS = ("evaluation_id", "turn_id", "span_id", "response_id", "trace_id", "conversation_id")
"""The fields by which feedback names its subject, the most exact first."""
LONGEST_LABEL, LONGEST_COMMENT, LONGEST_AUTHOR = 200, 4000, 80
"""Characters."""
MOST_SUBJECTS = 20
"""Turns that one piece of feedback joins, as one about a whole conversation does where only its turns are judged."""

_TEXTS = {"name": LONGEST_NAME, "label": LONGEST_LABEL, "comment": LONGEST_COMMENT, "author": LONGEST_AUTHOR}
_KEYS = frozenset({*IDS, *_TEXTS, "value", "source", "feedback_id", "at"})
_LARGEST = 1e15
DEFAULT_NAME = "feedback"

GOOD = 0.5
"""Feedback with at least this score is good."""
_GOOD = frozenset({"positive", "good", "up", "thumbs_up", "thumbs-up", "thumbsup", "like", "👍", "yes", "true", "pass",
                   "correct", "helpful"})  # fmt: skip
_BAD = frozenset({"negative", "bad", "down", "thumbs_down", "thumbs-down", "thumbsdown", "dislike", "👎", "no", "false",
                  "fail", "incorrect", "unhelpful"})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackEntry:
    """One piece of feedback as it came; its subject has all of the given ids.

    If it came in a trace, `spans` are the spans that it is about: among the trace's turns, a turn of such a span is
    preferred, and in any trace the turn with the `response_id`. `tenant` is the sender's tenant; None for one who may
    say something of every tenant's turns. `author` is who says so within the source, `at` when, as far as the sender
    tells.
    """

    feedback_id: str
    name: str = DEFAULT_NAME
    value: float | bool | str | None = None
    label: str | None = None
    comment: str | None = None
    source: Source = "user"
    author: str | None = None
    at: datetime | None = None
    tenant: str | None = None
    evaluation_id: str | None = None
    turn_id: str | None = None
    span_id: str | None = None
    response_id: str | None = None
    trace_id: str | None = None
    conversation_id: str | None = None
    spans: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The most exact of its ids, with its kind."""
        return next(f"{name}:{value}" for name in IDS if (value := getattr(self, name)) is not None)

    def score(self, scale: tuple[float, float] | None = None) -> float | None:
        """The value on 0..1, 1 is good; None if it has none there.

        `scale` are the values that are 0 and 1; without it a number counts if it lies in 0..1, or is -1 for bad;
        else the label counts.
        """
        value = self.value
        if isinstance(value, bool):
            return float(value)
        if isinstance(value, float | int):
            worst, best = scale or (0.0, 1.0)
            if value == -1 < min(worst, best):  # also where low numbers are good
                return 0.0
            if scale is not None or 0.0 <= value <= 1.0:
                return min(1.0, max(0.0, (value - worst) / (best - worst)))
        for text in (value, self.label):
            if isinstance(text, str) and (word := text.strip().lower()) in _GOOD | _BAD:
                return float(word in _GOOD)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackSubject:
    """The subject that feedback has joined: a turn or a conversation judged by a monitor, and how it was chosen."""

    monitor: str
    conversation_id: str
    turn_id: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    response_id: str | None = None
    sampling: Sampling = field(default_factory=Sampling)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedFeedback:
    """The result for one piece of feedback: `subjects` are empty unless it `joined`.

    `score` is its value on 0..1 by the configuration of the time, `series` its name in metrics.
    """

    entry: FeedbackEntry
    outcome: JoinOutcome
    received_at: datetime
    subjects: tuple[FeedbackSubject, ...] = ()
    score: float | None = None
    series: str = "other"


def is_feedback(record: StoredRecord) -> bool:
    """Whether a record of the labels log is feedback as it came."""
    return record.headers[:1] == FEEDBACK_HEADERS


def is_joined_feedback(record: StoredRecord) -> bool:
    """Whether a record of the labels log is the outcome of feedback."""
    return record.headers[:1] == JOINED_HEADERS


def feedback_of(document: object, *, tenant: str | None) -> FeedbackEntry:
    """Read feedback as a sender writes it.

    Raises:
        BadInput: it names no subject, says nothing, or has unknown keys; names the path, not the content.
    """
    fields = sent_fields(document, "feedback", "{trace_id, value}", _KEYS)
    if not any(name in fields for name in IDS):
        raise BadInput(f"feedback names what it is about: one of {', '.join(IDS)} is needed")
    if not any(name in fields for name in ("value", "label", "comment")):
        raise BadInput("feedback says something: a value, a label or a comment is needed")
    for name, most in _TEXTS.items():
        if name in fields and not (isinstance(fields[name], str) and 0 < len(fields[name]) <= most):
            raise BadInput(f"{name}: a text of 1 to {most} characters is needed")
    if fields.get("source", "user") not in get_args(Source):
        raise BadInput(f"source: one of {', '.join(get_args(Source))} is needed")
    label = fields.get("label")
    is_opinion = fields.get("source") == "expert" and "value" not in fields and label not in (None, *OPINIONS)
    if is_opinion and is_like(fields["label"], OPINIONS):
        raise BadInput(f"label: {suggestion(fields['label'], OPINIONS)}")
    if not _is_value(fields.get("value", 0)):
        raise BadInput(f"value: a number, true, false, or a text of up to {LONGEST_LABEL} characters is needed")
    fields |= sent_ids(fields, IDS, tenant)
    own = fields.pop("feedback_id", None)
    if own is not None and not (isinstance(own, str) and 0 < len(own) <= LONGEST_ID):
        raise BadInput(f"feedback_id: a text of 1 to {LONGEST_ID} characters is needed")
    digest = digest_of(tenant, {"feedback_id": own} if own is not None else fields)
    entry = record_of({**fields, "feedback_id": digest, "tenant": tenant}, FeedbackEntry)
    return replace(entry, at=entry.at.replace(tzinfo=UTC)) if entry.at and entry.at.tzinfo is None else entry


def _is_value(value: object) -> bool:
    if isinstance(value, str):
        return 0 < len(value) <= LONGEST_LABEL
    return isinstance(value, bool | int | float) and abs(value) <= _LARGEST  # not NaN either


def usable_value(value: float | bool | str | None) -> float | bool | str | None:
    """A value of a trace, cut to its longest; None if it is no number that can be compared."""
    if isinstance(value, str):
        return cut(value, LONGEST_LABEL)
    return value if _is_value(value) else None


def cut(text: str | None, most: int) -> str | None:
    """The first characters of a text; None for an empty one."""
    return text[:most] if text else None


def feedback_entry(feedback: Feedback, tenant: str) -> FeedbackEntry | None:
    """An entry of the feedback that a turn carries, still without ids; None if nothing is said.

    A turn may say that a person says so, but not that an expert does.
    """
    entry = FeedbackEntry(
        feedback_id="",
        name=cut(feedback.name, LONGEST_NAME) or DEFAULT_NAME,
        value=usable_value(feedback.value),
        label=cut(feedback.label, LONGEST_LABEL),
        comment=cut(feedback.comment, LONGEST_COMMENT),
        source="user" if feedback.source in (None, "user") else "code",
        tenant=tenant,
    )
    return None if entry.value is None and not (entry.label or entry.comment) else entry


def entries_of_turn(turn: Turn, tenant: str) -> Iterator[FeedbackEntry]:
    """The entries of a ready-made turn's feedback, the same however often it comes."""
    for feedback in turn.feedback:
        entry = feedback_entry(feedback, tenant)
        if entry is not None:
            about = replace(entry, turn_id=turn.turn_id)
            yield replace(about, feedback_id=digest_of(tenant, to_dict(about)))


def feedback_record(entry: FeedbackEntry, *, comments: bool = True) -> Record:
    """The record to append to the labels log, without the author's text if the log holds none: the same feedback is in
    the same partition again.
    """
    stored = entry if comments else replace(entry, comment=None)
    return Record(entry.feedback_id.encode(), to_json(stored), FEEDBACK_HEADERS)


def joined_record(joined: JoinedFeedback, partition: int) -> Record:
    """The result record, for the partition of the feedback."""
    return Record(joined.entry.feedback_id.encode(), to_json(joined), JOINED_HEADERS, partition)


def repeated_record(feedback_id: str, partition: int) -> Record:
    """The record that ends repeated feedback once more; its key is its whole content."""
    return Record(feedback_id.encode(), b"", REPEATED_HEADERS, partition)


def ended_feedback(record: StoredRecord) -> str | None:
    """The id of the feedback whose end a record of the labels log is; None if it is none."""
    if record.headers[:1] not in (JOINED_HEADERS, REPEATED_HEADERS) or record.key is None:
        return None
    return record.key.decode()


def parse_feedback_entry(value: bytes) -> FeedbackEntry:
    """Read feedback of the labels log.

    Raises:
        BadInput: it is none that this version can read.
    """
    entry = record_of(plain_value(value, "feedback"), FeedbackEntry)
    if all(getattr(entry, name) is None for name in IDS):
        raise BadInput("not feedback: it names nobody")
    return entry


def parse_joined_feedback(value: bytes) -> JoinedFeedback:
    """Read what became of feedback. Raises BadInput."""
    return record_of(plain_value(value, "feedback"), JoinedFeedback)
