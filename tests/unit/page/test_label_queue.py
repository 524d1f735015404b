"""The draw of evaluations for people: known probabilities, floors, and means that are right by them."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from random import Random
from statistics import fmean, stdev
from typing import Literal

import pytest
from evaluation_samples import START, label, scored

from collector.calibration.labels import HumanLabel
from collector.calibration.page_labels import LabelIndex
from collector.commands.calibrate.calibrate import mean_by_people
from collector.logs.log import StoredRecord
from collector.page.api import PageApi
from collector.page.label_queue import LabelQueue, LabelQueueSettings, QueueVerdict, draw, label_doubt, progress_json
from collector.page.requests import parse_filters
from collector.page.settings import PageSettings
from collector.page.sources import Sources
from collector.page.view import EvaluatorView, ListedEvaluation, View
from collector.receive.rejection import Rejected
from collector.records.json import label_to_json
from collector.statistics.correction import WeightedScore, weighted_mean
from collector.statistics.intervals import share_interval
from evaluators.results import Evaluation, Sampling

SETTINGS = LabelQueueSettings(random=0.05, doubtful=0.5, twice=0.3)


def of_id(number: int, score: float = 0.75, **details: float) -> Evaluation:
    judged, subject = scored(), replace(scored().subject, turn_id=f"t{number}")
    return replace(judged, evaluation_id=f"{number:032x}", subject=subject, score=score, details=details)


@pytest.mark.parametrize(
    ("score", "details", "doubtful"),
    [
        (0.9, {}, 0.0), (0.5, {}, 1.0), (0.6, {}, 0.5), (0.9, {"uncertainty": 0.25}, 0.5),
        (0.9, {"disagreement": 0.8}, 0.8), (0.9, {"uncertainty": math.nan}, 0.0), (0.9, {"uncertainty": 7.0}, 1.0),
    ],
)  # fmt: skip
def test_doubt(score: float, details: dict[str, float], doubtful: float) -> None:
    assert label_doubt(of_id(1, score, **details), 0.5) == pytest.approx(doubtful)


def test_the_draw_is_as_often_as_its_probability_says_and_never_rarer_than_the_random_share() -> None:
    for score, probability in ((0.9, 0.05), (0.5, 0.05 + 0.95 * 0.5)):
        draws = [draw(of_id(number, score), 0.5, SETTINGS) for number in range(20_000)]
        drawn = [each for each in draws if each is not None]
        assert {round(each.probability, 9) for each in drawn} == {round(probability, 9)}
        assert len(drawn) / len(draws) == pytest.approx(probability, abs=0.012)
        assert fmean(each.twice for each in drawn) == pytest.approx(0.3, abs=0.05)
    assert draw(replace(of_id(1), score=None, outcome="failed"), 0.5, LabelQueueSettings(random=1.0)) is None


def test_a_mean_over_the_queues_labels_is_that_of_all_and_its_interval_covers_it() -> None:
    """Weights 1 to 4, a judge that is wrong near the threshold, and a tenth of the queue not labelled."""
    chance, errors, covers = Random(7), list[float](), 0
    samples, size = 60, 1200
    settings = LabelQueueSettings(random=0.1, doubtful=0.5)
    for sample in range(samples):
        labelled, rest, truth, weights = list[HumanLabel](), list[WeightedScore](), 0.0, 0.0
        for number in range(size):
            judge = round(chance.random(), 3)
            weight = chance.choice((1.0, 2.0, 4.0))
            human = float(chance.random() < (0.3 if abs(judge - 0.5) < 0.2 else judge))
            truth, weights = truth + weight * human, weights + weight
            drawn = draw(of_id(sample * 1_000_000 + number, judge), 0.5, settings)
            if drawn is not None and chance.random() < 0.9:
                labelled.append(HumanLabel(judge, human, "all", weight, drawn.probability, name="e"))
            rest.append(WeightedScore(judge, weight))
        estimate = mean_by_people(labelled, rest)
        assert estimate is not None
        errors.append(estimate.mean - truth / weights)
        covers += estimate.interval[0] <= truth / weights <= estimate.interval[1]
    assert abs(fmean(errors)) < 2.5 * stdev(errors) / math.sqrt(samples)
    assert covers / samples >= 0.87, "95 % are expected; three standard errors of so few samples are 8 %"


def queue_of(number: int = 40) -> tuple[View, LabelQueue]:
    view = View([EvaluatorView(monitor="helpdesk", evaluator="answers_question", threshold=0.5)])
    for each in range(number):
        view.add_evaluation(of_id(each), 0, each, 1000.0)
    return view, LabelQueue(view, LabelQueueSettings(random=1.0, twice=0.5))


@pytest.mark.parametrize(("evaluator", "monitor"), [("nope", ""), ("", "nope")])
def test_an_unknown_name_is_refused_with_those_that_there_are(evaluator: str, monitor: str) -> None:
    """The answer was an empty queue."""
    view, queue = queue_of(4)
    api = PageApi(view, PageSettings(), Sources())
    assert api.queue_next(queue, "ann", "answers_question", "helpdesk")["item"]
    names = "no (evaluator|monitor) has the name 'nope'; the names are: (answers_question|helpdesk)$"
    with pytest.raises(Rejected, match=names) as refused:
        api.queue_next(queue, "ann", evaluator, monitor)
    assert refused.value.status == 404
    none = View([])
    assert (
        PageApi(none, PageSettings(), Sources()).queue_next(LabelQueue(none, SETTINGS), "ann", "", "")["item"] is None
    )


def test_what_was_rejudged_is_not_in_the_queue_of_the_page() -> None:
    """People labelled 161 rejudged answers, of which none counts in the mean by people that the page shows."""
    view, queue = queue_of(4)
    view.add_evaluation(replace(of_id(4), happened_at=START), 0, 4, 1000.0)
    assert len(view) == 5
    assert queue.next("ann")[1].total == 4
    with pytest.raises(Rejected, match="not in the queue"):
        queue.get(list(view)[-1])


def test_after_a_monitor_got_another_name_the_queue_has_its_scores_by_the_current_version_alone() -> None:
    """The versions before came back, and a good answer of an evaluator whose best score is 0 was labelled 1."""
    view, versions = (
        View([EvaluatorView(monitor="helpdesk", evaluator="answers_question", versions=("c",))]),
        "aab" * 10,
    )
    for number, version in enumerate(f"{versions}c"):
        view.add_evaluation(replace(of_id(number), evaluator_version=version), 0, number, 1000.0)
    queue = LabelQueue(view, LabelQueueSettings(random=1.0))
    assert queue.next("ann")[1].total == 1
    for now, total in (("c", 1), ("b", 10), ("d", 0)):
        used = EvaluatorView(
            monitor="bot", evaluator="answers_question", lower_is_better=True, asks="?", versions=(now,)
        )
        view.take_evaluators([used])
        item, progress = queue.next("ann")
        assert progress.total == total, now
        if item is not None:
            assert item.listed.evaluation.evaluator_version == now
            assert queue.label_of(item, QueueVerdict(by="ann", verdict="good"), label().given_at).score == 0.0
            assert PageApi(view, PageSettings(), Sources()).queue_next(queue, "ann", "", "")["item"]["asks"] == "?"
    view.take_evaluators([EvaluatorView(monitor="bot", evaluator="other")])
    assert queue.next("ann")[1].total == 0, "nothing uses the evaluator"


def test_the_worst_come_first_after_a_monitor_got_another_name() -> None:
    view = View([EvaluatorView(monitor="bot", evaluator="answers_question", lower_is_better=True, threshold=0.3)])
    for number, score in enumerate((0.1, 0.9, 0.5)):
        view.add_evaluation(replace(of_id(number), score=score), 0, number, 1000.0)
    api = PageApi(view, PageSettings(), Sources())
    assert [row["score"] for row in api.evaluations(parse_filters({}), 1000.0)["rows"]] == [0.9, 0.5, 0.1]
    assert api.evaluation(next(iter(view)))["threshold"] == 0.3


def test_the_progress_says_since_when_the_queue_has_answers() -> None:
    """The view forgot the oldest 20 of 30 evaluations: no label represents them."""
    view = View([EvaluatorView(monitor="helpdesk", evaluator="answers_question", threshold=0.5)], evaluations=10)
    for number in range(30):
        made = replace(of_id(number), ended_at=START + timedelta(minutes=number))
        view.add_evaluation(made, 0, number, made.ended_at.timestamp())
    _, progress = LabelQueue(view, LabelQueueSettings(random=1.0)).next("ann")
    assert (progress.total, progress.since) == (10, (START + timedelta(minutes=20)).timestamp())
    assert progress_json(progress)["since"] == progress.since


def test_two_people_take_turns_and_what_is_taken_back_comes_again() -> None:
    view, queue = queue_of()
    for person, own in (("ann", 40), ("ben", None), ("cy", 0)):
        number = 0
        while (item := queue.next(person)[0]) is not None:
            view.add_label(queue.label_of(item, QueueVerdict(by=person, verdict="good"), label().given_at))
            number += 1
        progress = queue.next(person)[1]
        assert own is None or number == own, person
        assert (progress.left, progress.mine) == (0, number)
    progress = queue.next("ann")[1]
    assert 10 < progress.pairs < 30
    assert progress.agreement is not None
    assert progress.agreement[0] == 1.0
    listed = next(iter(view))
    view.add_label(queue.label_of(queue.get(listed), QueueVerdict(by="ann", verdict="undo"), label().given_at))
    item, progress = queue.next("ann")
    assert item is not None
    assert item.listed is listed
    assert progress.left == 1


def test_an_answer_that_two_monitors_judge_is_read_once_by_a_person() -> None:
    """Ann was asked for the same answer twice: for `helpdesk`, and for `everything`, which judges it, too."""
    monitors = ("helpdesk", "everything")
    view = View([EvaluatorView(monitor=name, evaluator="answers_question", threshold=0.5) for name in monitors])
    for number in range(80):  # answers 0 to 39, by both
        judged = of_id(number)
        subject = replace(judged.subject, turn_id=f"t{number % 40}", conversation_id=f"c{number % 40}")
        view.add_evaluation(replace(judged, monitor=monitors[number // 40], subject=subject), 0, number, 1000.0)
    queue = LabelQueue(view, LabelQueueSettings(random=0.6, twice=0.5))
    queued = [each.evaluation for each in view if is_queued(queue, each)]
    assert 40 < len(queued) < 60, "each monitor draws by itself"
    answers = {judged.subject.turn_id for judged in queued}
    assert queue.next("ann")[1].total == len(answers) < len(queued)

    def answer(person: str, verdict: Literal["good", "undo"], listed: ListedEvaluation) -> None:
        item = queue.get(listed)
        given = QueueVerdict(by=person, verdict=verdict)
        for each in (item, *queue.get_others(item, given)):
            view.add_label(queue.label_of(each, given, label().given_at))

    seen = list[str | None]()
    while (item := queue.next("ann")[0]) is not None:
        answer("ann", "good", item.listed)
        seen.append(item.listed.evaluation.subject.turn_id)
    assert sorted(map(str, seen)) == sorted(map(str, answers)), "once for each answer"
    assert all("ann" in view.queue_labels(judged.evaluation_id) for judged in queued)
    progress = queue.next("ann")[1]
    assert (progress.labelled, progress.mine, progress.left) == (len(answers), len(answers), 0)
    both = next(judged for judged in queued if sum(judged.subject == other.subject for other in queued) == 2)
    answer("ann", "undo", next(each for each in view if each.evaluation is both))
    assert not any(view.queue_labels(each.evaluation_id) for each in queued if each.subject == both.subject)
    assert queue.next("ann")[1].left == 1
    while (item := queue.next("ben")[0]) is not None:
        answer("ben", "good", item.listed)
    assert 0 < queue.next("ben")[1].pairs < len(answers), "two people about one answer are one pair"


def is_queued(queue: LabelQueue, listed: ListedEvaluation) -> bool:
    try:
        return bool(queue.get(listed))
    except Rejected:
        return False


def test_a_label_that_somebody_picks_does_not_replace_the_drawn_one() -> None:
    index = LabelIndex()
    drawn = replace(label(), given_by="ann", score=1.0, label_probability=0.2, sampling=Sampling())
    picked = replace(drawn, score=0.0, label_probability=None, given_at=drawn.given_at.replace(year=2027))
    version = (drawn.evaluator, drawn.evaluator_version)
    for number, each in enumerate((drawn, picked)):
        index.add(StoredRecord(0, number, 0.0, b"", label_to_json(each)))
    assert [(each.human, each.probability) for each in index.labels(version)] == [(1.0, 0.2)]
    taken_back = replace(drawn, state="retracted", given_at=drawn.given_at.replace(year=2028))
    index.add(StoredRecord(0, 3, 0.0, b"", label_to_json(taken_back)))
    assert index.labels(version) == []


def test_interval_of_a_share() -> None:
    assert share_interval(0.8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert weighted_mean([WeightedScore(1.0, 1.0)]) == 1.0
