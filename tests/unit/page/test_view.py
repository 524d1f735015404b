from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from evaluation_samples import failed, label, scored, skipped

from collector.page.api import PageApi
from collector.page.label_queue import LabelQueue, LabelQueueSettings
from collector.page.requests import Filters, parse_filters
from collector.page.score_series import HistoryStretch, stretch_from_json, stretch_to_json
from collector.page.settings import PageSettings
from collector.page.sources import Sources
from collector.page.view import LABELS, EvaluatorView, View
from evaluators.cases import Turn
from evaluators.results import Sampling

NEW = datetime(2030, 1, 1, tzinfo=UTC)


def ids(view: View) -> list[int]:
    return [int(each.evaluation.evaluation_id, 16) for each in view]


def test_keeps_the_newest_and_knows_the_oldest_position_of_each_partition():
    view = View([], evaluations=3)
    for number in range(1, 7):
        view.add_evaluation(scored(number), number % 2, 100 + number, 1000.0)
    assert ids(view) == [4, 5, 6]
    for partition in (0, 1):
        view.note_saved(partition)
    assert (view.needed(0), view.needed(1), view.needed(2)) == (104, 105, None)


def test_the_same_evaluation_again_changes_nothing():
    view = View([])
    view.add_evaluation(scored(1), 0, 1, 1000.0)
    version = view.version
    view.add_evaluation(scored(1), 0, 2, 1001.0)
    assert (len(view), view.version) == (1, version)
    assert (
        view.score_series["helpdesk", "answers_question"]
        .columns("7d", scored(1).ended_at.timestamp())[-1][1]
        .within_column.scores
        == 1
    )


def test_what_is_too_old_goes_by_itself():
    view = View([], keep=60.0)
    view.add_evaluation(scored(1), 0, 1, 1000.0)
    view.add_evaluation(scored(2), 0, 2, 1050.0)
    view.expire(1061.0)
    assert ids(view) == [2]


def test_texts_go_with_the_last_evaluation_of_their_conversation():
    view = View([], evaluations=2)
    turn = Turn(turn_id="f" * 32, conversation_id="visit-7", input="hello")
    view.add_turn(turn, 100, 0, 1, 1.0)
    view.add_evaluation(scored(1), 0, 1, 1.0)
    view.add_evaluation(scored(2), 0, 2, 2.0)
    view.add_evaluation(scored(3), 0, 3, 3.0)
    assert view.turn_cache.turns("visit-7") == [turn]
    view.expire(1e9)
    assert (len(view), view.turn_cache.turns("visit-7")) == (0, [])


def test_outcomes_are_counted_from_the_start_on_by_reason():
    view = View([], started=NEW.timestamp())
    view.add_evaluation(scored(1), 0, 1, NEW.timestamp() - 1.0)
    for number, make in enumerate((scored, skipped, skipped, failed), start=2):  # the answers may be from before
        view.add_evaluation(make(number), 0, number, NEW.timestamp())
    outcomes = view.outcomes["helpdesk", "answers_question"]
    assert outcomes.scored == 1
    assert outcomes.others == {("skipped", "missing_field"): 2, ("failed", "judge_timeout"): 1}


def test_the_newest_label_of_an_evaluation_counts_whether_it_is_read_before_or_after_it():
    later, earlier = label(given_at=NEW, note="later"), label(note="earlier")
    for before in range(4):
        view = View([])
        for number, add in enumerate((later, earlier, label(evaluation_id="f" * 32))):
            if number == before:
                view.add_evaluation(scored(1), 0, 1, 1.0)
            view.add_label(add)
        view.add_evaluation(scored(1), 0, 1, 1.0)
        assert view.get(scored(1).evaluation_id).label == later


def test_only_so_many_labels_are_remembered():
    view = View([])
    for number in range(LABELS + 1):
        view.add_label(label(evaluation_id=f"{number:032x}"))
    for number in (0, 1):
        view.add_evaluation(scored(number), 0, number, 1.0)
    assert [each.label is None for each in view] == [True, False]


def test_a_partition_that_is_given_up_takes_its_evaluations_along():
    view = View([])
    for number in range(1, 5):
        view.add_evaluation(scored(number), number % 2, number, 1.0)
    view.forget(1)
    assert ids(view) == [2, 4]
    view.note_saved(1)
    assert view.needed(1) is None


