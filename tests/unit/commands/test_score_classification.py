"""Precision, recall, F1 and the confusion matrix of a classifier, over a set with expected labels."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from collector.commands.score.score import left_out_text
from collector.statistics.confusion import Confusion, confusions


def test_figures_of_a_published_example() -> None:
    """That of scikit-learn's documentation of macro averages: precision .22, recall .33, F1 .26."""
    pairs = list(zip("abcabc", "acbaab", strict=True))
    confusion = Confusion({pair: pairs.count(pair) for pair in set(pairs)})
    figures = confusion.as_json()
    labels = figures["labels"]
    assert isinstance(labels, dict)
    means = [sum(labels[label][name] for label in "abc") / 3 for name in ("precision", "recall", "f1")]
    assert means == pytest.approx([0.222, 0.333, 0.267], abs=0.001)
    assert (figures["accuracy"], figures["macro_f1"]) == (pytest.approx(1 / 3), pytest.approx(0.267, abs=0.001))


def test_a_label_that_is_never_chosen_has_no_precision() -> None:
    figures = Confusion({("a", "b"): 2}).as_json()
    assert figures["labels"] == {
        "a": {"precision": None, "recall": 0.0, "f1": 0.0},
        "b": {"precision": 0.0, "recall": None, "f1": 0.0},
    }


def test_only_cases_with_an_expected_label_of_the_evaluator_count() -> None:
    def chosen(turn_id: str, label: str | None, evaluator: str = "intent") -> Any:
        return SimpleNamespace(evaluator=evaluator, label=label, subject=SimpleNamespace(turn_id=turn_id))

    evaluations = [
        chosen("1", "refund"),
        chosen("2", "other"),
        chosen("3", "other"),
        chosen("4", None),
        chosen("1", "pass", "x"),
    ]
    expected = {"1": " refund\n", "2": "refund", "3": "a whole answer", "4": "refund"}
    [(name, confusion)] = confusions(evaluations, {"intent": frozenset({"refund", "other"})}, expected)
    assert (name, confusion.counts) == ("intent", {("refund", "refund"): 1, ("refund", "other"): 1})
    assert (confusion.not_labels, confusion.as_json()["left_out"]) == ({"a whole answer": 1}, 1)


def test_expected_outputs_that_are_no_label_are_named() -> None:
    """Two typos of three cases left "accuracy 1.000", without a word."""
    labels, some = frozenset({"billing", "returns"}), {("billing", "billing"): 1}
    assert left_out_text("topic", Confusion(some), labels) == ""
    assert left_out_text("topic", Confusion(some, {"Returnz": 1, "Billing": 1}), labels) == (
        "topic: 2 of 3 expected outputs are no label, so accuracy and F1 leave them out: 'Billing', 'Returnz' "
        "(labels: billing, returns)\n"
    )
    many = Confusion(some, dict.fromkeys(map(str, range(11)), 1))
    assert "11 of 12 expected outputs are no label" in left_out_text("topic", many, labels)
    assert "'8' (labels: billing, returns)" in left_out_text("topic", many, labels), "ten of eleven words"
