"""Draws by hash: in [0, 1) whatever the digest, and the same for the same key in every version."""

from __future__ import annotations

import hashlib
from typing import Literal

import pytest
from hypothesis import given, strategies as st

from evaluators.cases import Conversation, Turn
from evaluators.identity import case_draw
from evaluators.texts.draw import draw

Algorithm = Literal["blake2b", "sha256"]


@given(st.text() | st.binary(), st.sampled_from(["blake2b", "sha256"]))
def test_a_draw_is_in_range_and_depends_on_the_key_alone(key: str | bytes, algorithm: Algorithm) -> None:
    assert 0.0 <= draw(key, algorithm=algorithm) < 1.0
    assert draw(key, algorithm=algorithm) == draw(key, algorithm=algorithm)


@pytest.mark.parametrize("algorithm", ["blake2b", "sha256"])
def test_the_largest_digest_draws_less_than_one(monkeypatch: pytest.MonkeyPatch, algorithm: Algorithm) -> None:
    class Largest:
        def digest(self) -> bytes:
            return b"\xff" * 32 if algorithm == "sha256" else b"\xff" * 8

    monkeypatch.setattr(hashlib, algorithm, lambda *_, **__: Largest())
    assert draw("key", algorithm=algorithm) == 1.0 - 2.0**-53


def test_draws_are_evenly_spread() -> None:
    for algorithm in ("blake2b", "sha256"):
        tenth = sum(draw(f"conversation-{n}", algorithm=algorithm) < 0.1 for n in range(20_000))
        assert abs(tenth - 2_000) < 130  # three standard deviations


def test_draws_stay_as_they_are() -> None:
    assert draw("sess-larkspur-7341", salt="evalstream") == 0.19832734280006037
    assert draw("cascade\x1fhelpful\x1fturn-1") == 0.5784391195838654
    assert draw("label/evaluation-1", algorithm="sha256") == 0.8162441347145549
    assert draw("\ud800") == draw("?")


def test_draws_of_cases_stay_as_they_are() -> None:
    """A cascade and a gate read the same cases after an update, whatever else is in a case."""
    turn = Turn(turn_id="turn-1", input="?", conversation_id="c")
    assert case_draw("cascade", "helpful", turn) == draw("cascade\x1fhelpful\x1fturn-1")
    conversation = Conversation(conversation_id="c", turns=(turn,))
    assert case_draw("gate", "both", conversation, "salt") == draw("gate\x1fboth\x1fc", salt="salt")