def test_a_backfill_is_at_its_own_time_and_pushes_nothing_of_now_out_of_the_list():
    ended = scored(1).ended_at
    view = View([], evaluations=3, started=ended.timestamp())
    view.add_evaluation(scored(1), 0, 1, ended.timestamp())
    for number in range(2, 9):
        past = ended - timedelta(days=3)
        view.add_evaluation(scored(number, happened_at=past), 0, number, ended.timestamp())
    view.add_evaluation(scored(9, happened_at=ended - timedelta(hours=2)), 0, 9, ended.timestamp())
    assert ids(view) == [1, 9], "what is of today is listed"
    series = view.score_series["helpdesk", "answers_question"]
    scores = [column.within_column.scores for _, column in series.columns("7d", ended.timestamp()) if column]
    assert scores == [7, 1, 1]
    view.add_evaluation(scored(10, happened_at=ended + timedelta(seconds=1)), 0, 10, ended.timestamp())
    assert view.outcomes["helpdesk", "answers_question"].scored == 1, "of what was due since the start, as traffic is"


def test_the_curve_stays_with_the_verdict_of_the_time():
    ended = scored(1).ended_at
    view = View([])
    view.add_evaluation(scored(1), 0, 1, ended.timestamp())
    view.add_evaluation(
        scored(2, happened_at=ended, attributes={"replay_of": scored(1).evaluation_id}), 0, 2, ended.timestamp()
    )
    [column] = [
        each for _, each in view.score_series["helpdesk", "answers_question"].columns("7d", ended.timestamp()) if each
    ]
    assert column.within_column.scores == 1
    assert len(view) == 2


def changed_criterion() -> tuple[View, float]:
    """Scores of 0.2 by one version, one by the cheaper judge that took over, then scores of 0.8 by the next version."""
    start, key = NEW.timestamp(), {"monitor": "helpdesk", "evaluator": "answers_question"}
    view = View([EvaluatorView(**key, threshold=0.5, versions=("old", "old-cheap"))])
    for number in range(60):
        if number == 30:
            view.take_evaluators([EvaluatorView(**key, threshold=0.5, versions=("new", "new-cheap"))])
        version = ("old-cheap" if number == 10 else "old") if number < 30 else "new"
        ended = NEW + timedelta(minutes=number)
        subject = replace(scored().subject, conversation_id=f"c{number}")
        judged = scored(
            number, subject=subject, evaluator_version=version, score=0.2 if number < 30 else 0.8, ended_at=ended
        )
        view.add_evaluation(judged, 0, number, ended.timestamp())
    return view, start + 3600.0


def tracked(view: View, now: float, name: str = "1h") -> dict[str, Any]:
    filters = parse_filters({"range": name})
    [track] = PageApi(view, PageSettings(), Sources()).overview(filters, now)["tracks"]
    return track


def test_scores_of_two_versions_are_not_one_mean_and_the_change_is_marked():
    """The page showed 0.50, the mean of what two criteria say, and no mark."""
    view, now = changed_criterion()
    track = tracked(view, now)
    assert track["whole"]["mean"] == pytest.approx(0.8)
    assert track["whole"]["scores"] == 30
    assert track["changes"] == [NEW.timestamp() + 29 * 60.0]
    means = [point[1] for point in track["points"] if point[1] is not None]
    assert (means[0], means[-1]) == (pytest.approx(0.2), pytest.approx(0.8)), "the curve has both"


def test_what_the_new_version_says_of_the_past_is_in_its_mean_and_the_list_names_the_version():
    """After `rejudge --what all` the page left out the judged past: 7 of 10 scores, 0.571 instead of 0.55."""
    view, now = changed_criterion()
    for number in range(1, 11):
        at = NEW + timedelta(minutes=number)
        subject = replace(scored().subject, conversation_id=f"c{number}")
        again = {"happened_at": at, "attributes": {"replay_of": scored(number).evaluation_id}, "score": 0.4}
        judged = scored(100 + number, subject=subject, evaluator_version="new", **again)
        view.add_evaluation(judged, 0, 100 + number, now)
    whole = tracked(view, now)["whole"]
    assert (whole["scores"], whole["mean"]) == (40, pytest.approx(0.7)), "30 live ones of 0.8 and 10 of the past of 0.4"
    rows = PageApi(view, PageSettings(), Sources()).evaluations(Filters(range="1h", order="worst"), now)["rows"]
    assert {(row["version"], row["earlier"]) for row in rows} == {("old", True), ("old-cheap", True), ("new", False)}


