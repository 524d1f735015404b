from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from evaluation_samples import failed, label, scored, skipped

from collector.errors import BadInput
from collector.page.label_queue import QueueVerdict
from collector.page.requests import Filters, LabelRequest, parse_body, parse_filters, select_evaluations
from collector.page.view import EvaluatorView, View
from evaluators.cases import Turn

NOW = 1_800_000_000.0


def moment(ago: float) -> dict[str, Any]:
    time = datetime.fromtimestamp(NOW - ago, UTC)
    return {"started_at": time, "ended_at": time}


@pytest.fixture
def view() -> View:
    view = View([EvaluatorView(monitor="helpdesk", evaluator="risk", threshold=0.5, lower_is_better=True)])
    view.add_turn(Turn(turn_id="f" * 32, conversation_id="visit-7", input="Is it OPEN?"), 10, 0, 0, 0.0)
    records = [
        scored(1, score=0.9, **moment(50)),
        scored(2, score=0.2, passed=False, **moment(40)),
        failed(3, **moment(30)),
        skipped(4, **moment(20)),
        scored(5, evaluator="risk", score=0.95, passed=False, explanation="a leak", **moment(10)),
        scored(6, score=0.1, monitor="other", **moment(1900)),
    ]
    for position, each in enumerate(records):
        view.add_evaluation(each, 0, position, NOW)
    view.add_label(label(evaluation_id=f"{1:032x}"))
    return view


def ids(view: View, *, text: bool = True, **filters: Any) -> list[int]:
    return [
        int(each.evaluation.evaluation_id, 16) for each in select_evaluations(view, Filters(**filters), NOW, text=text)
    ]


def test_the_worst_come_first_whichever_way_round_scores_are_then_failures_then_skips(view):
    assert ids(view) == [5, 6, 2, 1, 3, 4]
    assert ids(view, order="newest") == [6, 5, 4, 3, 2, 1]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"range": "5m"}, [5, 2, 1, 3, 4]),
        ({"monitor": "other"}, [6]),
        ({"evaluator": "risk"}, [5]),
        ({"outcome": "missed"}, [5, 2]),
        ({"outcome": "failed"}, [3]),
        ({"outcome": "labelled"}, [1]),
        ({"outcome": "unlabelled", "range": "5m"}, [5, 2, 3, 4]),
        ({"q": "LEAK"}, [5]),
        ({"q": "expected_output"}, [4]),
        ({"q": "visit-8"}, []),
    ],
)
def test_filters(view, filters, found):
    assert ids(view, **filters) == found


def test_what_is_hidden_is_not_searched(view):
    assert ids(view, q="is it open", text=True) != []
    assert ids(view, q="is it open", text=False) == []
    assert ids(view, q="leak", text=False) == []


def test_attributes_are_searched_by_name_and_value(view):
    known = {"model": "gpt-4.1", "service_version": "1.3", "tools": ["search", "look"], "tier": "gold-plus"}
    view.add_evaluation(scored(7, attributes=known, **moment(5)), 0, 99, NOW)
    for wanted in ("gpt-4.1", "model=GPT", "service_version=1.3", "tools=look", "gold-plus"):
        assert ids(view, q=wanted) == [7]
    assert ids(view, q="model=gpt", text=False) == [7]
    assert ids(view, q="gold-plus", text=False) == [], "the application's own are shown with texts only"


def test_an_address_with_other_things_in_it_is_read_and_a_wrong_value_refused():
    assert parse_filters({"range": "6h", "utm": "x"}).range == "6h"
    with pytest.raises(BadInput, match="range"):
        parse_filters({"range": "1000y"})


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b'{"opinion": "maybe"}', b'{"score": 1.5}', b'{"score": NaN}', b'{"note": "   "}', b'{"note": "x", "more": 1}'],
)  # fmt: skip
def test_what_says_nothing_is_no_label(body):
    with pytest.raises(BadInput):
        parse_body(LabelRequest, body)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"by": "ann", "verdict": "good", "score": 1}, "unknown key 'score'; choose from by, verdict, note"),
        ({"by": "ann", "verdikt": "good"}, "unknown key 'verdikt'; did you mean 'verdict'?"),
        ({"by": "ann"}, "verdict: Field required"),
        ({"by": " ", "verdict": "good"}, "by: must not be empty"),
        ({"by": "ann", "verdict": "fine"}, "verdict: must be 'good', 'bad', 'unsure' or 'undo'"),
        ([], "must be an object"),
    ],
)
def test_what_is_wrong_with_a_verdict_is_named(fields, said):
    """`by and verdict are needed` was the answer to a further key."""
    with pytest.raises(BadInput) as refused:
        parse_body(QueueVerdict, json.dumps(fields).encode())
    assert str(refused.value) == said


def test_a_label_needs_no_more_than_one_thing():
    assert parse_body(LabelRequest, b'{"opinion": "agree"}').opinion == "agree"
    assert parse_body(LabelRequest, b'{"score": 0}').score == 0.0
    assert parse_body(LabelRequest, b'{"note": " seen "}').note == "seen"
