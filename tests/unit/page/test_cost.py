"""The cost that the page shows: of all versions of an evaluator, and never too low without saying so."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from evaluation_samples import failed, scored, skipped

from collector.evaluate.budget.windows import Budget
from collector.evaluate.plan import Monitor, Plan
from collector.page.api import _with_earlier, _work
from collector.page.providers import usage_from_view
from collector.page.score_series import stretch_from_json, stretch_to_json
from collector.page.view import EvaluatorView, View
from evaluators.results import Evaluation

KEY = ("helpdesk", "answers_question")
NOW = scored().ended_at


def work(*evaluations: tuple[str, float, float | None], free: bool = False) -> dict[str, object]:
    """Of evaluations by version, seconds ago, and cost."""
    view = View([])
    for number, (version, ago, cost) in enumerate(evaluations, 1):
        ended = NOW - timedelta(seconds=ago)
        made = scored(number, evaluator_version=version, cost_usd=cost, started_at=ended, ended_at=ended)
        view.add_evaluation(made, 0, number, ended.timestamp())
    versions = [view.score_series[KEY], *view.earlier_series(KEY)]
    return dict(_work(versions, "1h", NOW.timestamp(), free=free))  # type: ignore[arg-type]


def test_a_replaced_version_was_paid_for_too() -> None:
    calls = work(("new", 10, 0.5))["calls"]
    both = work(("old", 1200, 0.25), ("new", 10, 0.5))
    assert (both["calls"], both["cost_usd"], both["partly_priced"]) == (2 * calls, 0.75, False)  # type: ignore[operator]


def test_calls_from_before_a_price_was_set_make_the_cost_a_lower_bound() -> None:
    assert (before := work(("v", 1200, None)))["cost_usd"] is None, before
    after = work(("v", 1200, None), ("v", 10, 0.5))
    assert (after["cost_usd"], after["partly_priced"]) == (0.5, True)


def test_a_price_of_0_is_no_unknown_cost() -> None:
    assert work(("v", 10, 0.0), free=True)["cost_usd"] == 0.0


def rejudged_now() -> View:
    """A live evaluation of two hours ago for 0.25 dollars, judged again now for 0.5 dollars by the next version."""
    ended, view = NOW - timedelta(hours=2), View([EvaluatorView(monitor=KEY[0], evaluator=KEY[1], versions=("new",))])
    live = scored(1, evaluator_version="old", cost_usd=0.25, started_at=ended, ended_at=ended)
    view.add_evaluation(live, 0, 1, ended.timestamp())
    again = scored(2, evaluator_version="new", cost_usd=0.5, ended_at=NOW, happened_at=ended)
    view.add_evaluation(again, 0, 2, NOW.timestamp())
    return view


def restored(view: View) -> View:
    again, stretch = View([*view.evaluators.values()]), view.unsaved(0, NOW.timestamp(), after=0.0)
    assert stretch is not None
    again.restore(stretch_from_json(stretch_to_json(stretch)))
    return again


@pytest.mark.parametrize("restarts", [False, True])
def test_what_rejudging_costs_is_spent_when_it_is_done_and_by_no_budget(restarts: bool) -> None:
    view = restored(rejudged_now()) if restarts else rejudged_now()
    versions = [view.score_series[KEY], *view.earlier_series(KEY)]
    assert _work(versions, "1h", NOW.timestamp())["cost_usd"] == 0.5, "it was shown at the time of the turn"
    assert _work(versions, "6h", NOW.timestamp())["cost_usd"] == 0.75
    plan = Plan((Monitor(KEY[0], (), {}, budget=Budget(usd_per_hour=1.0, usd_per_day=10.0)),))
    assert [usage.spent_usd for usage in usage_from_view(plan, view, NOW.timestamp())] == [0.0, 0.25]


@pytest.mark.parametrize("restarts", [False, True])
def test_the_newest_time_is_of_traffic_if_the_newest_score_is_rejudged_however_many_others_are(restarts: bool) -> None:
    made, long_ago = NOW - timedelta(minutes=10), NOW - timedelta(hours=2)
    for live, subject, is_rejudged in ((made, long_ago, False), (long_ago, made, True)):
        view = View([])
        view.add_evaluation(scored(1, ended_at=live), 0, 1, NOW.timestamp())
        view.add_evaluation(scored(2, ended_at=NOW, happened_at=subject), 0, 2, NOW.timestamp())
        series = (restored(view) if restarts else view).score_series[KEY]
        assert series.newest == pytest.approx(made.timestamp(), abs=60.0)
        assert series.newest_is_rejudged == is_rejudged


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    ("made", "is_rejudged"),
    [
        ((skipped(1, happened_at=NOW - timedelta(hours=2)),), True),
        ((scored(1, happened_at=NOW - timedelta(hours=2)), failed(2, ended_at=NOW - timedelta(hours=2))), False),
        ((skipped(1, ended_at=NOW - timedelta(hours=2)),), False),
        ((failed(1, happened_at=NOW - timedelta(hours=2)),), True),
    ],
    ids=["a rejudged skip", "a live failure beside", "a live skip", "a rejudged failure"],
)
def test_a_restart_knows_whether_the_newest_minute_is_rejudged_by_what_has_no_score(
    restarts: bool, made: Sequence[Evaluation], is_rejudged: bool
) -> None:
    """A skip without loss has no weight, and a failure beside a score had no say."""
    view = View([])
    for number, evaluation in enumerate(made, 1):
        view.add_evaluation(evaluation, 0, number, NOW.timestamp())
    series = (restored(view) if restarts else view).score_series[KEY]
    assert series.newest_is_rejudged == is_rejudged


@pytest.mark.parametrize("restarts", [False, True])
def test_a_time_in_which_only_money_was_spent_is_no_score_of_then(restarts: bool) -> None:
    view = restored(rejudged_now()) if restarts else rejudged_now()
    series, [old] = view.score_series[KEY], view.earlier_series(KEY)
    assert series.newest == pytest.approx((NOW - timedelta(hours=2)).timestamp(), abs=60.0)
    assert series.newest_is_rejudged
    assert not old.newest_is_rejudged
    live = scored(3, evaluator_version="old", cost_usd=0.25, ended_at=NOW)
    old.add(live)
    columns, changes = _with_earlier(series.columns("6h", NOW.timestamp()), [old], "6h", NOW.timestamp())
    newest = columns[-1][1]
    assert newest is not None
    assert newest.across_columns.scores == 1, "the curve has the old version's score, not the new one's cost"
    assert len(changes) == 1


def test_an_evaluation_made_again_of_the_same_version_was_paid_for_too() -> None:
    """Its score is left out, as the first one's counts; its cost was left out, too."""
    view, first = View([]), scored(1, cost_usd=0.25)
    view.add_evaluation(first, 0, 1, NOW.timestamp())
    again = scored(2, cost_usd=0.5, happened_at=NOW, attributes={"replay_of": first.evaluation_id})
    view.add_evaluation(again, 0, 2, NOW.timestamp())
    assert _work([view.score_series[KEY]], "1h", NOW.timestamp())["cost_usd"] == 0.75
