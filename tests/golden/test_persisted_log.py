"""A log that version 0.1.0 left when it was killed, taken up by the code as it is now.

`write_persisted_log.py` made it. In it are finished evaluations of turns and conversations, scored, skipped and failed;
conversations that are open, reopened and carried forward, and one put together by its history; an evaluation that was
asked and not answered, with finished ones behind it; a trace that was not assembled yet; a dead letter, evaluation
steps that a judge wrote, a budget's account, and the cursors of an exporter.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest
from write_persisted_log import EVALUATIONS, FOLDER, WAITS, Judge, serving

from collector.config.loading import load
from collector.logs.consumer_runner import SlewedClock, since_boot
from collector.service.app import running

NEW = {
    "complete of 00000000000000000000000000000006, revision 1": "88326dd87fcda451401615dfeca6d18a",
    "complete of carried, revision 1": "b6f2a648f6b4e8b8d5777c393af96973",
    "complete of finished, revision 1": "f282f7721164e7122b5f4ac3a2bb214d",
    "complete of open, revision 1": "5a0e761bebc9e7c98beee59b9946ca3b",
    "complete of reopened, revision 2": "48c1520bdd0a6609624dfcea0a6fee6e",
    "complete of waiting, revision 1": "c4a3bffe954a0cc04d63b594bbb0d1f4",
    "helpful of turn 8884c4c1833c192acc4eecd92b61b032": "920c951de633d4bcfd21aa96f415b2f8",
    "helpful of turn d1c34aae39eaea29a8b4dc247605409e": "266b0c6ecd7aba1e7693fb5930c944be",
    "helpful of turn f54544b02b8badbfa50549f40e9e60ad": "477fa67a0ccf77f74617c5ede0d24646",
}
"""What is still to be judged, and no more.

The versions of `completeness` and `g_eval` are others since: in a log without marks for each evaluator they take effect
from the oldest turn that is still open, so `finished` and two of the turns are among them. The trace that was not assembled yet has a turn of
`sampled`, which the draw by the key of the tests leaves out. The second of two monitors with one evaluator has ids of its own.
"""

FINISHED = (
    "How much is a kayak?",
    "And a canoe?",
    "Say what you may not.",
    "Hello?",
    "Is it paid for?",
    "Any helmets?",
)
"""What users said in conversations that are over and done with."""

DAY = 86400.0


@dataclass
class Taken:
    """A copy of the log, with a configuration that runs on this machine."""

    folder: Path
    judge: Judge
    written: float

    def ledger(self) -> dict[str, list[Mapping[str, Any]]]:
        """Every evaluation by its id, as often as it is there; read without the code under test."""
        found: dict[str, list[Mapping[str, Any]]] = {}
        for key, headers, value in self._rows("evaluations"):
            if headers is None:
                evaluation = json.loads(value)
                assert key.decode() == evaluation["evaluation_id"]
                found.setdefault(evaluation["evaluation_id"], []).append(evaluation)
        return found

    def _rows(self, log: str) -> list[tuple[Any, ...]]:
        wanted = (
            "SELECT key, headers, value FROM records, logs WHERE records.id >> 57 = number AND name = ? ORDER BY id"
        )
        with closing(sqlite3.connect(self.folder / "evalstream.db")) as connection:
            return connection.execute(wanted, [log]).fetchall()

    def age(self) -> float:
        """Seconds between the last record that was there and the last that came."""
        with closing(sqlite3.connect(self.folder / "evalstream.db")) as connection:
            return connection.execute("SELECT max(timestamp) FROM ends").fetchone()[0] - self.written

    def count(self, log: str) -> int:
        return len(self._rows(log))

    def behind(self) -> dict[str, int]:
        """The groups that have not read all of their log, or still need some of it; what is linked may always go on."""
        wanted = (
            'SELECT name, "group", next - low_watermark FROM commits, ends, logs WHERE commits.log = ends.log '
            "AND commits.log = number AND (position < next OR low_watermark < next AND name != 'unlinked')"
        )
        with closing(sqlite3.connect(self.folder / "evalstream.db")) as connection:
            return {f"{log}: {group}": by for log, group, by in connection.execute(wanted)}

    async def run(self) -> None:
        """Run the service until nothing is under way."""
        async with running(load(self.folder / "evalstream.yaml")) as service:
            generate_latest(service.telemetry.registry)  # the first scrape, for which the exporter waits
            try:
                async with asyncio.timeout(60):
                    while self.behind():
                        await asyncio.sleep(0.05)
            except TimeoutError:
                raise AssertionError(f"not done within a minute: {self.behind()}") from None


@pytest.fixture
async def taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Taken]:
    """The log as it is a day after it was written, whatever day it is."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evalstream.db").write_bytes(gzip.decompress((FOLDER / "evalstream.db.gz").read_bytes()))
    with closing(sqlite3.connect(tmp_path / "evalstream.db")) as connection:
        [written] = connection.execute("SELECT max(timestamp) FROM ends").fetchone()
    real, shift = time.time, written + DAY - time.time()

    def now() -> float:
        return real() + shift

    monkeypatch.setattr(time, "time", now)
    monkeypatch.setattr(SlewedClock.__init__, "__defaults__", (now, since_boot))  # it knows time.time from its import
    judge = Judge()
    async with serving(judge) as url:
        configuration = yaml.safe_load((FOLDER / "evalstream.yaml").read_text())
        configuration["judges"]["main"]["base_url"] = url
        configuration["receive"] = {"otlp_http": {"port": 0}}
        configuration["export"]["prometheus"] = {"port": 0}
        (tmp_path / "evalstream.yaml").write_text(yaml.safe_dump(configuration))
        yield Taken(tmp_path, judge, written)


