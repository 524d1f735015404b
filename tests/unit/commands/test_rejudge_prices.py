"""The price of an evaluation in `evalstream rejudge`: that of those that were paid for."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from evaluation_samples import scored

from collector.commands.rejudge.candidates import KnownEvaluations
from collector.evaluate.retry.past_jobs import Stretch
from collector.logs.log import Record
from collector.logs.memory import MemoryLog
from collector.records.json import evaluation_to_json


async def test_what_another_monitor_paid_for_makes_no_evaluation_cheaper() -> None:
    paid = scored(1, evaluator="helpful", cost_usd=0.004)
    shared = [
        replace(paid, evaluation_id=f"s{n}", monitor="tenth", cost_usd=0.0, usage=None, shares=paid.evaluation_id)
        for n in range(3)
    ]
    log = MemoryLog("evaluations")
    await log.append([Record(each.evaluation_id.encode(), evaluation_to_json(each)) for each in (paid, *shared)])
    stretch = Stretch(datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
    known = KnownEvaluations({"helpful": paid.evaluator_version}, stretch, lambda past: past.cost_usd)
    await known.read(log)
    assert known.mean_usd == {"helpful": pytest.approx(0.004)}
