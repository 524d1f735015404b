"""Answers of the page's API as plain JSON values. If text is hidden, no answer contains any."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import orjson

from collector.page.label_queue import LabelQueue, progress_json
from collector.page.requests import Filters, excerpt, select_evaluations, visible_attributes
from collector.page.score_series import RANGES, WEEK, Bin, ScoreSeries, total
from collector.page.settings import PageSettings
from collector.page.sources import PeopleView, Sources
from collector.page.view import EvaluatorView, ListedEvaluation, View, evaluator_of
from collector.past.evaluations import needs_retry
from collector.receive.rejection import Rejected
from collector.records.feedback import JoinedFeedback
from collector.records.json import evaluation_to_json, fields_of, label_to_json, turn_to_json
from collector.statistics.audited_sums import CorrectedMean, corrected_by_people, sums_of_scores
from collector.statistics.confusion import VerdictAgreement, confusions
from collector.statistics.intervals import MeanInterval
from evaluators.cases import Turn
from evaluators.results import Evaluation, Label

Json = dict[str, Any]
DAY = 86400.0
_WIDE = 0.3
"""Width of an interval from which on its scores count as too few."""
_EXCERPT = 240
_JUDGE_TEXTS = frozenset({"explanation", "details"})
"""Fields of an evaluation in which a judge may quote the evaluated text."""


@dataclass(frozen=True, slots=True)
class PageApi:
    """The answers, from a view."""

    view: View
    settings: PageSettings
    sources: Sources

    def overview(self, filters: Filters, now: float) -> Json:
        """Monitors with their scores over time, outcomes, and cost. `now` in seconds."""
        people: Mapping[tuple[str, str], PeopleView] = self.sources.people() if self.sources.people else {}
        tracks = [self._track(key, filters.range, now, people.get(key)) for key in self.view.score_series]
        deferred = self.sources.deferred() if self.sources.deferred else None
        return {
            "version": self.view.version, "now": now, "started": self.view.started,
            "text": self.settings.show_text, "listed": len(self.view), "tracks": tracks,
            "funnel": self._funnel(), "alerts": _all(self.sources.alerts),
            "configuration": asdict(self.sources.configuration()) if self.sources.configuration else None,
            "releases": _all(self.sources.releases), "budgets": _all(self.sources.budgets),
            "dead_letters": _all(self.sources.dead_letters),
            "deferred": asdict(deferred) if deferred is not None else None,
        }  # fmt: skip

    def evaluations(self, filters: Filters, now: float) -> Json:
        """The evaluations that match, as rows."""
        matches = select_evaluations(self.view, filters, now, text=self.settings.show_text)
        return {
            "version": self.view.version,
            "total": len(matches),
            "rows": [self._row(evaluation) for evaluation in matches[: filters.limit]],
        }

    def evaluation(self, listed: ListedEvaluation) -> Json:
        """One evaluation with everything that is known of it."""
        judged, text = listed.evaluation, self.settings.show_text
        record: Json = orjson.loads(evaluation_to_json(judged))
        if not text:
            record = {key: value for key, value in record.items() if key not in _JUDGE_TEXTS}
            record["attributes"] = dict(visible_attributes(judged, text=False))
        watched = evaluator_of(self.view, judged)
        return {
            "evaluation": record, "threshold": watched.threshold if watched else None,
            "lower_is_better": bool(watched and watched.lower_is_better), "trace_url": self._trace_url(judged),
            "text": text, "conversation": self._conversation(judged) if text else [],
            "label": _label(listed.label),
            "feedback": [_feedback(feedback, text=text) for feedback in self.view.feedback_of(judged)],
            "retry": _retry_state(listed), "superseded_by": listed.superseded_by,
            "others": [
                self._row(evaluation)
                for evaluation in self.view
                if evaluation is not listed
                and evaluation.superseded_by is None
                and evaluation.evaluation.subject.conversation_id == judged.subject.conversation_id
            ][-40:],
        }  # fmt: skip

    def queue_next(self, queue: LabelQueue, person: str, evaluator: str, monitor: str) -> Json:
        """The next conversation for a person to label, without the judge's result.

        Raises:
            Rejected: 404, no such evaluator or monitor is in use, and the queue has no evaluation of it.
        """
        queued, progress = queue.next(person, evaluator, monitor)
        monitors, evaluators = (sorted({key[at] for key in self.view.evaluators}) for at in (0, 1))
        for kind, name, known in (("evaluator", evaluator, evaluators), ("monitor", monitor, monitors)):
            if name and name not in known and not progress.total:
                raise Rejected(404, f"no {kind} has the name {name!r}; the names are: {', '.join(known)}")
        answer: Json = {"progress": progress_json(progress), "evaluators": evaluators, "item": None}
        if queued is not None:
            judged = queued.listed.evaluation
            watched = evaluator_of(self.view, judged)
            answer["item"] = {
                "id": judged.evaluation_id, "evaluator": judged.evaluator, "monitor": judged.monitor,
                "scope": judged.scope, "asks": watched.asks if watched else "",
                "subject": {"turn_id": judged.subject.turn_id, "conversation_id": judged.subject.conversation_id},
                "conversation": self._conversation(judged),
            }  # fmt: skip
        return answer

    def queue_verdict(self, listed: ListedEvaluation, label: Label) -> Json:
        """The judge's result, for a person who has labelled the conversation."""
        if label.state == "retracted":
            return {"label": None}
        judged = listed.evaluation
        verdict: Json = {"score": judged.score, "passed": judged.passed, "explanation": judged.explanation}
        return {"label": _label(label), "judge": verdict}

    def _conversation(self, judged: Evaluation) -> list[Json]:
        """The cached turns; the first's history has those before."""
        turns = self.view.turn_cache.turns(judged.subject.conversation_id)
        return [_turn(turn, judged, first=turn is turns[0]) for turn in turns]

    def _trace_url(self, judged: Evaluation) -> str | None:
        subject = judged.subject
        if self.settings.trace_link is None or subject.trace_id is None:
            return None
        return self.settings.trace_link.link(subject.trace_id, subject.span_id)

    def _row(self, listed: ListedEvaluation) -> Json:
        judged, text = listed.evaluation, self.settings.show_text
        watched = evaluator_of(self.view, judged)
        return {
            "id": judged.evaluation_id,
            **fields_of(judged, "monitor", "evaluator", "scope", "outcome", "score", "passed"),
            "version": judged.evaluator_version,
            "earlier": bool(watched and watched.versions and judged.evaluator_version not in watched.versions),
            "chosen": None if judged.label in _VERDICTS else judged.label, "why": _why(judged, text=text),
            "excerpt": excerpt(self.view, listed)[:_EXCERPT] if text else "",
            "conversation_id": judged.subject.conversation_id, "turn_id": judged.subject.turn_id,
            "ended_at": judged.time.timestamp(), "label": _label(listed.label),
        }  # fmt: skip

    def _track(self, key: tuple[str, str], name: str, now: float, people: PeopleView | None) -> Json:
        track, earlier = self.view.score_series[key], self.view.earlier_series(key)
        watched = self.view.evaluators.get(key)
        columns = track.columns(name, now)
        curve, changes = _with_earlier(columns, earlier, name, now)
        recent, whole = total(columns[-RANGES[name].recent :]), track.whole(name, now)
        interval = _decisive_interval(whole) if recent.across_columns.scores else None
        threshold, target = (watched.threshold, watched.target) if watched else (None, None)
        lower = bool(watched and watched.lower_is_better)
        since = track.forgotten if whole.verdicts and track.forgotten >= columns[0][0] else None
        return {
            "monitor": key[0], "evaluator": key[1], "scope": watched.scope if watched else "turn",
            "threshold": threshold, "target": target, "lower_is_better": lower, "width": RANGES[name].width,
            "points": [_point(*column) for column in curve], "changes": changes, "recent": _summary(recent),
            "recent_seconds": RANGES[name].recent * RANGES[name].width,
            "passed_since": since,
            "whole": _summary(whole), "work": _work([track, *earlier], name, now, free=bool(watched and watched.free)),
            "yesterday": _past_mean(track.earlier(name, now, DAY)),
            "last_week": _past_mean(track.earlier(name, now, 7 * DAY)),
            "state": _state(interval, threshold if target is None else target, lower_is_better=lower),
            **fields_of(track, "newest", "newest_is_rejudged"),
            "people": None if people is None else _people(people, track.whole(WEEK, now)),
            "classified": self._confusion_matrix(watched) if watched and watched.labels else None,
        }  # fmt: skip

    def _confusion_matrix(self, watched: EvaluatorView) -> Mapping[str, object] | None:
        """The listed evaluations of turns whose reference is one of the labels; None without any."""
        evaluations = [
            judged
            for judged in (listed.evaluation for listed in self.view)
            if (judged.monitor, judged.evaluator) == (watched.monitor, watched.evaluator)
            and (not watched.versions or judged.evaluator_version in watched.versions)
        ]
        turns = (
            self.view.turn_cache.turn(judged.subject.conversation_id, judged.subject.turn_id or "")
            for judged in evaluations
        )
        expected = {turn.turn_id: turn.expected_output or "" for turn in turns if turn is not None}
        results = dict(confusions(evaluations, {watched.evaluator: watched.labels}, expected))
        return results[watched.evaluator].as_json() if results else None

    def _funnel(self) -> Json:
        traffic = self.sources.traffic()
        without_record = {
            (view.monitor, name): of for view in traffic.monitors for name, of in view.evaluations.items()
        }
        return {
            "traffic": {view.monitor: view.counts for view in traffic.monitors},
            "unknown": traffic.unknown,
            "outcomes": [
                {
                    "monitor": monitor,
                    "evaluator": evaluator,
                    "scored": outcomes.scored,
                    "others": [[*why, count] for why, count in outcomes.others.most_common(20)],
                    "open": without_record.get((monitor, evaluator), {}),
                }
                for (monitor, evaluator), outcomes in self.view.outcomes.items()
            ],
        }


