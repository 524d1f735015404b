from __future__ import annotations

import pytest
from evaluation_samples import label

from collector.errors import BadInput
from collector.records.json import json_schemas, label_from_json, label_to_json


def test_a_label_comes_back_as_it_was_written():
    assert label_from_json(label_to_json(label())) == label()


def test_a_label_without_anything_in_it_is_none():
    with pytest.raises(ValueError, match="agree or disagree"):
        label(opinion=None, score=None, note="")


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan")])
def test_a_persons_score_lies_between_0_and_1(score):
    with pytest.raises(ValueError, match=r"lies in \[0, 1\]"):
        label(score=score)


def test_what_is_no_label_is_refused_without_its_content():
    with pytest.raises(BadInput) as caught:
        label_from_json(b'{"label_id": "a", "note": "secret"}')
    assert "secret" not in str(caught.value)


def test_the_schema_of_a_label_is_printed_with_the_others():
    assert "judge_score" in json_schemas()["label"]["properties"]
