"""A label has the tokens of its judge's prompt, by which a bias for long prompts is found."""

from __future__ import annotations

from typing import Any

import pytest
from evaluation_samples import scored

from collector.records.labels import tokens_read
from evaluators.results import Usage

AUDITED = {"probability": 0.3, "model": "large", "score": 0.5}


@pytest.mark.parametrize(
    ("usage", "audit", "tokens"),
    [
        (Usage(input_tokens=500, output_tokens=20, calls=1), None, 500.0),
        (Usage(input_tokens=1000, output_tokens=40, calls=2), None, 500.0),
        (Usage(input_tokens=1100, output_tokens=40, calls=2), AUDITED | {"input_tokens": 600, "calls": 1}, 500.0),
        (Usage(input_tokens=600, output_tokens=20, calls=1), AUDITED | {"input_tokens": 600, "calls": 1}, None),
        (Usage(input_tokens=1100, output_tokens=40, calls=2), AUDITED, None),
        (
            Usage(input_tokens=500, output_tokens=20, calls=1),
            {"probability": 0.3, "model": "large", "reason": "audit_timeout"},
            500.0,
        ),
        (None, None, None),
    ],
    ids=["one call", "two calls", "audited", "code, audited", "of an earlier release", "no time for the audit", "code"],
)
def test_the_tokens_are_those_of_the_judge_and_not_of_its_auditor(
    usage: Usage | None, audit: dict[str, Any] | None, tokens: float | None
) -> None:
    """The mean over both made a bias for length smaller: audited answers seemed to have longer prompts."""
    assert tokens_read(scored(usage=usage, details={"audit": audit} if audit else {})) == tokens