def _with_earlier(
    columns: list[tuple[float, Bin | None]], earlier: Sequence[ScoreSeries], name: str, now: float
) -> tuple[list[tuple[float, Bin | None]], list[float]]:
    """The columns; one without scores is taken from the newest earlier version that has scores there. With them, when
    each version that has scores beside the present one's ended its last evaluation: of what `rejudge` replaced, none
    is.
    """
    changes: list[float] = []
    for series in earlier:
        pairs = list(zip(columns, series.columns(name, now), strict=True))
        filled = [max(pair, key=lambda column: bool(column[1] and column[1].judged)) for pair in pairs]
        is_covered = any(_is_covered(own, other) for (_, own), (_, other) in pairs)
        changes += [series.newest or 0.0] if is_covered or filled != columns else []
        columns = filled
    return columns, changes


def _is_covered(own: Bin | None, other: Bin | None) -> bool:
    """Whether a version began in a column in which an earlier one ended, so that the curve lacks the other's scores."""
    return bool(own and other and own.judged and other.judged and not own.past.w and not own.past_unscored)


def _point(start: float, column: Bin | None) -> list[float | int | None]:
    """Start, mean, low and high end of its 95 % interval, scores, failures of a column."""
    if column is None:
        return [start, None, None, None, 0, 0]
    sums = column.within_column
    return [start, sums.mean, *(sums.interval or (None, None)), sums.scores, column.failed]