def test_a_failure_that_the_new_version_has_made_good_is_not_made_again():
    """The page still offered to make it again, which gave the subject a second score."""
    ended = scored(1).ended_at
    view = View([], started=ended.timestamp())
    view.add_evaluation(failed(1), 0, 1, ended.timestamp())
    view.add_evaluation(scored(2), 0, 2, ended.timestamp())
    for number, replaced in ((3, failed(1)), (4, scored(2))):
        supersedes = (replaced.evaluation_id,)
        new = scored(number, evaluator_version="new", happened_at=ended, supersedes=supersedes)
        view.add_evaluation(new, 0, number, ended.timestamp())
    outcomes = view.outcomes["helpdesk", "answers_question"]
    assert (outcomes.scored, +outcomes.others) == (2, {}), "the two count as one"
    first, second, *_ = view
    assert (first.superseded_by, second.superseded_by) == (scored(3).evaluation_id, None)


def test_a_failure_that_was_made_again_twice_is_one_outcome():
    """The second `rejudge` made the score; "Where the traffic went" still had the failure."""
    ended = scored(1).ended_at
    view = View([], started=ended.timestamp())
    view.add_evaluation(failed(1), 0, 1, ended.timestamp())
    again = failed(2, happened_at=ended, supersedes=(failed(1).evaluation_id,))
    view.add_evaluation(again, 0, 2, ended.timestamp())
    supersedes = (again.evaluation_id, *again.supersedes)
    view.add_evaluation(scored(3, happened_at=ended, supersedes=supersedes), 0, 3, ended.timestamp())
    outcomes = view.outcomes["helpdesk", "answers_question"]
    assert (outcomes.scored, +outcomes.others) == (1, {})


def test_a_version_whose_scores_were_all_replaced_is_not_said_to_be_in_the_curve():
    """After `rejudge --what all` the page said that the curve shows the scores of the version before."""
    view, now = changed_criterion()
    for number in range(30):
        at = NEW + timedelta(minutes=number)
        again = scored(100 + number, evaluator_version="new", happened_at=at, score=0.8)
        view.add_evaluation(again, 0, 100 + number, now)
    track = tracked(view, now)
    assert track["changes"] == []
    assert {round(point[1], 6) for point in track["points"] if point[1] is not None} == {0.8}


def test_a_version_that_ended_in_the_step_in_which_the_next_began_is_named():
    """30 scores of the version before were in no curve and in no sentence, as the next one began in the same minute."""
    start = NEW.timestamp()
    view = View([EvaluatorView(monitor="helpdesk", evaluator="answers_question", versions=("new",))], started=start)
    for number in range(40):
        version, ended = "old" if number < 30 else "new", NEW + timedelta(seconds=number / 10)
        subject = replace(scored().subject, conversation_id=f"c{number}")
        judged = scored(number, subject=subject, evaluator_version=version, ended_at=ended)
        view.add_evaluation(judged, 0, number, start)
    track = tracked(view, start + 60.0)
    assert (track["whole"]["scores"], track["changes"]) == (10, [start + 2.9])


def test_a_restart_knows_the_version_of_what_was_stored():
    view, now = changed_criterion()
    stretch = view.unsaved(0, now, after=0.0)
    assert stretch is not None
    again = View([*view.evaluators.values()])
    again.restore(stretch_from_json(stretch_to_json(stretch)))
    track = tracked(again, now)
    assert (track["whole"]["mean"], track["whole"]["scores"]) == (pytest.approx(0.8), 30)
    assert len(track["changes"]) == 1


