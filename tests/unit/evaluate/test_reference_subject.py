"""The ids by which references find a turn."""

from __future__ import annotations

import pytest

from collector.evaluate.references.subject import concerns, keys_of
from collector.records.references import reference_of
from evaluators.cases import Turn

TURN = Turn(turn_id="T1", conversation_id="C1", trace_id="Chat-7", span_id="AB" * 8, response_id="R1")


@pytest.mark.parametrize("name", ["turn_id", "conversation_id", "trace_id", "span_id", "response_id"])
def test_the_very_id_of_a_ready_made_turn_names_it(name: str) -> None:
    """A trace or span id with a capital letter never did: the evaluation waited until it was skipped."""
    reference = reference_of({name: getattr(TURN, name), "expected_output": "Yes."}, tenant=None)
    assert concerns(reference, TURN)
    assert reference.key in keys_of(TURN)


@pytest.mark.parametrize("name", ["turn_id", "conversation_id", "response_id"])
def test_other_ids_have_a_case(name: str) -> None:
    reference = reference_of({name: getattr(TURN, name).lower(), "expected_output": "Yes."}, tenant=None)
    assert not concerns(reference, TURN)
