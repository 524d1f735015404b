"""Constructors of frozen records: what they make is what the records' own constructors make."""

from __future__ import annotations

import pickle
from copy import deepcopy
from dataclasses import FrozenInstanceError, replace

import pytest

from collector.records.quick_records import quick
from evaluators.cases import Message, TokenCount, Turn

FIELDS = {"turn_id": "t1", "input": "Hi", "history": (Message(role="user", content="Hello"),), "attributes": {"a": 1}}


def test_they_make_the_same_record() -> None:
    made = quick(Turn)(**FIELDS, usage=TokenCount(input_tokens=3))
    own = Turn(**FIELDS, usage=TokenCount(input_tokens=3))
    assert type(made) is Turn
    assert made == own
    assert repr(made) == repr(own)
    assert pickle.loads(pickle.dumps(made)) == deepcopy(made) == own
    assert replace(made, input="Bye") == replace(own, input="Bye")


def test_what_they_make_is_frozen() -> None:
    made = quick(Message)(role="user")
    with pytest.raises(FrozenInstanceError):
        made.role = "assistant"  # type: ignore[misc]
    assert hash(made) == hash(Message(role="user"))


def test_each_record_has_containers_of_its_own() -> None:
    make = quick(Turn)
    assert make().attributes == {}
    assert make().attributes is not make().attributes


def test_the_records_own_checks_are_made() -> None:
    assert quick(Turn)(history=[Message(role="user")]).history == (Message(role="user"),)
    with pytest.raises(TypeError, match=r"Turn\.input: a text \(str\) is needed"):
        quick(Turn)(input=3)
    with pytest.raises(TypeError, match="role"):
        quick(Message)()