def test_a_mean_between_threshold_and_target_is_not_good():
    """A tile said "above its threshold" in green under the alert that the mean had left its target."""
    now = NEW.timestamp() + 60.0
    for target, state in ((None, "good"), (0.6, "good"), (0.8, "bad")):
        watched = EvaluatorView(monitor="helpdesk", evaluator="answers_question", threshold=0.6, target=target)
        view = View([watched])
        for number in range(200):
            subject = replace(scored().subject, conversation_id=f"c{number}")
            view.add_evaluation(scored(number, subject=subject, ended_at=NEW, score=0.7), 0, number, now)
        assert tracked(view, now)["state"] == state


def test_the_side_of_the_target_is_that_of_the_whole_range() -> None:
    """The badge said "near its target" by the last two minutes, beside "0.69 ± 0.04" and an alert below 0.8."""
    watched = EvaluatorView(monitor="helpdesk", evaluator="answers_question", target=0.8)
    view, now = View([watched]), NEW.timestamp() + 600.0
    for number in range(400):
        ended, mean = (NEW, 0.68) if number < 360 else (NEW + timedelta(seconds=590), 0.75)
        subject = replace(scored().subject, conversation_id=f"c{number}")
        score = mean + (0.25 if number % 2 else -0.25)
        view.add_evaluation(scored(number, subject=subject, ended_at=ended, score=score), 0, number, now)
    track = tracked(view, now, "15m")
    low, high = track["recent"]["interval"]
    assert low < 0.8 < high
    assert track["state"] == "bad"
    assert tracked(view, now + 300.0, "15m")["state"] == "silent", "nothing was scored in the last two minutes"


def test_a_conversation_that_continues_after_a_restart_is_no_new_one():
    """The minute's sums were stored between two turns of a conversation; the page said 62 conversations, of 61."""
    evaluator, now = EvaluatorView(monitor="helpdesk", evaluator="answers_question"), NEW.timestamp()
    turns = [
        scored(number, subject=replace(scored().subject, conversation_id=f"c{number // 2}"), ended_at=NEW, score=score)
        for number, score in enumerate([0.2, 0.4, 0.9, 0.8, 0.1, 0.3])
    ]
    whole, before, after = (View([evaluator]) for _ in range(3))
    for position, turn in enumerate(turns):
        whole.add_evaluation(turn, 0, position, now)
    for position, turn in enumerate(turns[:3]):
        before.add_evaluation(turn, 0, position, now)
    stretch = before.unsaved(0, now, after=0.0)
    assert stretch is not None
    after.restore(stretch_from_json(stretch_to_json(stretch)))
    for _ in range(2):  # a partition that is opened again is read again
        after.forget(0)
        for position, turn in enumerate(turns):
            after.add_evaluation(turn, 0, position, now)
    expected, restarted = tracked(whole, now)["whole"], tracked(after, now)["whole"]
    assert (
        (expected["scores"], expected["conversations"]) == (restarted["scores"], restarted["conversations"]) == (6, 3)
    )
    assert restarted["interval"] == pytest.approx(expected["interval"])


def test_answers_judged_by_the_version_before_are_handed_to_nobody():
    """A label of them was asked for under the new question, and counted by nothing."""
    view, _ = changed_criterion()
    queue = LabelQueue(view, LabelQueueSettings(random=1.0))
    first, progress = queue.next("ann")
    assert first is not None
    assert first.listed.evaluation.evaluator_version == "new"
    assert progress.total == 30


def test_failures_leave_bounds_of_the_mean_of_all():
    """A judge refused half of the bad answers: 0.77 was shown beside "26 failed", and the truth was 0.754."""
    view = View([EvaluatorView(monitor="helpdesk", evaluator="answers_question")])
    for number in range(327):
        ended = NEW + timedelta(seconds=number)
        made = failed if number >= 301 else scored
        changes = {} if number >= 301 else {"score": 0.77}
        subject = replace(scored().subject, conversation_id=f"c{number}")
        judged = made(number, subject=subject, ended_at=ended, sampling=Sampling(probability=0.5), **changes)
        view.add_evaluation(judged, 0, number, ended.timestamp())
    low, high = tracked(view, NEW.timestamp() + 400.0)["whole"]["bounds"]
    assert (round(low, 2), round(high, 2)) == (0.71, 0.79)
    stretch = view.unsaved(0, NEW.timestamp() + 400.0, after=0.0)
    assert stretch is not None
    again = View([*view.evaluators.values()])
    again.restore(stretch_from_json(stretch_to_json(stretch)))
    assert tracked(again, NEW.timestamp() + 400.0)["whole"]["bounds"] == pytest.approx([low, high])