def _summary(whole: Bin) -> Json:
    return {
        **fields_of(whole.across_columns, "mean", "interval", "scores", "conversations"),
        "passed": whole.passed / whole.verdicts if whole.verdicts else None,
        "corrected": _corrected(whole),
        "clipped": whole.clipped / (whole.clipped + whole.across_columns.sums.w) if whole.clipped else 0.0,
        "live": None if whole.live is None else whole.live.mean,
        **fields_of(whole, "skipped", "failed", "bounds", "rejudged"),
    }


def _work(versions: Sequence[ScoreSeries], name: str, now: float, *, free: bool = False) -> Json:
    """Calls, tokens and cost of all versions. Calls of a column that cost nothing had no price, or are `free`."""
    columns = [column for series in versions for _, column in series.columns(name, now) if column and column.calls]
    usd = sum(column.cost_usd for column in columns)
    return {
        "calls": sum(column.calls for column in columns),
        "tokens": sum(column.tokens for column in columns),
        "cost_usd": usd if usd or free or not columns else None,
        "partly_priced": usd > 0 and not all(column.cost_usd for column in columns),
    }


def _corrected(whole: Bin) -> Json | None:
    """The mean by audits; `audits` alone where there are too few for one, None where nobody audits."""
    if not any(whole.audited.values):
        return None
    mean = whole.audited.corrected()
    if mean is None:
        return {"audits": whole.audited.audits, "mean": None}
    return {"audits": mean.audits, "mean": mean.mean, "interval": mean.interval, "worth": mean.worth,
            "bounds": whole.audited_bounds(mean.mean)}  # fmt: skip


