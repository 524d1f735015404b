"""Parts of an answer whose type is no text: they are read like any other, and end nothing."""

from __future__ import annotations

import pytest

from evaluators.judges.answer_places import answer_text


@pytest.mark.parametrize("kind", [{}, [], {"name": "text"}, 7, None])
def test_a_part_whose_type_is_no_text_does_not_end_the_reading(kind: object) -> None:
    message = {"content": [{"type": kind, "text": '{"score": 4}'}, {"type": "text", "text": "."}]}
    assert '"score": 4' in answer_text(message)