def test_the_mean_by_audits_is_of_live_scores() -> None:
    """After `rejudge` of an audited evaluator the page mixed the past's audits into the mean of now."""

    def shown(rejudged: int) -> list[float]:
        view = View([EvaluatorView(monitor="helpdesk", evaluator="answers_question", audit_version="a")])
        for number in range(200 + rejudged):
            subject = replace(scored().subject, conversation_id=f"c{number}")
            noted: dict[str, Any] = {"probability": 0.5, "version": "a", "score": 1.0 if number < 200 else 0.0}
            if number % 10 == 9 and number >= 200:
                noted |= {"reason": "refused"}
            details = {"audit": noted} if number % 2 else {}
            past = {"score": 0.1, "happened_at": NEW} if number >= 200 else {"score": 0.8}
            judged = scored(number, subject=subject, ended_at=NEW, details=details, **past)
            view.add_evaluation(judged, 0, number, NEW.timestamp())
        whole = tracked(view, NEW.timestamp() + 60.0)["whole"]
        assert whole["rejudged"] == pytest.approx(rejudged / (200 + rejudged))
        mean = whole["corrected"]
        return [mean["mean"], *mean["interval"], mean["audits"], *(mean["bounds"] or ())]

    assert shown(rejudged=200) == pytest.approx(shown(rejudged=0))


@pytest.mark.parametrize("happened_at", [None, NEW])
def test_the_bounds_of_the_mean_by_audits_are_those_of_live_traffic(happened_at: datetime | None) -> None:
    """A tenth of the live cases failed; 300 rejudged ones, of which half failed or were not shown whole, hid that."""

    def bounds(count: int) -> tuple[list[float], list[float]]:
        view = View([EvaluatorView(monitor="helpdesk", evaluator="answers_question", audit_version="a")])
        for number in range(count):
            details: dict[str, Any] = (
                {"audit": {"probability": 0.5, "version": "a", "score": 0.8}} if number % 2 else {}
            )
            details |= {"unshown": 0.5} if number >= 300 and number % 4 == 3 else {}
            past: dict[str, Any] = {"happened_at": happened_at} if number >= 300 else {}
            is_failed = number % 10 == 0 or (number >= 300 and number % 4 == 0)
            about = past | {"subject": replace(scored().subject, conversation_id=f"c{number}"), "ended_at": NEW}
            judged = failed(number, **about) if is_failed else scored(number, score=0.8, details=details, **about)
            view.add_evaluation(judged, 0, number, NEW.timestamp())
        stretch = view.unsaved(0, NEW.timestamp() + 400.0, after=0.0)
        assert stretch is not None
        again = View([*view.evaluators.values()])
        again.restore(stretch_from_json(stretch_to_json(stretch)))
        now, restored = (
            tracked(each, NEW.timestamp() + 400.0)["whole"]["corrected"]["bounds"] for each in (view, again)
        )
        return now, restored

    live, mixed = bounds(300), bounds(600)
    assert live[0][1] - live[0][0] == pytest.approx(0.1)
    assert mixed[0] == pytest.approx(mixed[1])
    assert (mixed[0] == pytest.approx(live[0])) is (happened_at is not None)


def test_refused_audits_leave_bounds_of_the_mean_by_audits() -> None:
    """A dear judge that refuses a tenth of what was drawn for it, perhaps the bad ones."""
    view = View([EvaluatorView(monitor="helpdesk", evaluator="answers_question", audit_version="a")])
    for number in range(600):
        ended = NEW + timedelta(seconds=number / 10)
        noted: dict[str, Any] = {"probability": 0.5, "version": "a"}
        noted |= {"reason": "refused"} if number % 20 == 0 else {"score": float(number % 5 > 0)}
        details = {"audit": noted} if number % 2 == 0 else {}
        subject = replace(scored().subject, conversation_id=f"c{number}")
        judged = scored(number, subject=subject, ended_at=ended, score=0.8, details=details)
        view.add_evaluation(judged, 0, number, ended.timestamp())
    stretch = view.unsaved(0, NEW.timestamp() + 400.0, after=0.0)
    assert stretch is not None
    again = View([*view.evaluators.values()])
    again.restore(stretch_from_json(stretch_to_json(stretch)))
    for shown in (view, again):
        mean = tracked(shown, NEW.timestamp() + 400.0)["whole"]["corrected"]
        low, high = mean["bounds"]
        assert (low, high - low) == (pytest.approx(0.9 * mean["mean"]), pytest.approx(0.1))


