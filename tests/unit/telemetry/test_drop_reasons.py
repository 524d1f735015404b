"""Every reason of a drop is enumerated once, and the runbook says what to do."""

from __future__ import annotations

import re
from pathlib import Path

from collector.telemetry.drop_reasons import DropReason, LossReason

ROOT = Path(__file__).parents[3]


def test_the_runbook_names_each_reason() -> None:
    table = (ROOT / "deploy/runbooks/EvalstreamDrops.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in table.splitlines() if line[:1] == "|")))
    assert {*DropReason, *LossReason} <= named


def test_no_other_reason_is_written_where_something_is_dropped() -> None:
    written = {
        reason
        for path in (ROOT / "collector").rglob("*.py")
        for reason in re.findall(r"\.drop\([^,]+, \"(\w+)\"", path.read_text(encoding="utf-8"))
    }
    assert written <= set(DropReason)
