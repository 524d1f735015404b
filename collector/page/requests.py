"""Requests of a browser: the filters in an address, and labels. Read from outside, so parsed by models."""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Literal, TypeVar, cast

import orjson
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from collector.errors import BadInput
from collector.evaluate.retry.request import RetryRequest
from collector.logs.log import Log, Record
from collector.page.score_series import RANGES
from collector.page.view import ListedEvaluation, View, evaluator_of, paid_in
from collector.past.evaluations import needs_retry
from collector.receive.rejection import Rejected
from collector.records.attributes import STANDARD
from collector.records.json import label_to_json
from collector.records.labels import label_of
from collector.section import Section
from collector.wording import requirement, unknown
from evaluators.cases import Json
from evaluators.results import Evaluation, Label, Opinion

Model = TypeVar("Model", bound=BaseModel)
Text = Annotated[str, StringConstraints(strip_whitespace=True, max_length=200)]


class Filters(BaseModel):
    """The evaluations wanted, and their order; "" means all."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    range: Literal["5m", "15m", "1h", "6h", "24h", "7d"] = "1h"
    monitor: Text = ""
    evaluator: Text = ""
    outcome: Literal["", "missed", "scored", "skipped", "failed", "labelled", "unlabelled"] = ""
    q: Text = ""
    order: Literal["worst", "newest"] = "worst"
    limit: int = Field(default=60, ge=1, le=500)


class GateRequest(Section):
    """A version to decide on; of a decision other than the one that is `expect`ed the status is 409."""

    attribute: Text
    version: Text
    against: Text | None = None
    monitor: Text | None = None
    within: Text | None = None
    tolerance: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.05
    expect: Literal["promote", "hold", "roll back"] | None = None


class LabelRequest(Section):
    """A label as a person gives it. `by` is the name they go by, if they say one."""

    opinion: Opinion | None = None
    score: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    note: Annotated[str, StringConstraints(strip_whitespace=True, max_length=4000)] = ""
    by: Annotated[str, StringConstraints(strip_whitespace=True, max_length=80)] = ""

    def _mistakes(self) -> Iterator[str]:
        if self.opinion is None and self.score is None and not self.note:
            yield "say agree or disagree, give a score, or write a note"


def parse_filters(query: Mapping[str, str]) -> Filters:
    """The filters of an address. Raises BadInput."""
    return _checked(Filters, dict(query))


def parse_gate(query: Mapping[str, str]) -> GateRequest:
    """The question of an address. Raises BadInput."""
    return _checked(GateRequest, dict(query))


def parse_body(model: type[Model], body: bytes) -> Model:
    """A person's opinion on an answer, as a browser sends it. Raises BadInput."""
    try:
        return _checked(model, orjson.loads(body))
    except orjson.JSONDecodeError:
        raise BadInput("the label is not JSON") from None


def _checked(model: type[Model], values: object) -> Model:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise BadInput(_sentence(error, model)) from None


def select_evaluations(view: View, filters: Filters, now: float, *, text: bool) -> list[ListedEvaluation]:
    """All listed evaluations that match, in the wanted order. Hidden text is not searched either."""
    matches = list(_matching(view, filters, now, text=text))
    if filters.order == "newest":
        matches.reverse()
    else:
        matches.sort(key=lambda each: _rank(view, each))
    return matches


def _matching(view: View, filters: Filters, now: float, *, text: bool) -> Iterator[ListedEvaluation]:
    range_ = RANGES[filters.range]
    oldest = now - range_.width * range_.bins
    wanted = filters.q.casefold()
    for evaluation in view:
        judged = evaluation.evaluation
        if (
            evaluation.superseded_by is None  # the evaluation in its place is listed
            and judged.time.timestamp() >= oldest
            and filters.monitor in ("", judged.monitor)
            and filters.evaluator in ("", judged.evaluator)
            and _has_outcome(evaluation, filters.outcome)
            and (
                not wanted or any(wanted in part.casefold() for part in _searchable_texts(view, evaluation, text=text))
            )
        ):
            yield evaluation