def test_what_judges_were_not_shown_leaves_the_same_bounds():
    view = View([EvaluatorView(monitor="helpdesk", evaluator="answers_question")])
    for number in range(100):
        ended = NEW + timedelta(seconds=number)
        subject = replace(scored().subject, conversation_id=f"c{number}")
        details = {"unshown": 0.5} if number < 40 else {}
        judged = scored(number, subject=subject, ended_at=ended, score=0.5, sampling=Sampling(), details=details)
        view.add_evaluation(judged, 0, number, ended.timestamp())
    low, high = tracked(view, NEW.timestamp() + 400.0)["whole"]["bounds"]
    assert (round(low, 2), round(high, 2)) == (0.4, 0.6), "of 40 % one half is not decided"
    stretch = view.unsaved(0, NEW.timestamp() + 400.0, after=0.0)
    assert stretch is not None
    again = View([*view.evaluators.values()])
    again.restore(stretch_from_json(stretch_to_json(stretch)))
    assert tracked(again, NEW.timestamp() + 400.0)["whole"]["bounds"] == pytest.approx([low, high])


def test_verdicts_are_by_the_present_threshold_and_the_share_begins_again() -> None:
    """After 0.9 → 0.2 the page showed the passes by 0.9 beside the threshold 0.2, and mixed later ones in."""
    key, time, minute = {"monitor": "helpdesk", "evaluator": "answers_question"}, NEW.timestamp(), timedelta(minutes=1)
    view = View([EvaluatorView(**key, threshold=0.9)])

    def add(to: View, number: int, **changes: Any) -> None:
        subject = replace(scored().subject, conversation_id=f"c{number}")
        judged = scored(number, subject=subject, ended_at=NEW + number * minute, label="fail", passed=False, **changes)
        to.add_evaluation(judged, 0, number, time + number * 60.0)

    for number, score in enumerate((0.95, 0.5, 0.1, 0.1)):
        add(view, number, score=score)
    assert tracked(view, time + 600.0)["whole"]["passed"] == 0.25
    earlier = view.unsaved(0, time + 600.0, after=0.0)
    view.note_saved(0)
    view.since = lambda: time + 200.0
    view.take_evaluators([EvaluatorView(**key, threshold=0.2)])
    track = tracked(view, time + 600.0)
    assert (track["whole"]["passed"], track["passed_since"], track["whole"]["scores"]) == (None, None, 4)
    rows = PageApi(view, PageSettings(), Sources()).evaluations(Filters(range="1h", order="newest"), time + 600.0)
    assert [row["passed"] for row in rows["rows"]] == [False, False, True, True]
    assert [each.evaluation.label for each in view] == ["pass", "pass", "fail", "fail"]
    add(view, 5, score=0.3)  # it was in flight
    add(view, 6, score=0.1)
    add(view, 7, score=0.9, happened_at=NEW)  # rejudged: it is of traffic from before the change
    track = tracked(view, time + 600.0)
    assert (track["whole"]["passed"], track["passed_since"], track["whole"]["scores"]) == (0.5, time + 200.0, 7)
    later = view.unsaved(0, time + 600.0, after=0.0)
    assert earlier is not None
    assert later is not None
    for threshold, share in ((0.2, 0.5), (0.9, None), (0.5, None)):
        again = View([EvaluatorView(**key, threshold=threshold)])
        again.since = view.since
        for stretch in (earlier, later):
            again.restore(stretch_from_json(stretch_to_json(stretch)))
        track = tracked(again, time + 600.0)
        assert (track["whole"]["passed"], track["whole"]["scores"]) == (share, 7)
        assert track["passed_since"] == (time + 200.0 if threshold == 0.2 else None)  # 0.9 has been put back


