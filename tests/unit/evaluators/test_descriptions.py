"""Descriptions of fields out of their docstrings."""

from __future__ import annotations

import inspect
from collections import Counter

import pytest

from evaluators.descriptions import Described, described_fields


class Base(Described):
    shared: int = 0
    """Every kind has it."""
    bare: int = 0


class First(Base):
    own: int = 0
    """Its own
    in two lines."""


class Second(Base):
    shared: int = 1
    """Said in another way."""


def test_the_source_of_a_common_base_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of fifty kinds read it again: most of the time of a schema."""
    read, source = Counter[object](), inspect.getsource

    def counted(model: type) -> str:
        read[model] += 1
        return source(model)

    monkeypatch.setattr("inspect.getsource", counted)
    first, second = described_fields(First), described_fields(Second)
    assert read == {First: 1, Second: 1, Base: 1}
    assert {name: field.description for name, field in first.items()} == {
        "shared": "Every kind has it.",
        "bare": None,
        "own": "Its own\nin two lines.",
    }
    assert second["shared"].description == "Said in another way."