def _has_outcome(listed: ListedEvaluation, outcome: str) -> bool:
    match outcome:
        case "":
            return True
        case "missed":
            return listed.evaluation.passed is False
        case "labelled":
            return listed.label is not None
        case "unlabelled":
            return listed.label is None
        case _:
            return listed.evaluation.outcome == outcome


def _searchable_texts(view: View, listed: ListedEvaluation, *, text: bool) -> Iterator[str]:
    """The texts that a search covers."""
    judged = listed.evaluation
    subject = judged.subject
    yield from (subject.conversation_id, subject.trace_id or "", judged.evaluation_id, judged.reason or "")
    for name, value in visible_attributes(judged, text=text):
        values = cast("list[object]", value) if isinstance(value, (list, tuple)) else [value]
        yield from (f"{name}={each}" for each in values)
    if text:
        yield judged.explanation or ""
        yield excerpt(view, listed)


def visible_attributes(judged: Evaluation, *, text: bool) -> Iterator[tuple[str, Json]]:
    """The attributes of an evaluation; where texts are hidden, only those whose names are not the application's own."""
    yield from ((name, value) for name, value in judged.attributes.items() if text or name in STANDARD)


def excerpt(view: View, listed: ListedEvaluation) -> str:
    """The user's question, "" if it is not cached: the evaluated turn's input, or the first of a conversation."""
    subject = listed.evaluation.subject
    if subject.turn_id is not None:
        turn = view.turn_cache.turn(subject.conversation_id, subject.turn_id)
        return (turn.input or "") if turn else ""
    return next((turn.input for turn in view.turn_cache.turns(subject.conversation_id) if turn.input), "")


def _rank(view: View, listed: ListedEvaluation) -> tuple[int, float, float]:
    """The worst scores first, then failures, then skips; among equals the newest first."""
    judged = listed.evaluation
    newest = -judged.time.timestamp()
    if judged.score is None:
        return (1 if judged.outcome == "failed" else 2, 0.0, newest)
    watched = evaluator_of(view, judged)
    badness = judged.score if watched and watched.lower_is_better else 1.0 - judged.score
    return (0, -round(badness, 2), newest)  # 0.101 and 0.102 are equally bad


def _sentence(error: ValidationError, model: type[BaseModel]) -> str:
    errors = error.errors(include_input=False, include_url=False)
    first = min(errors, key=lambda detail: detail["type"] != "extra_forbidden")  # a misspelt key, before a missing one
    if first["type"] == "extra_forbidden":
        return unknown("key", str(first["loc"][0]), model.model_fields)
    path, message = ".".join(map(str, first["loc"])), requirement(first) or first["msg"].removeprefix("Value error, ")
    return f"{path}: {message}" if path else message


def build_label(view: View, listed: ListedEvaluation, body: bytes, now: datetime) -> Label:
    """The label that a browser sends, with the judge's own words beside it. Raises BadInput."""
    label = parse_body(LabelRequest, body)
    fields = {"opinion": label.opinion, "score": label.score, "note": label.note or None, "given_by": label.by or None}
    return label_of(listed.evaluation, uuid.uuid4().hex, now, paid_in(view, listed.evaluation), **fields)


def build_retry(view: View, listed: ListedEvaluation) -> RetryRequest:
    """The request to make a listed evaluation again, with its turns.

    Raises:
        Rejected: it is not one that is owed, or its turns are not here any more.
    """
    if not needs_retry(listed.evaluation):
        raise Rejected(409, "only a failed evaluation can be made again")
    if listed.superseded_by is not None:
        raise Rejected(409, "it was made again already")
    if (case := view.turn_cache.case_of(listed.evaluation)) is None:
        remedy = "evalstream rejudge --what failed reads them from the log"
        raise Rejected(409, f"its turns are not on the page any more; {remedy}")
    return RetryRequest(listed.evaluation, case)


async def append_labels(log: Log, labels: Iterable[Label]) -> None:
    """Append labels; an evaluation's labels share a partition. Raises LogUnavailable."""
    await log.append([Record(label.evaluation_id.encode(), label_to_json(label)) for label in labels])
