"""`make attack` in small: what it measures holds here, too."""

from __future__ import annotations

import re
from importlib import import_module

import pytest
from attack import report_of, run
from attacks import CASES, FOUND

SHORT = ("planted verdicts",)
SEARCHED = ("patterns", "context", "national_ids", "redactor", "documents")


def patterns(value: object) -> list[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        return [value] if isinstance(value.pattern, str) else []
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ()
    return [pattern for each in inner for pattern in patterns(each)]


def beginnings(text: str) -> list[str]:
    """What patterns that look back see."""
    return [text[:end] for end in range(1, len(text))]


def test_each_pattern_of_the_redaction_has_a_piece() -> None:
    missing = [
        f"{module}.{name}"
        for module in SEARCHED
        for name, value in vars(import_module(f"collector.redact.{module}")).items()
        for pattern in patterns(value)
        if not any(map(pattern.search, (text for piece in FOUND for text in (piece * 40, *beginnings(piece)))))
    ]
    assert missing == []


@pytest.mark.long
async def test_an_attack_is_measured_and_holds(tmp_path):
    findings = await run(SHORT, 0.05, tmp_path)
    assert {each.name: each.problems for each in findings} == {name: [] for name in SHORT}
    assert all(name in report_of(findings) for name in SHORT)


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_all_attacks_hold(tmp_path):
    findings = await run(list(CASES), 0.2, tmp_path)
    assert {each.name: each.problems for each in findings} == {name: [] for name in CASES}