def named(evaluation: Mapping[str, Any]) -> str:
    subject = evaluation["subject"]
    what = (
        f"turn {subject['turn_id']}"
        if "turn_id" in subject
        else f"{subject['conversation_id']}, revision {subject['revision']}"
    )
    return f"{evaluation['evaluator']} of {what}"


async def test_what_is_finished_is_not_judged_again_and_what_is_open_is(taken: Taken) -> None:
    before = taken.ledger()
    assert (len(before), taken.count("dead_letters"), taken.count("definitions")) == (EVALUATIONS, 1, 1)
    assert Counter(each["outcome"] for [each] in before.values()).keys() == {"scored", "skipped", "failed"}

    await taken.run()
    after = taken.ledger()
    assert {key: each for key, each in after.items() if key in before} == before
    assert [key for key, each in after.items() if len(each) > 1] == []
    new = {key: each for key, [each] in after.items() if key not in before}
    assert {named(each): key for key, each in new.items()} == NEW
    assert {each["outcome"] for each in new.values()} == {"scored"}
    assert len(taken.judge.requests) == sum(each["usage"]["calls"] for each in new.values() if "usage" in each)
    again = [each for each in taken.judge.requests if any(text in each for text in FINISHED)]
    calls = new[NEW["complete of finished, revision 1"]]["usage"]["calls"]
    assert len(again) == calls + 1, "by the new versions alone: the conversation, and one of its turns"
    assert any(WAITS in each for each in taken.judge.requests)
    # A key, a configuration and a note of the rates; the judge is not asked for steps that it wrote before.
    assert taken.count("definitions") == 6  # the key of draws and what traces are read by among them
    # Revision 1 by the new version, which was never made: before is another version's, and stays.
    assert new[NEW["complete of reopened, revision 2"]]["supersedes"] == ["8389caba8034d328c0a6e2c5469ae43e"]
    exported = [json.loads(line)["evaluation_id"] for line in (taken.folder / "scores.jsonl").read_text().splitlines()]
    assert sorted(exported) == sorted(NEW.values()), "the exporter goes on from its cursor"

    assert DAY <= taken.age() < DAY + 300.0

    asked = len(taken.judge.requests)
    await taken.run()
    assert (taken.ledger(), len(taken.judge.requests)) == (after, asked)