def _people(people: PeopleView, scores: Bin) -> Json:
    """People's verdict: their mean of seven days, or why there is none, and how the judge agrees with them."""
    mean, why = _by_people(people, scores)
    known = {
        "withheld": why, "labels": people.sums.audits, "biases": list(people.biases),
        "agreements": [_agreement(*agreement) for agreement in people.agreements.items()],
    }  # fmt: skip
    return known if mean is None else known | {"mean": mean.mean, "interval": mean.interval}


def _by_people(people: PeopleView, scores: Bin) -> tuple[CorrectedMean | None, str]:
    """The mean by people, or else why it is withheld: by its labels, or for want of what they correct."""
    if people.withheld:
        return None, people.withheld
    if people.correct_audits:
        audited = scores.audited.corrected()
        return (None, "audits") if audited is None else (corrected_by_people(people.sums, audited), "")
    return (None, "scores") if scores.live is None else ((people.sums + sums_of_scores(scores.live)).corrected(), "")


def _agreement(segment: str, of: VerdictAgreement) -> Json:
    """A measure without a value is null: NaN is no JSON."""
    measures = {name: None if math.isnan(bound.value) else list(bound) for name, bound in of.measures().items()}
    verdicts = of.verdicts.as_json() if of.number else None
    return {"segment": segment, "labels": of.number, **measures, "verdicts": verdicts}


def _past_mean(whole: Bin | None) -> Json | None:
    """The mean of the same stretch of time, earlier; None without scores."""
    sums = None if whole is None else whole.across_columns
    return None if sums is None or sums.mean is None else fields_of(sums, "mean", "interval", "scores")


def _decisive_interval(whole: Bin) -> MeanInterval | None:
    """The interval of the mean that makes a range good or bad: by audits, if there are any.

    Too few audits are anything from 0 to 1. None without scores.
    """
    if not any(whole.audited.values):
        return whole.across_columns.interval
    mean = whole.audited.corrected()
    return (0.0, 1.0) if mean is None else mean.interval


def _state(interval: MeanInterval | None, aim: float | None, *, lower_is_better: bool) -> str:
    """The side of the target, or else the threshold, on which the mean surely is: `unsure` if its 95 % interval holds
    it. Alerts ask the same: a mean between threshold and target is not good.

    Scores whose interval is wider than `_WIDE` are `few`.
    """
    if interval is None:
        return "silent"
    if aim is None:
        return "plain"
    low, high = interval
    if low <= aim <= high:
        return "few" if high - low > _WIDE else "unsure"
    return "bad" if (low > aim) is lower_is_better else "good"


def _turn(turn: Turn, judged: Evaluation, *, first: bool) -> Json:
    record: Json = orjson.loads(turn_to_json(turn))
    for attachment in record.get("attachments", ()):
        attachment.pop("data", None)  # the page says what there was
    if not first:
        record.pop("history", None)
    subject = judged.subject
    record["judged"] = subject.turn_id is None or subject.turn_id == turn.turn_id
    return record


def _why(judged: Evaluation, *, text: bool) -> str:
    if judged.error:
        return f"{judged.error.type}: {judged.error.message}"
    return judged.reason or ((judged.explanation or "")[:_EXCERPT] if text else "")


def _retry_state(listed: ListedEvaluation) -> str | None:
    """Whether the evaluation can be made again (`owed`), is `requested`, or neither."""
    if listed.superseded_by is not None or not needs_retry(listed.evaluation):
        return None
    return "requested" if listed.requested else "owed"


_VERDICTS = ("pass", "fail")
"""Labels that say no more than `passed`."""


def _feedback(joined: JoinedFeedback, *, text: bool) -> Json:
    """A piece of feedback; where texts are hidden, without the words and the name of who gave it."""
    entry = joined.entry
    piece: Json = {
        "id": entry.feedback_id, "name": entry.name if text else joined.series, "source": entry.source,
        "score": joined.score, "value": entry.value if text or not isinstance(entry.value, str) else None,
        "at": (entry.at or joined.received_at).timestamp(),
    }  # fmt: skip
    if text:
        piece |= {"label": entry.label, "comment": entry.comment, "author": entry.author}
    return piece


def _label(label: Label | None) -> Json | None:
    """A label, without its evaluation's attributes and audit: the evaluation shows them, or hides them."""
    return None if label is None else orjson.loads(label_to_json(replace(label, attributes={}, audit=None)))


def _all(source: Any) -> Sequence[Json] | None:
    return None if source is None else [asdict(each) for each in source()]
