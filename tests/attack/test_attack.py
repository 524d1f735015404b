"""`make attack` in small: what it measures holds here, too."""

from __future__ import annotations

import pytest
from attack import report_of, run
from attacks import CASES

SHORT = ("planted verdicts",)


async def test_an_attack_is_measured_and_holds(tmp_path):
    findings = await run(SHORT, 0.05, tmp_path)
    assert {each.name: each.problems for each in findings} == {name: [] for name in SHORT}
    assert all(name in report_of(findings) for name in SHORT)


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_all_attacks_hold(tmp_path):
    findings = await run(list(CASES), 0.2, tmp_path)
    assert {each.name: each.problems for each in findings} == {name: [] for name in CASES}