def test_verdicts_by_a_new_threshold_are_since_the_change() -> None:
    """Each monitor said "since" the last score before the change, and after a restart another time."""
    time = NEW.timestamp()
    uses = {
        threshold: [
            EvaluatorView(monitor=monitor, evaluator="answers_question", threshold=threshold)
            for monitor in ("helpdesk", "shop")
        ]
        for threshold in (0.6, 0.7)
    }
    view = View(uses[0.6])
    for number, (monitor, seconds) in enumerate((("helpdesk", 0), ("shop", 40), ("helpdesk", 50))):
        if number == 2:
            view.since = lambda: time + 45.0
            view.take_evaluators(uses[0.7])
        ended = NEW + timedelta(seconds=seconds)
        view.add_evaluation(scored(number, monitor=monitor, ended_at=ended), 0, number, ended.timestamp())
    stretch, again = view.unsaved(0, time + 600.0, after=0.0), View(uses[0.7])
    assert stretch is not None
    again.restore(stretch_from_json(stretch_to_json(stretch)))
    filters = parse_filters({"range": "1h"})
    for each in (view, again):
        tracks = PageApi(each, PageSettings(), Sources()).overview(filters, time + 600.0)["tracks"]
        assert {track["monitor"]: track["passed_since"] for track in tracks} == {"helpdesk": time + 45.0, "shop": None}


@pytest.mark.parametrize(("is_live", "apart", "since"), [(True, 60.0, 119.0), (False, 60.0, 119.0), (True, 6.0, 11.0)])
@pytest.mark.parametrize("order", ["as written", "by partition"])
def test_the_share_of_passes_begins_again_after_a_threshold_that_is_put_back(
    order: str, apart: float, since: float, *, is_live: bool
) -> None:
    """After 0.6 → 0.7 → 0.6 and a restart, the page counted the passes from before 0.7 as those since its end."""
    of, time = {"monitor": "helpdesk", "evaluator": "answers_question"}, NEW.timestamp()
    uses = {threshold: [EvaluatorView(**of, threshold=threshold)] for threshold in (0.6, 0.7)}
    stored: list[HistoryStretch] = []
    view = View(uses[0.6])
    for step, threshold in enumerate((0.6, 0.7, 0.6)):
        taken = partial(float, time + step * apart - 1.0)
        if is_live:
            view.since = taken
            view.take_evaluators(uses[threshold])
        elif step:
            view = View(uses[threshold])
            view.since = taken
            for stretch in stored:
                view.restore(stretch)
        for partition in (0, 1):
            for number in (0, 1):
                at = NEW + timedelta(seconds=step * apart + 2 * number + partition)
                subject = replace(scored().subject, conversation_id=f"{step}{partition}{number}")
                score = 0.65 if step < 2 or number else 0.5  # half pass at last
                judged = scored(100 * step + 10 * partition + number, subject=subject, ended_at=at, score=score)
                view.add_evaluation(judged, partition, 2 * step + number, at.timestamp())
            stretch = view.unsaved(partition, time + 600.0, after=0.0)
            assert stretch is not None
            view.note_saved(partition)
            stored.append(stretch_from_json(stretch_to_json(stretch)))
    before = tracked(view, time + 600.0)
    again = View(uses[0.6])
    again.since = view.since
    orders = {"as written": stored, "by partition": stored[1::2] + stored[::2]}
    for stretch in orders[order]:
        again.restore(stretch)
    for track in (before, tracked(again, time + 600.0)):
        assert (track["whole"]["passed"], track["passed_since"]) == (0.5, time + since)
    others = View(uses[0.7])
    for stretch in orders[order]:
        others.restore(stretch)
    assert tracked(others, time + 600.0)["whole"]["passed"] is None


def test_the_share_of_passes_is_not_said_to_begin_where_nothing_changed() -> None:
    view, now = changed_criterion()
    assert tracked(view, now)["passed_since"] is None
    view = View([EvaluatorView(monitor="helpdesk", evaluator="answers_question", by_label=True)])
    for number, passed in enumerate((None, True)):  # the first label has no rule for passing
        ended = NEW + timedelta(minutes=number)
        view.add_evaluation(scored(number, ended_at=ended, passed=passed, label="own"), 0, number, ended.timestamp())
    track = tracked(view, NEW.timestamp() + 600.0)
    assert (track["whole"]["passed"], track["passed_since"]) == (1.0, None)
