"""JSON of others' servers is bounded before it becomes objects."""

from __future__ import annotations

import time

import orjson
import pytest
from hypothesis import given, strategies as st

from evaluators.wire.outside_json import DEEPEST, MOST_CONTAINERS, MOST_ELEMENTS, UnboundedJson, read_outside


@pytest.mark.parametrize(
    ("content", "limit"),
    [
        (lambda: b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1), "deep"),
        (lambda: b'{"a":' * (DEEPEST + 1) + b"1" + b"}" * (DEEPEST + 1), "deep"),
        (lambda: b"[" + b"{}," * MOST_CONTAINERS + b"1]", "objects"),
        (lambda: b"[" + b"1," * (MOST_ELEMENTS + 1) + b"1]", "values"),
        (lambda: b"{" + b",".join(b'"%d":1' % n for n in range(MOST_ELEMENTS + 1)) + b"}", "values"),
    ],
    ids=["arrays", "objects", "empty objects", "numbers", "names"],
)
def test_what_is_beyond_the_limits(content, limit):
    with pytest.raises(UnboundedJson, match=limit):
        read_outside(content())


def test_what_is_within_them():
    assert read_outside(b"[" * DEEPEST + b"]" * DEEPEST) is not None
    code = "[{,}]\\" * MOST_ELEMENTS
    body = b'{"text": "' + code.replace("\\", "\\\\").encode() + b'", "more": [[], {}]}'
    assert read_outside(body) == {"text": code, "more": [[], {}]}
    with pytest.raises(ValueError, match=r"JSON|character|line"):
        read_outside(b'{"cut')


@given(st.recursive(st.text() | st.integers(-5, 5) | st.none(), st.lists, max_leaves=300))
def test_it_changes_nothing(value):
    assert read_outside(orjson.dumps(value)) == value


@pytest.mark.parametrize("piece", [b'\\"', b'"', b"\\", b'"\\', b'{"a":"', b"[", b"]", b"\xff"])
def test_the_time_is_linear(piece):
    content = b'["' + piece * ((4 << 20) // len(piece))
    began = time.process_time()
    with pytest.raises(ValueError):
        read_outside(content)
    assert time.process_time() - began < 3
