from __future__ import annotations

from evaluation_samples import scored

from collector.logs.log import Committed, StoredRecord
from collector.logs.memory import MemoryLog
from collector.page.server import Page, PageLogs
from collector.page.settings import PageSettings
from collector.page.stage import PageStage
from collector.page.view import View
from collector.records.json import evaluation_to_json, turn_to_json
from evaluators.cases import Turn

TURN = Turn(turn_id="f" * 32, conversation_id="visit-7", input="hello")


async def test_what_must_be_read_again_after_a_stop_does_not_hang_on_which_fold_closes_first():
    view = View([])
    stage = PageStage(view)
    async with stage.open_turns(0, None) as turns:
        await turns.deliver([StoredRecord(0, 5, 1.0, b"k", turn_to_json(TURN))])
        async with stage.open_evaluations(0, None) as evaluations:
            await evaluations.deliver([StoredRecord(0, 7, 1.0, b"k", evaluation_to_json(scored(1)))])
            assert evaluations.low_watermark == 7
        assert turns.low_watermark == 5


async def test_a_partition_that_comes_back_begins_anew():
    view = View([])
    stage = PageStage(view)
    record = StoredRecord(0, 7, 1.0, b"k", evaluation_to_json(scored(1)))
    for _ in range(2):
        async with stage.open_evaluations(0, None) as fold:
            await fold.replay([record])
        assert len(view) == 1
    assert view.needed(0) == 7


async def test_a_page_that_has_a_part_of_the_partitions_says_so():
    """Two processes of one Kafka log showed half of the traffic each, in silence."""
    logs = (MemoryLog(name, partitions=4) for name in ("evaluations", "labels", "turns"))
    page = Page(PageSettings(), PageLogs(*logs))
    assert page.part() is None, "nothing is known yet"
    async with page.stage.open_evaluations(0, None), page.stage.open_evaluations(3, None):
        part = page.part()
        async with page.stage.open_evaluations(1, None), page.stage.open_evaluations(2, None):
            assert page.part() is None
        assert page.part() == part
    assert part == "this page shows 2 of 4 partitions: another process has the others; run page in one process"


async def test_what_is_not_read_back_yet_is_not_said_to_be_missing():
    """The page said 404 for evaluations that it had before a restart."""
    stage = PageStage(View([]))
    assert stage.reads_back
    async with stage.open_evaluations(0, Committed(7, 9)) as fold:
        await fold.replay([StoredRecord(0, 7, 1.0, b"k", evaluation_to_json(scored(1)))])
        assert stage.reads_back
        await fold.replay([StoredRecord(0, 8, 1.0, b"k", evaluation_to_json(scored(2)))])
        assert not stage.reads_back
    async with stage.open_evaluations(1, None):
        assert not stage.reads_back
