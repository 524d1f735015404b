"""What the page shows of people's labels: the mean by them, why there is none, and the agreement by segment."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import orjson
import pytest
from evaluation_samples import START, label, scored

from collector.page.api import PageApi
from collector.page.providers import logged_weights
from collector.page.requests import Filters
from collector.page.score_series import stretch_from_json, stretch_to_json
from collector.page.settings import PageSettings
from collector.page.sources import PeopleView, Sources
from collector.page.view import EvaluatorView, View
from collector.records.audits import AuditScore
from collector.statistics.audited_sums import AuditedSums, totals_of
from collector.statistics.confusion import Bounded, Confusion, VerdictAgreement
from evaluators.results import Sampling
from evaluators.testing import a_turn

NONE = Bounded(math.nan, math.nan, math.nan)
KEY = (scored().monitor, scored().evaluator)


def labels_of(number: int) -> AuditedSums:
    """Labels of a judge that is too high by 0.25 for each."""
    totals = [totals_of(1.0, 0.75, AuditScore(float(each % 2), 0.5))[:3] for each in range(number)]
    return AuditedSums.of([[*each, 0.0, 0.0] for each in totals])


def track(people: PeopleView, *, rejudged: int = 0) -> dict[str, Any]:
    view = View([EvaluatorView(monitor=KEY[0], evaluator=KEY[1], threshold=0.5)])
    for number in range(400 + rejudged):
        subject = replace(scored().subject, conversation_id=str(number))
        past = {"score": 0.05, "happened_at": START} if number >= 400 else {"score": 0.75}
        view.add_evaluation(scored(number, subject=subject, **past), 0, number, START.timestamp())
    again = View([*view.evaluators.values()])
    stretch = view.unsaved(0, START.timestamp() + 60.0, after=0.0)
    assert stretch is not None
    again.restore(stretch_from_json(stretch_to_json(stretch)))
    shown, restarted = (overview_of(each, people) for each in (view, again))
    assert restarted["people"].get("mean") == pytest.approx(shown["people"].get("mean"))
    assert restarted["whole"]["live"] == pytest.approx(shown["whole"]["live"])
    return shown


def overview_of(view: View, people: PeopleView) -> dict[str, Any]:
    api = PageApi(view, PageSettings(), Sources(people=lambda: {KEY: people}))
    overview = orjson.loads(orjson.dumps(api.overview(Filters(), scored().time.timestamp() + 60.0)))
    (shown,) = overview["tracks"]
    return shown


def test_the_mean_by_people_is_of_live_scores_as_their_labels_and_the_metric_are() -> None:
    """After `rejudge --what all` the page said 0.15, and `evalstream:score_mean` of the same name 0.5."""
    people = PeopleView(withheld="", sums=labels_of(60), agreements={})
    alone, shown = track(people), track(people, rejudged=400)
    assert shown["people"]["mean"] == pytest.approx(alone["people"]["mean"])
    assert (alone["whole"]["mean"], alone["whole"]["live"], alone["whole"]["rejudged"]) == (0.75, 0.75, 0.0)
    whole = shown["whole"]
    assert (whole["mean"], whole["live"], whole["rejudged"]) == (pytest.approx(0.4), pytest.approx(0.75), 0.5)


def test_the_mean_by_people_and_the_agreement() -> None:
    paid = VerdictAgreement(12.0, Bounded(0.9, 0.7, 1.0), NONE, NONE, Confusion({("good", "good"): 12.0}))
    shown = track(PeopleView(withheld="", sums=labels_of(60), agreements={"paid": paid}, biases=("Biased: …",)))[
        "people"
    ]
    assert shown["biases"] == ["Biased: …"]
    assert shown["mean"] == pytest.approx(0.5, abs=0.01)
    assert shown["interval"][1] - shown["interval"][0] > 0.12
    assert shown["labels"] == pytest.approx(60)
    (segment,) = shown["agreements"]
    assert segment.pop("verdicts")["accuracy"] == 1.0
    assert segment == {"segment": "paid", "labels": 12.0, "share": [0.9, 0.7, 1.0], "kappa": None, "youden_j": None}


def test_the_verdicts_by_people() -> None:
    verdicts = Confusion({("good", "good"): 6.0, ("bad", "good"): 2.0, ("bad", "bad"): 4.0})
    whole = VerdictAgreement(12.0, NONE, NONE, NONE, verdicts)
    shown = track(PeopleView(withheld="few", sums=labels_of(12), agreements={"": whole}))["people"]["agreements"][0][
        "verdicts"
    ]
    assert shown["accuracy"] == pytest.approx(10 / 12)
    assert shown["labels"]["bad"] == {"precision": 1.0, "recall": pytest.approx(4 / 6), "f1": pytest.approx(0.8)}


def test_a_classifier_by_the_labels_that_references_expect() -> None:
    watched = EvaluatorView(monitor=KEY[0], evaluator=KEY[1], labels=dict.fromkeys(["refund", "other", "delivery"]))
    view = View([watched])
    pairs = [
        ("refund", "refund"),
        ("refund", "other"),
        ("other", "other"),
        ("I want it back", "other"),
        (None, "other"),
    ]
    for number, (expected, chosen) in enumerate(pairs):
        subject = replace(scored().subject, conversation_id=str(number), turn_id=f"t{number}")
        view.add_evaluation(scored(number, subject=subject, label=chosen), 0, number, START.timestamp())
        turn = a_turn("q", "a", turn_id=f"t{number}", conversation_id=str(number), expected_output=expected)
        view.add_turn(turn, 100, 0, number, float(number))
    api = PageApi(view, PageSettings(), Sources())
    (shown,) = orjson.loads(orjson.dumps(api.overview(Filters(), scored().time.timestamp() + 60.0)))["tracks"]
    assert shown["classified"]["accuracy"] == pytest.approx(2 / 3)
    assert shown["classified"]["labels"]["refund"] == {"precision": 1.0, "recall": 0.5, "f1": pytest.approx(2 / 3)}
    assert {"expected": "refund", "chosen": "other", "count": 1} in shown["classified"]["confusion"]


def test_labels_correct_the_judges_mean_until_enough_are_of_audited_answers() -> None:
    """With a new `audit`, the mean by people was gone until then."""
    view = View([EvaluatorView(monitor=KEY[0], evaluator=KEY[1], threshold=0.5, audit_version="dear")])
    for number in range(400):
        subject = replace(scored().subject, conversation_id=str(number))
        audit = {"audit": {"score": float(number % 4 > 0), "probability": 0.5, "version": "dear"}} if number % 2 else {}
        judged = scored(number, subject=subject, score=0.75, details=audit)
        view.add_evaluation(judged, 0, number, START.timestamp())
    shown = overview_of(view, PeopleView(withheld="", sums=labels_of(60), agreements={}))
    assert shown["whole"]["corrected"]["mean"] is not None
    assert (
        shown["people"]["mean"] == track(PeopleView(withheld="", sums=labels_of(60), agreements={}))["people"]["mean"]
    )


@pytest.mark.parametrize("why", ["few", "undecided", "weak", "drift"])
def test_a_mean_that_is_withheld_is_not_there_and_says_why(why: str) -> None:
    shown = track(PeopleView(withheld=why, sums=labels_of(60), agreements={}))["people"]
    assert "mean" not in shown
    assert (shown["withheld"], shown["labels"]) == (why, pytest.approx(60))


def test_a_mean_without_what_labels_correct_is_withheld_too() -> None:
    """Its card blamed the audits, of an evaluator that has none, if the page had no live score."""
    enough = PeopleView(withheld="", sums=labels_of(60), agreements={})
    view = View([EvaluatorView(monitor=KEY[0], evaluator=KEY[1], threshold=0.5)])
    view.add_evaluation(scored(happened_at=START), 0, 1, START.timestamp())
    assert overview_of(view, enough)["people"]["withheld"] == "scores"
    assert track(replace(enough, correct_audits=True))["people"]["withheld"] == "audits"


def test_a_label_on_the_page_has_no_attributes_of_its_evaluation() -> None:
    view = View([])
    view.add_evaluation(scored(1), 0, 1, START.timestamp())
    view.add_label(replace(label(), evaluation_id=scored(1).evaluation_id, attributes={"customer": "Ada"}))
    listed = view.get(scored(1).evaluation_id)
    assert listed is not None
    assert listed.label is not None
    shown = PageApi(view, PageSettings(show_text=False), Sources()).evaluation(listed)
    assert "Ada" not in str(shown["label"])


def test_the_weight_of_the_logs_scores_is_that_of_all_versions_without_rejudged_ones() -> None:
    view = View([EvaluatorView(monitor=KEY[0], evaluator=KEY[1], versions=("new",))])
    past = {"happened_at": START}
    for number, (version, others) in enumerate([("old", {}), ("new", {}), ("new", {}), ("new", past)]):
        subject = replace(scored().subject, conversation_id=str(number))
        of = scored(number, subject=subject, evaluator_version=version, **others)
        view.add_evaluation(replace(of, sampling=Sampling(probability=0.5)), 0, number, START.timestamp())
    assert logged_weights(view, START.timestamp()) == {KEY: pytest.approx(3 * 2.0)}
    assert logged_weights(view, START.timestamp() + 8 * 86_400.0) == {KEY: 0}
