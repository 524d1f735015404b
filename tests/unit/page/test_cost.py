"""The cost that the page shows: of all versions of an evaluator, and never too low without saying so."""

from datetime import timedelta

from evaluation_samples import scored

from collector.page.api import _work
from collector.page.view import View

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
