"""Another configuration while the service runs: what is judged by which, what is refused, and what others see of it."""

from __future__ import annotations

import asyncio
import json
import linecache
import logging
import shutil
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from aiohttp import ClientSession, web
from faulty_judge import Faults, FaultyJudge
from running_service import ledger, put, value
from service import free_port
from stand_in_judge import serve_judge
from test_access import make_certificates

from collector.alerting.watch.notifier import AlertInstance
from collector.alerting.watch.stage import WatchStage
from collector.commands.audit.audit import audit
from collector.commands.check.changes import change_lines, running_configuration
from collector.commands.check.traffic import running_metrics
from collector.commands.check.unseen import unseen_lines
from collector.commands.log_copy.log_copy import copy_logs
from collector.config.live_part import AT_START, LIVE, NOT_LIVE
from collector.config.loading import code_change, load
from collector.config.settings import Settings
from collector.errors import ConfigError
from collector.evaluate.recovery.control_records import ControlRecord
from collector.evaluate.recovery.generated_steps import GeneratedStepsStore
from collector.evaluate.recovery.ledger import Ledger
from collector.evaluate.recovery.replay_point import CommitMetadata
from collector.evaluate.sampling.draw import draw, keyed_salt
from collector.evaluate.stage import GROUP
from collector.logs.consumer_runner import ConsumerRunner
from collector.logs.memory import MemoryLog
from collector.logs.sqlite import SqliteLog
from collector.page.providers import traffic
from collector.plugins.folder import folders
from collector.plugins.registry import _installed
from collector.records.epochs import CONTROL_HEADERS
from collector.service import app
from collector.service.app import Running, running, take_log_level
from collector.service.live.history import ConfigurationHistory
from collector.service.open_logs import open_logs
from collector.service.plan_builder import evaluator_version_in
from collector.service.process import without_preparation
from evaluators.results import Evaluation

BEFORE = ["Say whether the actual output answers the input."]
AFTER = ["Say whether the actual output answers the input, and nothing else."]


class ConfigFile:
    """A configuration file with one judge and two evaluators, and what is changed in it."""

    def __init__(self, folder: Path, url: str) -> None:
        self.path = folder / "evalstream.yaml"
        judged = {"kind": "g_eval", "evaluation_params": ["input", "actual_output"], "judge": "main"}
        self.values: dict[str, Any] = {
            "log": {"path": str(folder / "evalstream.db")},
            "receive": {"files": []},
            "judges": {"main": {"model": "m", "base_url": url, "api_key": "k3y"}},
            "evaluators": {
                "answers": {**judged, "evaluation_steps": BEFORE},
                "short": {"kind": "length", "maximum": 100},
            },
            "monitors": {"all": {"evaluators": ["answers", "short"]}},
            "export": {},
        }
        self.write()

    def write(self) -> None:
        self.path.write_text(json.dumps(self.values))

    def change(self, change: Callable[[dict[str, Any]], object]) -> None:
        change(self.values)
        self.write()


async def until(service: Running, **counts: int) -> list[Evaluation]:
    """Wait until each evaluator has made so many."""
    async with asyncio.timeout(60):
        while True:
            made = await ledger(service)
            if Counter(each.evaluator for each in made) == counts:
                return made
            await asyncio.sleep(0.05)


def labels(service: Running, name: str) -> list[dict[str, str]]:
    return [
        sample.labels
        for metric in service.telemetry.registry.collect()
        for sample in metric.samples
        if sample.name == name
    ]


async def until_paused(service: Running) -> None:
    async with asyncio.timeout(60):
        while value(service, "evalstream_paused_partitions") < 1:
            await asyncio.sleep(0.05)


async def look(service: Running) -> None:
    """What SIGHUP does."""
    service.reload.request()
    await service.reload.look()


def versions(made: list[Evaluation], evaluator: str = "answers") -> list[str]:
    """The version of each turn's evaluation, in the order of the turns."""
    mine = {
        int((each.subject.turn_id or "")[1:]): each.evaluator_version for each in made if each.evaluator == evaluator
    }
    return [mine[number] for number in sorted(mine)]


async def clean(file: ConfigFile) -> None:
    said: list[str] = []
    assert await audit(load(file.path), said.append, drained=True) == 0, said


async def test_a_prompt_changes_at_one_position(tmp_path: Path) -> None:
    judge = FaultyJudge()
    async with serve_judge(judge) as url:
        file = ConfigFile(tmp_path, url)
        async with running(load(file.path), {"evaluate"}, path=file.path) as service:
            await put(service, range(30))
            await until(service, answers=30, short=30)
            rules, hashed = labels(service, "evalstream_rules_info"), labels(service, "evalstream_config_info")
            file.change(lambda values: values["evaluators"]["answers"].update(evaluation_steps=AFTER, threshold=0.5))
            await look(service)
            await put(service, range(30, 50))
            made = await until(service, answers=50, short=50)
            assert value(service, "evalstream_configuration_changes_total", result="taken") == 1
            assert value(service, "evalstream_configuration_refused") == 0
            assert len(labels(service, "evalstream_rules_info")) == 1
            assert labels(service, "evalstream_rules_info") != rules
            assert labels(service, "evalstream_config_info") != hashed
        assert Counter(versions(made)[:30]).most_common(1)[0][1] == 30
        assert Counter(versions(made)[30:]).most_common(1)[0][1] == 20
        assert len(set(versions(made))) == 2
        assert len(set(versions(made, "short"))) == 1
        assert judge.calls == 50
        await clean(file)
        async with running(
            load(file.path), {"evaluate"}, path=file.path
        ) as service:  # and a restart judges nothing again
            await put(service, range(50, 51))
            await until(service, answers=51, short=51)
        assert judge.calls == 51
        await clean(file)


async def test_what_a_judge_that_is_out_has_left_is_made_by_the_new_definition(tmp_path: Path) -> None:
    """The usual cure, without a restart; the waiting questions are those that had filled the queue."""
    async with serve_judge() as url:
        file = ConfigFile(tmp_path, "http://127.0.0.1:9/v1")
        file.change(lambda values: values.update(evaluate={"shutdown_grace": 0, "max_waiting": 5, "concurrency": 2}))
        async with running(load(file.path), {"evaluate"}, path=file.path) as service:
            await put(service, range(40))
            await until_paused(service)
            file.change(lambda values: values["judges"]["main"].update(base_url=url))
            await look(service)
            made = await until(service, answers=40, short=40)
            assert max(Counter(each.evaluation_id for each in made).values()) == 1
            assert_counted_once(service, 40)
        await clean(file)


def assert_counted_once(service: Running, turns: int) -> None:
    """What was delivered to the former stage came again to the one after it, and was counted again."""
    assert value(service, "evalstream_turns_total", monitor="all", outcome="sampled") == turns
    assert len(labels(service, "evalstream_turns_total")) == 2, "none is a duplicate"
    due, ended = "evalstream_evaluations_due_total", "evalstream_evaluations_ended_total"
    for name in ("answers", "short"):
        assert value(service, due, evaluator=name, origin="matched") == turns
        assert value(service, ended, evaluator=name, outcome="scored") == turns
    resumed = value(service, due, evaluator="answers", origin="resumed")
    assert resumed == value(service, ended, evaluator="answers", outcome="reassigned") > 0


async def test_a_change_in_the_backlog_of_a_process_that_was_killed_hides_no_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the killed one had stopped was unknown: all of its backlog was taken for counted."""
    async with serve_judge() as url:
        file = ConfigFile(tmp_path, "http://127.0.0.1:9/v1")
        file.change(lambda values: values.update(evaluate={"shutdown_grace": 0, "max_waiting": 5, "concurrency": 2}))
        with monkeypatch.context() as killed:
            killed.setattr(Ledger, "write_stopped", AsyncMock())
            async with running(load(file.path), {"evaluate"}, path=file.path) as service:
                await put(service, range(40))
                await until_paused(service)
        async with running(load(file.path), {"evaluate"}, path=file.path) as service:
            await until_paused(service)
            file.change(lambda values: values["judges"]["main"].update(base_url=url))
            await look(service)
            async with asyncio.timeout(60):
                while value(service, "evalstream_evaluations_ended_total", evaluator="answers", outcome="scored") < 40:
                    await asyncio.sleep(0.05)
            assert value(service, "evalstream_turns_total", monitor="all", outcome="sampled") == 40
        await clean(file)


async def test_what_a_process_resumes_after_a_change_is_not_said_to_be_of_another_process(tmp_path: Path) -> None:
    async with serve_judge() as url:
        file = ConfigFile(tmp_path, "http://127.0.0.1:9/v1")
        file.change(lambda values: values.update(evaluate={"shutdown_grace": 0}))
        async with running(load(file.path), {"evaluate"}, path=file.path) as service:
            await put(service, range(10))
            async with asyncio.timeout(30):
                while value(service, "evalstream_evaluations_started_total", evaluator="answers") < 10:
                    await asyncio.sleep(0.05)
            file.change(lambda values: values["evaluators"]["answers"].update(evaluation_steps=AFTER))
            await look(service)
            file.change(lambda values: values["judges"]["main"].update(base_url=url))
            await look(service)
            await until(service, answers=10, short=10)
            assert value(service, "evalstream_evaluations_due_total", evaluator="answers", origin="resumed") >= 10
            assert [view.evaluations["answers"]["resumed"] for view in traffic(service.telemetry, {}).monitors] == [0]
        await clean(file)


async def test_monitors_evaluators_and_rates_come_and_go(tmp_path: Path) -> None:
    async with serve_judge() as url:
        file = ConfigFile(tmp_path, url)
        async with running(load(file.path), {"evaluate"}, path=file.path) as service:
            await put(service, range(10))
            await until(service, answers=10, short=10)
            file.change(lambda values: values["evaluators"].update(brief={"kind": "length", "maximum": 9}))
            file.change(lambda values: values["monitors"].update(more={"evaluators": ["brief"]}))
            await look(service)
            await put(service, range(10, 20))
            await until(service, answers=20, short=20, brief=10)
            file.change(lambda values: values["monitors"].pop("all"))
            await look(service)
            await put(service, range(20, 30))
            await until(service, answers=20, short=20, brief=20)
            file.change(lambda values: values["monitors"]["more"].update(sample=0.3))
            await look(service)
            await put(service, range(30, 130))
            async with asyncio.timeout(60):
                while value(service, "evalstream_turns_total", monitor="more") < 120:
                    await asyncio.sleep(0.05)
                while value(service, "evalstream_evaluations_in_flight"):
                    await asyncio.sleep(0.05)
            made = await ledger(service)
            drawn = [each for each in made if each.sampling.probability == pytest.approx(0.3)]
            assert 10 <= len(drawn) <= 50
        await clean(file)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(lambda values: values["log"].update(retention="1d"), "log.retention: read only at a start", id="log"),
        pytest.param(lambda values: values["evaluators"]["short"].update(maximum="x"), "must be a whole", id="wrong"),
        pytest.param(
            lambda values: values["monitors"]["all"].update(match={"services": "s"}), "'services' is no field", id="match"
        ),
        pytest.param(
            lambda values: values.update(golden={"path": "/nowhere.jsonl"}), "/nowhere.jsonl", id="file"
        ),
        pytest.param(
            lambda values: values["judges"]["main"].update(tls={"ca": "/nowhere.pem"}), "judges.main.tls", id="judge"
        ),
    ],
)  # fmt: skip
async def test_what_cannot_be_taken_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: Callable[[dict[str, Any]], object], reason: str
) -> None:
    async with serve_judge() as url:
        file = ConfigFile(tmp_path, url)
        original = json.dumps(file.values)
        async with running(load(file.path), {"evaluate", "watch"}, path=file.path) as service:
            await put(service, range(5))
            await until(service, answers=5, short=5)
            before = [labels(service, name) for name in ("evalstream_config_info", "evalstream_rules_info")]
            file.change(lambda values: values["evaluators"]["answers"].update(evaluation_steps=AFTER))
            file.change(change)
            await look(service)
            assert value(service, "evalstream_configuration_refused") == 1
            assert value(service, "evalstream_health_check_ok", check="configuration") == 0
            assert [labels(service, name) for name in ("evalstream_config_info", "evalstream_rules_info")] == before
            refusals = [each.message for each in caplog.records if "configuration refused" in each.message]
            assert len(refusals) == 1
            assert reason in refusals[0]
            assert "\n" not in refusals[0]
            await put(service, range(5, 10))
            made = await until(service, answers=10, short=10)
            assert len(set(versions(made))) == 1
            file.path.write_text(original)
            await look(service)
            assert value(service, "evalstream_configuration_refused") == 0
            assert value(service, "evalstream_configuration_changes_total", result="taken") == 0


def _change_of(needs: str, later: Path) -> Callable[[dict[str, Any]], object]:
    judge: dict[str, Any] = {
        "key": {"api_key_file": str(later)}, "header": {"header_files": {"x-team": str(later)}},
        "authority": {"tls": {"ca": str(later)}},
    }.get(needs, {})  # fmt: skip

    def change(values: dict[str, Any]) -> None:
        if needs == "key":
            del values["judges"]["main"]["api_key"]
        values["judges"]["main"].update(judge)
        values.update({"golden": {"path": str(later)}} if needs == "golden" else {})
        values["evaluators"]["answers"].update(evaluation_steps=AFTER)

    return change


@pytest.mark.parametrize("needs", ["key", "header", "authority", "golden"])
async def test_a_file_that_was_refused_for_what_is_outside_it_is_taken_once_that_is_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, needs: str
) -> None:
    """The key came an hour later, and only a signal made the service look again."""
    caplog.set_level(logging.INFO)
    later = tmp_path / "later"
    make_certificates(tmp_path)
    async with serve_judge() as url:
        file = ConfigFile(tmp_path, url)
        async with running(load(file.path), {"evaluate", "watch"}, path=file.path) as service:
            file.change(_change_of(needs, later))
            for _ in range(20):
                await service.reload.look()
            assert value(service, "evalstream_configuration_refused") == 1
            refusals = [each for each in caplog.messages if "configuration refused" in each]
            assert len(refusals) == 1, "a line for the reason, not for each look"
            assert "later" in refusals[0]
            assert value(service, "evalstream_configuration_changes_total", result="refused") == 1
            later.mkdir()
            for _ in range(8):
                await service.reload.look()
            refusals = [each for each in caplog.messages if "configuration refused" in each]
            assert len(refusals) == 2, "another reason replaces the first one"
            later.rmdir()
            golden = {"turn_id": "g", "input": "a", "actual_output": "b"}
            later.write_text(
                {"authority": (tmp_path / "ours-ca.pem").read_text(), "golden": json.dumps(golden)}.get(needs, "k3y")
            )
            for _ in range(8):
                await service.reload.look()
            assert value(service, "evalstream_configuration_refused") == 0
            assert value(service, "evalstream_configuration_number") == 2
            assert value(service, "evalstream_configuration_changes_total", result="taken") == 1


async def test_what_others_have_taken_is_taken_once_what_it_needs_is_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And a file that was refused here turns nobody back to it, once others have gone on."""
    later, needed = tmp_path / "later", tmp_path / "needed"
    async with serve_judge() as url:
        file = ConfigFile(tmp_path, url)
        (tmp_path / "b").mkdir()
        others = ConfigFile(tmp_path / "b", url)
        async with running(load(file.path), {"evaluate", "watch"}, path=file.path) as service:
            file.change(_change_of("golden", later))
            for _ in range(2):
                await service.reload.look()
            assert value(service, "evalstream_configuration_refused") == 1
            others.values |= {"log": file.values["log"], "golden": {"path": str(needed)}}
            others.change(lambda values: values["monitors"]["all"].update(sample=0.5))
            history = ConfigurationHistory(await GeneratedStepsStore.open(service.logs.definitions), load(file.path))
            assert await history.take(load(others.path)) == 2
            for _ in range(20):
                await service.reload.look()
            assert value(service, "evalstream_configuration_number") == 1
            assert len([each for each in caplog.messages if "configuration refused" in each]) == 2, "one for each file"
            for path in (later, needed):
                path.write_text(json.dumps({"turn_id": "g", "input": "a", "actual_output": "b"}))
                for _ in range(8):
                    await service.reload.look()
            assert value(service, "evalstream_configuration_number") == 2
            assert value(service, "evalstream_configuration_refused") == 1
            assert "monitors.all.sample than this process runs" in caplog.messages[-1], "the file is not what runs"


async def test_a_comment_makes_a_file_that_is_refused_no_old_one(tmp_path: Path) -> None:
    """It was called the running configuration, and /readyz was content."""
    async with serve_judge() as url:
        file = ConfigFile(tmp_path, url)
        async with running(load(file.path), {"evaluate", "watch"}, path=file.path) as service:
            file.change(_change_of("golden", tmp_path / "later"))
            for end in ("", "# a comment"):
                file.path.write_text(f"{json.dumps(file.values)}{end}")
                for _ in range(2):
                    await service.reload.look()
                assert value(service, "evalstream_configuration_refused") == 1
            file.change(lambda values: values.pop("golden"))
            await service.reload.look()
            assert value(service, "evalstream_configuration_number") == 1, "the file may be half written"
            await service.reload.look()
            assert value(service, "evalstream_configuration_number") == 2


async def test_a_file_that_settles_is_taken_without_a_signal(tmp_path: Path) -> None:
    async with serve_judge() as url:
        file = ConfigFile(tmp_path, url)
        async with running(load(file.path), {"evaluate"}, path=file.path) as service:
            file.change(lambda values: values["monitors"]["all"].update(sample=0.5))
            await service.reload.look()
            assert value(service, "evalstream_configuration_changes_total", result="taken") == 0, (
                "it may be half written"
            )
            await service.reload.look()
            assert value(service, "evalstream_configuration_changes_total", result="taken") == 1


async def test_no_secret_reaches_the_log(tmp_path: Path) -> None:
    async with serve_judge() as url:
        file = ConfigFile(tmp_path, url)
        file.change(lambda values: values["judges"]["main"].update(headers={"x-key": "h3ader"}))
        file.change(lambda values: values.update(alerts={"webhook": "https://hooks.example/s3cret"}))
        async with running(load(file.path), {"evaluate"}, path=file.path) as service:
            stored = [each.value async for batch in service.logs.definitions.read(0, 0) for each in batch]
    assert any(b"evaluation_steps" in each for each in stored)
    for secret in (b"k3y", b"h3ader", b"s3cret"):
        assert not any(secret in each for each in stored)


async def test_another_key_is_used_without_a_new_number(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with serve_judge() as url:
        file = ConfigFile(tmp_path, url)
        async with running(load(file.path), {"evaluate"}, path=file.path) as service:
            file.change(lambda values: values["judges"]["main"].update(api_key="another"))
            await look(service)
            assert value(service, "evalstream_configuration_changes_total", result="taken") == 1
            await put(service, range(3))
            await until(service, answers=3, short=3)
            controls = [
                json.loads(record.value)
                async for batch in service.logs.evaluations.read(0, 0)
                for record in batch
                if record.headers == CONTROL_HEADERS
            ]
        assert [each["configuration"] for each in controls if "configuration" in each] == [1]
        assert "replaces configuration 1" not in caplog.text


async def test_the_preview_names_a_key_that_is_removed(tmp_path: Path) -> None:
    """A key in the file became one in a file of its own, and only the new key was listed."""
    file = ConfigFile(tmp_path, "http://127.0.0.1:1")
    async with running(load(file.path), {"evaluate"}, path=file.path):
        (tmp_path / "key.txt").write_text("k3y")
        file.change(lambda values: values["judges"]["main"].pop("api_key"))
        file.change(lambda values: values["judges"]["main"].update(api_key_file="key.txt"))
        assert "no restart judges.main.api_key and judges.main.api_key_file: in force" in await compared(file)


async def test_a_reload_under_load_loses_nothing_and_judges_nothing_twice(tmp_path: Path) -> None:
    judge = FaultyJudge(Faults(latency=0.02))
    async with serve_judge(judge) as url:
        file = ConfigFile(tmp_path, url)
        async with running(load(file.path), {"evaluate"}, path=file.path) as service:
            for start in range(0, 600, 20):
                await put(service, range(start, start + 20))
                if start % 120 == 60:
                    steps = [f"Say whether it answers, in {start} words."]
                    file.change(
                        lambda values, steps=steps: values["evaluators"]["answers"].update(evaluation_steps=steps)
                    )
                    await look(service)
                await asyncio.sleep(0.02)
            made = await until(service, answers=600, short=600)
        assert judge.calls == 600
        order = list(dict.fromkeys(versions(made)))
        assert len(order) == 6
        assert versions(made) == sorted(versions(made), key=order.index), "one version per position"
        assert max(Counter(each.evaluation_id for each in made).values()) == 1
        await clean(file)


class HesitantJudge(FaultyJudge):
    """Does not answer about the first turn until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.told = asyncio.Event()

    async def _complete(self, request: web.Request) -> web.Response:
        if b"What is 0?" in await request.read():
            await self.told.wait()
        return await super()._complete(request)


async def test_a_copy_of_the_logs_takes_along_what_several_configurations_have_left(tmp_path: Path) -> None:
    """What is unfinished is made by the newest; what one of before has made is made by no other."""
    judge = HesitantJudge()
    async with serve_judge(judge) as url:
        file = ConfigFile(tmp_path, url)
        file.change(lambda values: values.update(evaluate={"shutdown_grace": 0}))
        async with running(load(file.path), {"evaluate"}, path=file.path) as service:
            await put(service, range(10))
            await until(service, answers=9, short=10)
            file.change(lambda values: values["evaluators"]["answers"].update(evaluation_steps=AFTER))
            await look(service)
            await put(service, range(10, 20))
            await until(service, answers=19, short=20)
        old = load(file.path)
        file.change(lambda values: values["log"].update(path=str(tmp_path / "new.db")))
        said: list[str] = []
        assert await copy_logs(old, load(file.path), said.append) == 0, said
        async with open_logs(load(file.path).settings.log) as logs:
            commits = (await logs.turns.committed(GROUP)).values()
        past = [CommitMetadata.from_json(each.metadata, each.low_watermark).past for each in commits]
        assert set(past) == {(1, 2)}, "their evaluations can be superseded"
        judge.told.set()
        async with running(load(file.path), {"evaluate"}, path=file.path) as service:
            made = await until(service, answers=20, short=20)
        assert Counter((each.evaluator, each.subject.turn_id) for each in made).most_common(1)[0][1] == 1
        assert len(set(versions(made)[1:10])) == len({versions(made)[0], *versions(made)[10:]}) == 1
        assert versions(made)[0] != versions(made)[1]
        await clean(file)


async def test_a_copy_waits_for_what_was_judged_before_a_change_and_is_not_committed(tmp_path: Path) -> None:
    async with serve_judge() as url:
        file = ConfigFile(tmp_path, url)
        async with running(load(file.path), {"evaluate"}, path=file.path) as service:
            await put(service, range(10))
            await until(service, answers=10, short=10)
        old = load(file.path)
        control = ControlRecord(offset=15, configuration=2).to_record(0)
        async with open_logs(old.settings.log) as logs:
            await logs.evaluations.append([control])
        file.change(lambda values: values["log"].update(path=str(tmp_path / "new.db")))
        with pytest.raises(ConfigError, match="start it, let it read what waits, stop it"):
            await copy_logs(old, load(file.path), print)


async def test_a_preview_refuses_logs_that_were_copied_as_a_start_does(tmp_path: Path) -> None:
    """With the file of before the copy, `check` and its --diff said that it would take effect."""
    file = ConfigFile(tmp_path, "http://127.0.0.1:1")
    async with running(load(file.path), {"evaluate"}, path=file.path):
        pass
    old = load(file.path)
    file.change(lambda values: values["log"].update(path=str(tmp_path / "new.db")))
    await copy_logs(old, load(file.path), print)
    for preview in (running_configuration(old), asyncio.to_thread(lambda: list(unseen_lines(old)))):
        with pytest.raises(ConfigError, match=r"these logs were copied for .*, and both services would judge"):
            await preview
    with pytest.raises(ConfigError, match="these logs were copied for "):
        async with running(old, {"evaluate"}):
            pass


async def test_a_file_that_changes_while_the_service_starts_is_taken(tmp_path: Path) -> None:
    async with serve_judge() as url:
        file = ConfigFile(tmp_path, url)
        as_read = load(file.path)
        file.change(lambda values: values["monitors"]["all"].update(sample=0.5))
        async with running(as_read, {"evaluate"}, path=file.path) as service:
            await service.reload.look()
            assert value(service, "evalstream_configuration_changes_total", result="taken") == 1
            await service.reload.look()
            assert value(service, "evalstream_configuration_changes_total", result="taken") == 1


async def test_what_would_change_is_compared_with_what_runs(tmp_path: Path) -> None:
    async with serve_judge() as url:
        file = ConfigFile(tmp_path, url)
        async with running(load(file.path), {"evaluate"}, path=file.path) as service:
            file.change(lambda values: values["monitors"]["all"].update(sample=0.5))
            await look(service)
            assert "changes    nothing" in await compared(file)
            file.change(lambda values: values["evaluators"]["answers"].update(evaluation_steps=AFTER))
            lines = await compared(file)
            assert "no restart evaluators.answers.evaluation_steps: in force" in lines
            assert "compared with configuration 2, in force since" in lines
            assert "secret" not in lines
            file.change(lambda values: values.update(judges={"other": values["judges"]["main"]}))
            file.change(lambda values: values["evaluators"]["answers"].update(judge="other"))
            lines = await compared(file)
            assert "judges.main" in lines
            assert "api_key" not in lines


async def test_check_says_what_a_service_waits_for(tmp_path: Path) -> None:
    """It said "restart that service" where that takes the file by itself, and "in force" where it had refused it."""
    async with serve_judge() as url:
        file = ConfigFile(tmp_path, url)
        file.change(lambda values: values["export"].update(prometheus={"port": free_port()}))
        async with running(load(file.path), {"evaluate", "export"}, path=file.path) as service:
            file.change(_change_of("key", tmp_path / "later"))
            for _ in range(2):
                await service.reload.look()
            says = "configuration refused since "
            (tmp_path / "later").write_text("k3y")
            problem = (await asyncio.to_thread(running_metrics, load(file.path)))[1]
            assert (
                "; it refused a change of its file; to run beside that service, this file needs other ports. "
                in problem
            )
            assert f". That service says: {says}" in problem
            assert "restart" not in problem
            lines = (await compared(file)).splitlines()
            assert lines[2].startswith(f"at present {says}")
            for _ in range(8):
                await service.reload.look()
            assert (await asyncio.to_thread(running_metrics, load(file.path)))[1] == ""
            assert "at present" not in await compared(file)


async def test_the_preview_refuses_what_the_service_refuses(tmp_path: Path) -> None:
    async with serve_judge() as url:
        file = ConfigFile(tmp_path, url)
        file.change(lambda values: values["export"].update(prometheus={"port": free_port()}))
        async with running(load(file.path), {"evaluate", "export"}, path=file.path) as service:
            file.change(lambda values: values["evaluators"]["answers"].update(evaluation_steps=AFTER))
            lines = await compared(file)
            assert "no restart evaluators.answers.evaluation_steps: in force seconds after the file is saved\n" in lines
            (tmp_path / "plugins").mkdir()
            file.change(lambda values: values.update(plugins=str(tmp_path / "plugins")))
            file.change(lambda values: values.update(assemble={"attributes": ["plan"]}))
            lines = await compared(file)
            assert "restart    assemble.attributes and plugins: read only at a start" in lines
            assert (
                "waits      evaluators.answers.evaluation_steps: for that restart, as a file is read as a whole; alone, it would need no restart"
                in lines
            )
            assert "taken" not in lines
            await look(service)
            assert value(service, "evalstream_configuration_changes_total", result="refused") == 1
        assert "restart    assemble.attributes and plugins: read only at a start" in await compared(file), "by the log"
        file.change(lambda values: (values.pop("assemble"), values.pop("plugins")))
        file.change(lambda values: values["evaluators"]["answers"].update(evaluation_steps=BEFORE))
        assert "unless keys that only a start reads differ (no service answers" in await compared(file)


async def test_the_preview_names_the_keys_of_a_start_and_says_since_when_a_service_has_the_file(tmp_path: Path) -> None:
    """A file that was edited in place is taken before the command runs: `changes nothing`."""
    file = ConfigFile(tmp_path, "http://127.0.0.1:1")
    file.change(lambda values: values["export"].update(prometheus={"port": free_port()}))
    async with running(load(file.path), {"evaluate", "export"}, path=file.path) as service:
        file.change(lambda values: values["monitors"]["all"].update(sample=0.5))
        await look(service)
        lines = (await compared(file)).splitlines()
        at = lines[0].rpartition("in force since ")[2]
        assert (
            lines[2]
            == f"changes    nothing: the service took this file at {at}; to see changes before they apply, check a copy"
        )
        file.change(lambda values: values["log"].update(retention="1d"))
        assert "restart    log.retention: read only at a start; a running service refuses" in await compared(file)


async def test_the_preview_knows_each_key_that_only_a_start_reads(tmp_path: Path) -> None:
    """It said "in force seconds after" of a file with another `alerts.watcher`, which the service then refused."""
    file, port = ConfigFile(tmp_path, "http://127.0.0.1:1"), free_port()
    file.change(lambda values: values.update(export={"prometheus": {"port": port}}))
    changes: dict[str, Any] = {
        "log": {**file.values["log"], "retention": "1d"}, "receive": {"files": ["a.jsonl"]},
        "assemble": {"idle_timeout": "5s"}, "dialects": {"own": {"match": {"attributes": {"x": "y"}}, "input": "x.in"}},
        "feedback": {"wait": "1d"}, "redact": {"patterns": {"PIN": "[0-9]{4}"}},
        "store_text": False, "dead_letters": {"stall_after": "2m"}, "page": {"port": free_port()},
        "export": {**file.values["export"], "jsonl": {"path": "scores.jsonl"}},
        "alerts": {"watcher": {"webhook": "https://example.org/hook"}},
    }  # fmt: skip
    assert {*changes, "plugins"} == {*Settings.model_fields} - {*LIVE} | {each.partition(".")[0] for each in NOT_LIVE}
    async with running(load(file.path), {"evaluate", "export"}, path=file.path) as service:
        before = file.values
        half = {"all": before["monitors"]["all"] | {"sample": 0.5}}
        for name, changed in changes.items():
            file.values = {**before, "monitors": half, name: changed}
            file.write()
            await look(service)
            assert f": {name}" in (service.reload.exchange.process.status.problem or "")
            lines = await compared(file)
            assert f"\nrestart    {name}" in lines, lines
            assert "\nno restart" not in lines, lines
        file.values = {**before, "monitors": half, "alerts": {"webhook": "https://example.org/hook"}}
        file.write()
        lines = await compared(file)
    assert "no restart alerts.webhook and monitors.all.sample: in force" in lines, "which is not in the log"
    assert ("restart    " not in lines, "unless" not in lines) == (True, True)


async def test_the_preview_of_another_port_does_not_say_that_the_service_took_the_file(tmp_path: Path) -> None:
    """The service is not found on that port, so that what a start reads is not known; it refused the file."""
    file = ConfigFile(tmp_path, "http://127.0.0.1:1")
    file.change(lambda values: values.update(export={"prometheus": {"port": free_port()}}))
    async with running(load(file.path), {"evaluate", "export"}, path=file.path) as service:
        before, half = file.values, {"all": file.values["monitors"]["all"] | {"sample": 0.5}}
        moved = {"prometheus": {"port": free_port()}}
        own: dict[str, Any] = {
            "export": moved, "receive": {"files": ["a.jsonl"]}, "page": {"port": free_port()},
            "log": {**before["log"], "retention": "1d"}, "alerts": {"watcher": {"webhook": "https://example.org/hook"}},
        }  # fmt: skip
        not_live = {each.partition(".")[0] for each in NOT_LIVE}
        assert {*own} == {*Settings.model_fields} - {*LIVE, *AT_START} | not_live, "what each process may have alone"
        for changed in [{"export": {}}, *({"export": moved, key: other} for key, other in own.items())]:
            file.values = before | changed
            file.write()
            await look(service)
            assert "read only at a start" in (service.reload.exchange.process.status.problem or "")
            line = (await compared(file)).splitlines()[2]
            assert line.startswith("changes    nothing, unless keys that only a start reads differ (no "), line
            assert line.endswith("; the port itself may have changed)"), line
            file.change(lambda values: values.update(monitors=half))
            lines = await compared(file)
            assert "in force seconds after the file is saved, unless keys that only a start reads differ (no " in lines


PACKAGE = """
from typing import ClassVar
from evaluators import Evaluator, Score, Turn

class Terse(Evaluator[Turn]):
    kind: ClassVar[str] = "terse"
    needed_fields: ClassVar[frozenset[str]] = frozenset({"actual_output"})
    most: int = 9

    async def evaluate(self, case, judge):
        return Score(value=float(len(case.actual_output or "") < self.most))
"""


def install_package(folder: Path, version: str) -> None:
    """As pip installs it, in place of an earlier version."""
    for earlier in folder.glob("terse_evals-*"):
        shutil.rmtree(earlier)
    (metadata := folder / f"terse_evals-{version}.dist-info").mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: terse-evals\nVersion: {version}\n")
    (metadata / "entry_points.txt").write_text("[evalstream.evaluators]\nterse = terse_evals:Terse\n")
    (folder / "terse_evals.py").write_text(PACKAGE)
    _installed.cache_clear()  # as in the new process of a command


async def test_the_preview_knows_a_package_that_was_installed_or_upgraded_after_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said "in force seconds after the file is saved", and the service knew no such kind, or no such key."""
    file, folder = ConfigFile(tmp_path, "http://127.0.0.1:1"), tmp_path / "site"
    file.change(lambda values: values["export"].update(prometheus={"port": free_port()}))

    def add(**keys: object) -> None:
        file.change(lambda values: values["evaluators"].update(words={"kind": "terse", **keys}))
        file.change(lambda values: values["monitors"]["all"].update(evaluators=["short", "words"]))

    async with running(load(file.path), {"evaluate", "export"}, path=file.path):
        monkeypatch.syspath_prepend(str(folder))
        install_package(folder, "1.2")
        assert "changes    nothing" in await compared(file), "the file does not use it"
        add()
        lines = await compared(file)
    assert "restart    the code of terse-evals 1.2: read only at a start; a running service refuses" in lines, lines
    assert "waits      evaluators.words and monitors.all.evaluators: for that restart\n" in lines
    async with running(load(file.path), {"evaluate", "export"}, path=file.path):
        add(threshold=0.5)
        assert "no restart evaluators.words.threshold: in force seconds after" in await compared(file)
        add()
        install_package(folder, "1.3")
        assert "restart    the next start loads changed code, of evalstream or a plug-in" in await compared(file)
        add(most=5)
        lines = await compared(file)
    assert "restart    the code of terse-evals 1.3: read only at a start; a running service refuses" in lines, lines
    assert "no restart" not in lines


@pytest.mark.parametrize("log", ["missing", "empty", "older"])
async def test_the_preview_says_that_a_start_alone_reads_the_log(tmp_path: Path, log: str) -> None:
    """`no such file; run the command where the service's log.path leads to its file`, which was where it ran."""
    file = ConfigFile(tmp_path, "http://127.0.0.1:1")
    file.change(lambda values: values["export"].update(prometheus={"port": free_port()}))
    other = tmp_path / f"{log}.db"
    if log == "older":
        async with running(load(file.path), {"evaluate"}, path=file.path):
            pass
        shutil.copy(tmp_path / "evalstream.db", other)
        file.change(lambda values: values["monitors"]["all"].update(sample=0.5))
    async with running(load(file.path), {"evaluate", "export"}, path=file.path):
        file.change(lambda values: values["log"].update(path=str(other)))
        if log == "empty":
            other.touch()
        with pytest.raises(ConfigError, match=r"evalstream\.yaml: log\.path: read only at a start; a running service"):
            await compared(file)


async def test_the_preview_refuses_other_partitions_as_a_start_does(tmp_path: Path) -> None:
    """It said that a start reads them, and the start refused them."""
    file = ConfigFile(tmp_path, "http://127.0.0.1:1")
    file.change(lambda values: values["export"].update(prometheus={"port": free_port()}))
    async with running(load(file.path), {"evaluate", "export"}, path=file.path):
        file.change(lambda values: values["log"].update(partitions=7))
        with pytest.raises(ConfigError, match="with 1 partition, not 7") as preview:
            await compared(file)
    with pytest.raises(ConfigError) as start:
        async with running(load(file.path), {"evaluate", "export"}, path=file.path):
            pass
    assert str(start.value).removeprefix("log: ") in str(preview.value)


async def test_the_preview_says_what_its_cost_leaves_out(tmp_path: Path) -> None:
    """After a restart the calls so far were forgotten, and boosts were left out, without a word."""
    file = ConfigFile(tmp_path, "http://127.0.0.1:1")
    file.change(lambda values: values["export"].update(prometheus={"port": free_port()}))
    async with running(load(file.path), {"evaluate", "export"}, path=file.path):
        file.change(lambda values: values["monitors"]["all"].update(sample=0.2, boost={"error": 3}))
        lines = (await compared(file)).splitlines()
    [at] = (number for number, line in enumerate(lines) if line.startswith("cost  "))
    assert lines[at + 1] == "           no priced call of the service is known since its start"
    async with running(load(file.path), {"evaluate"}, path=file.path):
        file.change(lambda values: values["monitors"]["all"].update(sample=0.3))
        others = await compared(file)
        file.change(lambda values: values["monitors"]["all"].update(sample=0.2))
        file.change(lambda values: values["evaluators"]["short"].update(maximum=90))
        unasked = await compared(file)
    assert ("evaluators.short.maximum" in unasked, "which counts costs" in unasked) == (True, False), "asks no judge"
    assert "no priced call" not in others
    assert "the process on this port has no stage export, which counts costs" in others
    assert lines[at + 2].startswith("           all: sampled more often: errors × 3 (judge calls and costs here do not")


PLUGIN = """
from typing import ClassVar
from evaluators import Evaluator, Judge, Score, Turn

class Brief(Evaluator[Turn]):
    kind: ClassVar[str] = "brief"
    needs_judge: ClassVar[bool] = False
    revision: ClassVar[int] = 1
    needed_fields: ClassVar[frozenset[str]] = frozenset({"actual_output"})

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        return Score(value=1.0)
"""


async def test_the_first_plug_in_and_its_evaluator_need_one_restart(tmp_path: Path) -> None:
    """Alone, the evaluator needed no restart, it said; the running service does not know its kind, and refuses it."""
    plugin = tmp_path / "mine" / "brief.py"
    plugin.parent.mkdir()
    plugin.write_text(PLUGIN)
    async with serve_judge() as url:
        file = ConfigFile(tmp_path, url)
        file.change(lambda values: values["export"].update(prometheus={"port": free_port()}))
        try:
            async with running(load(file.path), {"evaluate", "export"}, path=file.path):
                file.change(lambda values: values.update(plugins=str(plugin.parent)))
                file.change(lambda values: values["evaluators"].update(brief={"kind": "brief"}))
                lines = await compared(file)
                assert "plugins and the code of plug-ins: read only at a start" in " ".join(lines.split())
                assert "waits      evaluators.brief: for that restart\n" in lines
        finally:
            forget()


async def test_the_preview_knows_the_version_of_a_plug_in_that_changed(tmp_path: Path) -> None:
    """It said `restart plugins` alone, and `rejudge --dry-run` already counted by the new version."""
    plugin = tmp_path / "mine" / "brief.py"
    plugin.parent.mkdir()
    plugin.write_text(PLUGIN)
    file = ConfigFile(tmp_path, "http://127.0.0.1:1")
    file.change(lambda values: values["export"].update(prometheus={"port": free_port()}))
    file.change(lambda values: values.update(plugins=str(plugin.parent), evaluators={"brief": {"kind": "brief"}}))
    file.change(lambda values: values.update(monitors={"all": {"evaluators": ["brief"]}}))
    try:
        config = load(file.path)
        before = evaluator_version_in(config, "brief")
        async with running(config, {"evaluate", "export"}, path=file.path):
            assert "changes    nothing" in await compared(file)
            plugin.write_text(PLUGIN.replace("Score(value=1.0)", "Score(value=0.5)"))
            forget()
            assert "another configuration: the code of plug-ins differs; to take this file, restart" in (
                await asyncio.to_thread(running_metrics, load(file.path))
            )[1]  # fmt: skip
            lines = await compared(file)
            assert "no version changes: if a plug-in's evaluator now scores" in lines
            # it said that the service refuses the file, which takes it: the folder is the same
            file.change(lambda values: values["monitors"]["all"].update(sample=0.5))
            lines = await compared(file)
            assert "no restart monitors.all.sample: in force seconds after the file is saved" in lines
            assert "restart    the next start loads changed code, of evalstream or a plug-in" in lines
            assert ("waits" not in lines, "unless plugins names another folder" not in lines) == (True, True)
            # what the code of the service may not know is refused, and it said "in force seconds after"
            plugin.write_text(PLUGIN.replace("    async", "    limit: int = 3\n\n    async"))
            plugin.with_name("short.py").write_text(PLUGIN.replace("Brief", "Short").replace('"brief"', '"short"'))
            for new in ({"brief": {"kind": "brief", "limit": 2}}, {"brief": {"kind": "short"}}):
                forget()
                file.change(lambda values, new=new: values.update(evaluators=new))
                lines = await compared(file)
                assert (
                    "restart    the code of plug-ins: read only at a start; a running service refuses the changed file"
                    in lines
                )
                assert ": for that restart\n" in lines, "a change that needs no restart alone, it said"
            file.change(lambda values: values.update(evaluators={"brief": {"kind": "brief"}}))
            plugin.write_text(PLUGIN.replace("= 1\n", "= 2\n"))
            forget()
            after = evaluator_version_in(load(file.path), "brief")
            lines = await compared(file)
        assert f"evaluator  brief of all: version {before} → {after}, for new subjects" in lines
        assert "no version changes" not in lines
        lines = await compared(file)
        assert "restart    the next start loads changed code" in lines, "by the log alone it named the key plugins"
        assert "restart    plugins" not in lines
    finally:
        forget()


RENAMED = PLUGIN.replace("    async", "    limit: int = 3\n\n    async")


@pytest.mark.parametrize(
    ("before", "after", "keys"),
    [
        (PLUGIN, PLUGIN.replace("= 1\n", "= 2\n"), {}),
        (RENAMED.replace("limit", "most"), RENAMED, {"most": 4}),
        (PLUGIN, PLUGIN, {}),
    ],
    ids=["a raised revision", "the old definition is no longer valid", "the same code"],
)
async def test_what_the_code_of_before_has_judged_is_not_judged_again_after_a_kill(
    tmp_path: Path, before: str, after: str, keys: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan of the configuration of before had the versions of the new code, so its evaluations were unknown."""
    plugin = tmp_path / "mine" / "brief.py"
    plugin.parent.mkdir()
    plugin.write_text(before)
    file = ConfigFile(tmp_path, "http://127.0.0.1:1")
    file.change(
        lambda values: values.update(plugins=str(plugin.parent), evaluators={"brief": {"kind": "brief", **keys}})
    )
    file.change(lambda values: values.update(monitors={"all": {"evaluators": ["brief"]}}))
    try:
        with monkeypatch.context() as killed:  # in the first moments: nothing is committed
            killed.setattr(Ledger, "write_stopped", AsyncMock())
            killed.setattr(ConsumerRunner, "commit", AsyncMock())
            async with running(load(file.path), {"evaluate"}, path=file.path) as service:
                await put(service, range(5))
                made = await until(service, brief=5)
        plugin.write_text(after)
        forget()
        file.change(lambda values: values.update(evaluators={"brief": {"kind": "brief"}}))
        async with running(load(file.path), {"evaluate"}, path=file.path) as service:
            await put(service, range(5, 8))
            again = await until(service, brief=8)
        assert versions(again, "brief")[:5] == versions(made, "brief")
        assert (len({*versions(again, "brief")}) == 1) == (before == after)
        await clean(file)
    finally:
        forget()


@pytest.mark.parametrize(
    ("broken", "change"),
    [
        (
            "def (\n",
            "next start fails: plugins: mine/brief.py: cannot be loaded (SyntaxError: invalid syntax (brief.py, line 13))",
        ),
        ("\nf()\n", "fails: plugins: mine/brief.py: cannot be loaded, line 14 (NameError: name 'f' is"),
        ("\nBrief.kind = 'b'\n", "fails: evaluators.brief.kind: unknown evaluator kind 'brief'"),
        ("\nprint('loaded')\n", "the code of plug-ins has changed, and a restart alone reads it"),
    ],
)
async def test_a_changed_plug_in_serves_on_and_the_log_says_what_the_next_start_makes_of_it(
    tmp_path: Path, broken: str, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A reload looked for a class's line in the file that was being edited, and the process ended.

    Then it said that the file has what runs already, and the next start failed.
    """
    plugin = tmp_path / "mine" / "brief.py"
    plugin.parent.mkdir()
    plugin.write_text(PLUGIN)
    file = ConfigFile(tmp_path, "http://127.0.0.1:1")
    file.change(lambda values: values.update(plugins=str(plugin.parent), evaluators={"brief": {"kind": "brief"}}))
    file.change(lambda values: values.update(monitors={"all": {"evaluators": ["brief"]}}))
    try:
        async with running(load(file.path), {"evaluate"}, path=file.path) as service:
            await look(service)
            assert "code of plug-ins" not in caplog.text
            plugin.write_text(PLUGIN + broken)
            await look(service)
            assert change in caplog.messages[-1], "on SIGHUP"
            caplog.clear()
            linecache.clearcache()
            file.change(lambda values: values["monitors"]["all"].update(sample=0.5))
            await look(service)
            assert value(service, "evalstream_configuration_refused") == 0, "its code is in memory"
            assert value(service, "evalstream_configuration_changes_total", result="taken") == 1
            assert change in caplog.messages[-1], "as a changed file is taken"
    finally:
        forget()


def test_a_start_that_plug_ins_end_in_any_way_fails(tmp_path: Path) -> None:
    """Only lines with the file's path counted: a plug-in that exits was said to need a restart alone."""
    plugin = tmp_path / "mine" / "brief.py"
    plugin.parent.mkdir()
    plugin.write_text(PLUGIN)
    file = ConfigFile(tmp_path, "http://127.0.0.1:1")
    file.change(lambda values: values.update(plugins=str(plugin.parent), evaluators={"brief": {"kind": "brief"}}))
    file.change(lambda values: values.update(monitors={"all": {"evaluators": ["brief"]}}))
    try:
        config = load(file.path)
        for code, change in {
            "import sys; sys.exit(3)": "fails: plugins: mine/brief.py: cannot be loaded, line 14 (SystemExit: 3)",
            "import os; os._exit(0)": "fails: the process ended with status 0",
            "raise KeyboardInterrupt": "fails: KeyboardInterrupt",
            f"import sys; print('{file.path}: a note', file=sys.stderr)": "has changed, and a restart alone reads it",
            "raise ValueError('one\\ntwo')": "line 14 (ValueError: one two)",
        }.items():
            plugin.write_text(f"{PLUGIN}\n{code}\n")
            assert (said := code_change(config, file.path)) is not None
            assert change in said
            assert "\n" not in said
    finally:
        forget()


@pytest.mark.parametrize("code", ["the same", "changed"])
async def test_a_refused_key_that_a_plug_ins_changed_code_may_have_is_said_to_need_a_restart(
    tmp_path: Path, code: str
) -> None:
    """The new key looked misspelt: "unknown key; choose from …", though a restart was all that it needed."""
    plugin = tmp_path / "mine" / "brief.py"
    plugin.parent.mkdir()
    plugin.write_text(PLUGIN)
    file = ConfigFile(tmp_path, "http://127.0.0.1:1")
    file.change(lambda values: values.update(plugins=str(plugin.parent), evaluators={"brief": {"kind": "brief"}}))
    file.change(lambda values: values.update(monitors={"all": {"evaluators": ["brief"]}}))
    try:
        async with running(load(file.path), {"evaluate"}, path=file.path) as service:
            if code == "changed":
                plugin.write_text(PLUGIN.replace("    async", "    floor: float = 0.0\n\n    async"))
            file.change(lambda values: values["evaluators"]["brief"].update(floor=0.1))
            await look(service)
            refused = service.reload.exchange.process.status.problem or ""
            assert "evaluators.brief.floor: unknown key" in refused
            restart = "plugins: their code has changed since the start, and a restart alone reads it"
            assert (restart in refused) == (code == "changed")
    finally:
        forget()


async def test_a_fault_while_a_file_is_checked_refuses_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = ConfigFile(tmp_path, "http://127.0.0.1:1")
    async with running(load(file.path), {"evaluate"}, path=file.path) as service:

        def fail(*_: object, **__: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr("collector.service.live.reload.load", fail)
        file.change(lambda values: values["monitors"]["all"].update(sample=0.5))
        await look(service)
        assert value(service, "evalstream_configuration_refused") == 1
        assert "the configuration cannot be prepared: ZeroDivisionError()" in caplog.text


def forget() -> None:
    """What a new process does: it loads the folder again."""
    for folder in folders():
        sys.meta_path.remove(folder)
    for name in [name for name in sys.modules if name.startswith("evalstream_plugins_")]:
        del sys.modules[name]
    _installed.cache_clear()


async def compared(file: ConfigFile) -> str:
    config = load(file.path)
    return "\n".join(change_lines(config, await running_configuration(config)))


async def test_the_page_says_which_configuration_runs_since_when(tmp_path: Path) -> None:
    async with serve_judge() as url:
        file = ConfigFile(tmp_path, url)
        file.change(lambda values: values.update(page={"port": 0}))
        before = time.time()
        async with running(load(file.path), {"evaluate", "page"}, path=file.path) as service:
            first = await shown_configuration(service)
            assert first["number"] == 1
            assert first["since"] >= before - 1
            file.change(lambda values: values["monitors"]["all"].update(sample=0.5))
            await look(service)
            second = await shown_configuration(service)
            assert second["number"] == 2
            assert second["since"] > first["since"]
            assert value(service, "evalstream_configuration_number") == 2
        async with running(load(file.path), {"evaluate", "page"}, path=file.path) as service:
            again = await shown_configuration(service)
            assert again["number"] == 2
            assert again["since"] == pytest.approx(second["since"], abs=5), "not since the restart"
            assert value(service, "evalstream_configuration_number") == 2


async def test_the_share_of_passes_is_since_the_configuration_with_the_threshold(tmp_path: Path) -> None:
    """It was "since" the last score before the change."""
    file = ConfigFile(tmp_path, "http://127.0.0.1:1")
    file.values["monitors"]["all"]["evaluators"] = ["short"]
    segments = {"prometheus": {"port": 0, "segment_by": {"service": ["web"]}}}
    file.change(lambda values: values.update(page={"port": 0}, alerts={"by_segment": True}, export=segments))
    async with running(load(file.path), {"evaluate", "page"}, path=file.path) as service:
        for first, threshold in ((0, 0.9), (5, 0.8)):
            await put(service, range(first, first + 5))
            await until(service, short=first + 5)
            async with asyncio.timeout(30):
                while (shown := await overview(service))["tracks"][0]["whole"]["scores"] < first + 5:
                    await asyncio.sleep(0.05)
            if first:
                break
            await asyncio.sleep(1.0)  # the last score before the change is older than it
            file.change(lambda values, threshold=threshold: values["evaluators"]["short"].update(threshold=threshold))
            await look(service)
        assert shown["configuration"]["number"] == 2
        assert shown["tracks"][0]["passed_since"] == shown["configuration"]["since"]
        assert shown["configuration"]["by_segment"], "the page's badges say that they are of the whole"
    async with running(load(file.path), {"evaluate", "page"}, path=file.path) as service:
        async with asyncio.timeout(30):
            while not (shown := await overview(service))["tracks"][0]["whole"]["scores"]:
                await asyncio.sleep(0.05)
        assert shown["tracks"][0]["passed_since"] == shown["configuration"]["since"], "after a restart, too"


async def test_an_audited_mean_is_compared_with_the_target_of_its_evaluator(tmp_path: Path) -> None:
    """Its alert is on its audits, so the page did not know its target: a mean above it was below the threshold."""
    async with serve_judge() as url:
        file = ConfigFile(tmp_path, url)
        strong = {**file.values["judges"]["main"], "model": "strong"}
        audit_of = {"judge": "strong", "share": 0.3}
        targets = {"answers": 0.3, "short": 0.2}
        file.values["judges"]["strong"] = strong
        file.values["evaluators"]["answers"].update(audit=audit_of, threshold=0.6)
        file.values["monitors"]["all"]["alerts"] = {"targets": targets}
        file.change(lambda values: values.update(page={"port": 0}))
        async with running(load(file.path), {"evaluate", "page"}, path=file.path) as service:
            await put(service, range(1))
            async with asyncio.timeout(30):
                while len(tracks := (await overview(service))["tracks"]) < len(targets):
                    await asyncio.sleep(0.05)
    assert {track["evaluator"]: track["target"] for track in tracks} == targets


async def overview(service: Running) -> dict[str, Any]:
    async with ClientSession() as client:
        return await (await client.get(f"http://127.0.0.1:{service.page_port}/api/overview")).json()


async def shown_configuration(service: Running) -> dict[str, float]:
    return (await overview(service))["configuration"]


async def test_the_level_of_the_log_changes_with_the_file(tmp_path: Path) -> None:
    root, kafka = logging.getLogger(), logging.getLogger("kafka")
    levels = root.level, kafka.level
    try:
        async with serve_judge() as url:
            file = ConfigFile(tmp_path, url)
            async with running(load(file.path), {"evaluate"}, path=file.path) as service:
                service.changes.append(without_preparation(take_log_level))
                file.change(lambda values: values.update(log_level="error"))
                await look(service)
                assert (root.level, kafka.level) == (logging.ERROR, logging.ERROR)
                file.change(lambda values: values.pop("log_level"))
                await look(service)
                assert (root.level, kafka.level) == (logging.INFO, logging.WARNING)
    finally:
        root.setLevel(levels[0])
        kafka.setLevel(levels[1])


async def test_a_partition_whose_owner_has_not_taken_the_newest_one_adds_up(tmp_path: Path) -> None:
    """It refuses it, or has died before: what it owns is judged by the one of before, and that is due."""
    async with serve_judge() as url:
        file = ConfigFile(tmp_path, url)
        async with running(load(file.path), {"evaluate"}, path=file.path) as service:
            await put(service, range(10))
            await until(service, answers=10, short=10)
            file.change(lambda values: values["evaluators"]["answers"].update(evaluation_steps=AFTER))
            others = ConfigurationHistory(await GeneratedStepsStore.open(service.logs.definitions), load(file.path))
            assert await others.take(load(file.path)) == 2
            await put(service, range(10, 20))
            made = await until(service, answers=20, short=20)
            assert len(set(versions(made))) == 1
        await clean(file)


@pytest.mark.parametrize("stops", [True, False])
async def test_nothing_waits_for_a_judge_that_refuses_everything(tmp_path: Path, *, stops: bool) -> None:
    """With a wrong key, the correction came into force 20 s after it was saved, and a stop took as long."""
    async with serve_judge(FaultyJudge(Faults(reply=(401, "no")))) as url, serve_judge() as better:
        file = ConfigFile(tmp_path, url)
        file.values["evaluate"] = {"concurrency": 3}
        file.change(lambda values: values["judges"]["main"].update(breaker={"failures": 4}))
        async with running(load(file.path), {"evaluate"}, path=file.path) as service:
            await put(service, range(12))
            async with asyncio.timeout(30):
                while not value(service, "evalstream_judge_breaker_state", judge="main", state="open"):
                    await asyncio.sleep(0.05)
            started = time.monotonic()
            if not stops:
                file.change(lambda values: values["judges"]["main"].update(base_url=better))
                await look(service)
                made = await until(service, answers=12, short=12)
                assert max(Counter(each.evaluation_id for each in made).values()) == 1
        assert time.monotonic() - started < 10
        file.change(lambda values: values["judges"]["main"].update(base_url=better))
        async with running(load(file.path), {"evaluate"}, path=file.path) as service:
            await until(service, answers=12, short=12)
        await clean(file)


@pytest.mark.parametrize("other", [True, False])
async def test_a_judge_that_is_no_longer_configured_is_out_no_longer(tmp_path: Path, *, other: bool) -> None:
    """The operator replaced a judge that was out, and its alert went on until the process was started again."""
    out = FaultyJudge(Faults(reply=(401, "no")))
    async with serve_judge(out) as url, serve_judge() as better:
        file = ConfigFile(tmp_path, url)
        file.values["evaluate"] = {"shutdown_grace": "100ms"}
        file.change(lambda values: values["judges"]["main"].update(breaker={"failures": 3, "first_wait": "100ms"}))
        async with running(load(file.path), {"evaluate"}, path=file.path) as service:
            state = "evalstream_judge_breaker_state"
            await put(service, range(5))
            async with asyncio.timeout(30):
                while not value(service, state, judge="main", state="open"):
                    await asyncio.sleep(0.05)
            assert value(service, "evalstream_health_check_ok", check="judges") == 0
            file.values["judges"] = {"new": {"model": "m", "base_url": better, "api_key": "k3y"}}
            file.values["evaluators"]["answers"]["judge"] = "new"
            if not other:
                del file.values["judges"], file.values["evaluators"]["answers"]
                file.values["monitors"]["all"]["evaluators"] = ["short"]
            file.write()
            await look(service)
            assert {each["judge"] for each in labels(service, state)} == ({"new"} if other else set())
            assert value(service, "evalstream_health_check_ok", check="judges") == 1


async def test_a_machine_that_the_changed_file_has_not_reached_turns_nobody_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It restarts with the old file while others run the new one; a signal says that the old one is meant."""
    monkeypatch.setattr(SqliteLog, "shared", property(lambda _log: True))
    monkeypatch.setattr(app, "others_evaluate", AsyncMock(return_value=True))
    async with serve_judge() as url:
        file = ConfigFile(tmp_path, url)
        file.change(lambda values: values["export"].update(prometheus={"port": free_port()}))
        old = file.path.read_text()
        async with running(load(file.path), {"evaluate"}, path=file.path) as service:
            await put(service, range(5))
            await until(service, answers=5, short=5)
            file.change(lambda values: values["evaluators"]["answers"].update(evaluation_steps=AFTER))
            await look(service)
            await put(service, range(5, 10))
            await until(service, answers=10, short=10)
        file.path.write_text(old)
        preview = await compared(file)
        assert "\nstart      takes configuration 2, in force since " in preview
        assert ", not this file: it has configuration 1 (of " in preview
        assert "; if none runs, start after log.kafka.session_timeout" in preview
        assert "seconds after the file is saved" not in preview, "a start takes the newest one"
        monkeypatch.setattr(app, "others_evaluate", AsyncMock(return_value=False))
        assert "seconds after the file is saved" in await compared(file), "alone, its start takes it"
        monkeypatch.setattr(app, "others_evaluate", AsyncMock(return_value=True))
        async with running(load(file.path), {"evaluate"}, path=file.path) as service:
            await service.reload.look()
            await service.reload.look()
            assert value(service, "evalstream_configuration_number") == 2
            assert value(service, "evalstream_configuration_refused") == 1
            assert "has configuration 1 (of " in caplog.messages[-1], "the reason, as in /readyz"
            assert "others have replaced by configuration 2 (of " in caplog.messages[-1]
            assert "; to make all go back to configuration 1, send SIGHUP to this process; else" in caplog.messages[-1]
            keep = f"`evalstream check -c {file.path} --diff` lists the differences"
            assert keep in caplog.messages[-1], "no other process may have the newest file any more"
            preview = await compared(file)
            assert "\nat present configuration refused since " in preview
            assert "seconds after the file is saved" not in preview, "it is this process's file, which it refuses"
            with monkeypatch.context() as later:  # the next release may say it otherwise
                later.setattr(ConfigurationHistory, "replaced", lambda _self, _entry: "what others have replaced")
                assert "seconds after the file is saved" not in await compared(file)
            await put(service, range(10, 15))
            made = await until(service, answers=15, short=15)
            assert len(set(versions(made)[5:])) == 1
            await look(service)
            assert value(service, "evalstream_configuration_number") == 3
            assert value(service, "evalstream_configuration_refused") == 0
            back = [each for each in caplog.records if "replaces configuration 2 for all processes" in each.message]
            assert [each.levelname for each in back] == ["WARNING"]
            assert str(file.path) in back[0].message
            assert back[0].message.endswith(
                "goes back to configuration 1; most keys of export, log, page and receive are in no numbered configuration: compare these yourself"
            )
            await put(service, range(15, 20))
            made = await until(service, answers=20, short=20)
            assert len({versions(made)[0], *versions(made)[15:]}) == 1
        file.change(lambda values: values["export"].pop("prometheus"))  # no process ran that stage
        await clean(file)


async def test_a_start_with_an_earlier_file_judges_its_backlog_by_the_newest_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """For its first seconds it judged by the earlier file: the judge that had been replaced, and the old rate."""
    monkeypatch.setattr(SqliteLog, "shared", property(lambda _log: True))
    monkeypatch.setattr(app, "others_evaluate", AsyncMock(return_value=True))
    async with serve_judge() as url:
        file = ConfigFile(tmp_path, url)
        file.values["log_level"] = "error"
        file.write()
        old = file.path.read_text()
        async with running(load(file.path), {"evaluate"}, path=file.path) as service:
            await put(service, range(5))
            await until(service, answers=5, short=5)
            changed = {"evaluators": ["answers"], "sample": 0.5}
            file.change(lambda values: values["monitors"]["all"].update(changed))
            file.change(lambda values: values["evaluators"]["answers"].update(evaluation_steps=AFTER))
            file.change(lambda values: values.pop("log_level"))
            await look(service)
            await put(service, range(5, 100))  # its death leaves some of them
        newest = load(file.path)
        async with running(newest, {"watch"}) as service:
            await put(service, range(100, 200))
            in_force = service.reload.history.after(1)[0].since
        file.path.write_text(old)
        async with running(load(file.path), {"evaluate"}, path=file.path) as service:
            assert value(service, "evalstream_configuration_number") == 2, "before anything is judged"
            assert service.reload.exchange.process.status.in_force_since == in_force, "since the deployment took it"
            assert service.reload.exchange.process.config.settings.log_level is None
            key = keyed_salt(service.plan.key, "evalstream")
            sampled = sum(draw(key, f"c{number}") < 0.5 for number in range(5, 200))
            made = await until(service, answers=5 + sampled, short=5)
            assert set(versions(made)[5:]) == {evaluator_version_in(newest, "answers", "all")}
            assert any("send SIGHUP to this process" in each for each in caplog.messages), "its file differs"
        await clean(file)


async def test_a_file_that_another_process_has_made_the_newest_again_is_no_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal to one process had taken all back; the others went on to say that their file was replaced."""
    monkeypatch.setattr(SqliteLog, "shared", property(lambda _log: True))
    monkeypatch.setattr(app, "others_evaluate", AsyncMock(return_value=True))
    file = ConfigFile(tmp_path, "http://127.0.0.1:1")
    old = file.path.read_text()
    async with running(load(file.path), {"evaluate"}, path=file.path) as service:
        file.change(lambda values: values["monitors"]["all"].update(sample=0.5))
        await look(service)
    file.path.write_text(old)
    async with running(load(file.path), {"evaluate"}, path=file.path) as service:
        await service.reload.look()
        assert value(service, "evalstream_configuration_refused") == 1
        other = ConfigurationHistory(await service.logs.generated_steps(), load(file.path))
        await other.refresh()
        assert await other.take(load(file.path)) == 3
        await service.reload.look()
        assert value(service, "evalstream_configuration_number") == 3
        assert value(service, "evalstream_configuration_refused") == 0
    await clean(file)


@pytest.mark.parametrize("stages", [{"evaluate", "watch"}, {"watch"}])
async def test_a_start_with_an_earlier_file_looks_for_alerts_by_the_configuration_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stages: set[str]
) -> None:
    """While it waited for its partitions, which may last 45 s, it could post with the earlier file's targets."""
    monkeypatch.setattr(SqliteLog, "shared", property(lambda _log: True))
    monkeypatch.setattr(app, "others_evaluate", AsyncMock(return_value=True))
    file = ConfigFile(tmp_path, "http://127.0.0.1:1")
    file.values["alerts"] = {"watcher": {"webhook": "http://127.0.0.1:1/hook", "interval": 0.05}}
    file.change(lambda values: values["monitors"]["all"].update(alerts={"targets": {"short": 0.8}}))
    old = file.path.read_text()
    async with running(load(file.path), {"evaluate"}, path=file.path) as service:
        file.change(lambda values: values["monitors"]["all"].update(alerts={"targets": {"short": 0.6}}))
        await look(service)
    looked = list[float]()

    async def note(stage: WatchStage, now: float) -> list[AlertInstance]:
        del now
        looked.extend(detector.target for detector in stage.rules.targets.values())
        return []

    claim = SqliteLog.claim

    async def wait(log: SqliteLog, group: str) -> None:
        await asyncio.sleep(0.5)
        await claim(log, group)

    monkeypatch.setattr(WatchStage, "look", note)
    monkeypatch.setattr(SqliteLog, "claim", wait)
    file.path.write_text(old)
    async with running(load(file.path), stages, path=file.path), asyncio.timeout(10):
        while not looked:
            await asyncio.sleep(0.05)
    assert set(looked) == {0.6}
    await clean(file)


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_process_that_does_not_evaluate_says_that_its_file_is_not_what_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, restarts: bool
) -> None:
    """It said of an earlier file, and of one that nobody had taken, that it had the configuration that runs."""
    caplog.set_level(logging.INFO)
    file = ConfigFile(tmp_path, "http://127.0.0.1:1")
    for sample in (0.5, 0.25):
        file.change(lambda values, sample=sample: values["monitors"]["all"].update(sample=sample))
        async with running(load(file.path), {"evaluate"}):
            pass
    for sample, reason in (
        (0.5, "has configuration 1 (of "),
        (0.125, "has another monitors.all.sample than this process runs; "),
    ):
        if restarts:
            file.change(lambda values, sample=sample: values["monitors"]["all"].update(sample=sample))
        async with running(load(file.path), {"watch"}, path=file.path) as service:
            if not restarts:
                file.change(lambda values, sample=sample: values["monitors"]["all"].update(sample=sample))
                for _ in range(2):
                    await service.reload.look()
                assert reason in caplog.messages[-1]
            assert value(service, "evalstream_configuration_refused") == 0, "the others may have it in a minute"
            for _ in range(40):
                await service.reload.look()
            refusals = [each for each in caplog.messages if "configuration refused, and configuration 2" in each]
            assert reason in refusals.pop()
            assert value(service, "evalstream_configuration_refused") == 1
            assert value(service, "evalstream_configuration_number") == 2
            assert "runs already" not in caplog.text
            file.change(lambda values: values["monitors"]["all"].update(sample=0.25))
            for _ in range(2):
                await service.reload.look()
            assert value(service, "evalstream_configuration_refused") == 0
        caplog.clear()


@pytest.mark.parametrize("stage", ["evaluate", "watch"])
async def test_a_file_that_others_have_replaced_is_named_after_a_minute(tmp_path: Path, stage: str) -> None:
    """Nothing named it until a restart, and that began with a refusal."""
    file = ConfigFile(tmp_path, "http://127.0.0.1:1")
    async with running(load(file.path), {"evaluate"}):
        pass
    async with running(load(file.path), {stage}, path=file.path) as service:
        await service.reload.look()
        old = file.path.read_text()
        file.change(lambda values: values["monitors"]["all"].update(sample=0.5))
        new = load(file.path)
        file.path.write_text(old)
        others = ConfigurationHistory(await service.logs.generated_steps(), load(file.path))
        await others.refresh()
        assert await others.take(new) == 2
        for looks, refused in ((20, 0), (20, 1)):
            for _ in range(looks):
                await service.reload.look()
            assert value(service, "evalstream_configuration_number") == 2
            assert value(service, "evalstream_configuration_refused") == refused
        problem = service.reload.exchange.process.status.problem or ""
        assert "has configuration 1 (of " in problem
        assert "others have replaced by configuration 2 (of " in problem
        file.change(lambda values: values["monitors"]["all"].update(sample=0.25))
        newest = load(file.path)
        file.path.write_text(old)
        assert await others.take(newest) == 3
        for _ in range(41):
            await service.reload.look()
        problem = service.reload.exchange.process.status.problem or ""
        assert "others have replaced by configuration 3 (of " in problem, "the one in force, not the next one"
        file.write()
        for _ in range(2):
            await service.reload.look()
        assert value(service, "evalstream_configuration_refused") == 0
    await clean(file)


async def test_a_file_counts_once_it_differs_from_the_last_valid_one(tmp_path: Path) -> None:
    """A typo and its removal turn nobody back; a change to the content of an earlier configuration does."""
    file = ConfigFile(tmp_path, "http://127.0.0.1:1")
    texts: list[str] = []
    for sample in (0.5, 0.25):
        file.change(lambda values, sample=sample: values["monitors"]["all"].update(sample=sample))
        texts.append(file.path.read_text())
    async with running(load(file.path), {"evaluate"}, path=file.path) as service:
        others = ConfigurationHistory(await service.logs.generated_steps(), load(file.path))
        await others.refresh()
        file.path.write_text(texts[0])
        assert await others.take(load(file.path)) == 2
        for text, number in ((texts[1], 2), ("mistaken: 1", 2), (texts[1], 2), (texts[0], 2), (texts[1], 3)):
            file.path.write_text(text)
            for _ in range(2):
                await service.reload.look()
            assert value(service, "evalstream_configuration_number") == number
        assert value(service, "evalstream_configuration_refused") == 0


async def test_a_process_that_has_the_file_before_one_that_evaluates_takes_all_of_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its own addresses of alerts were not taken: the log has none."""
    file = ConfigFile(tmp_path, "http://127.0.0.1:1")
    async with running(load(file.path), {"evaluate"}):
        pass
    async with running(load(file.path), {"watch"}, path=file.path) as service:
        file.change(lambda values: values["monitors"]["all"].update(sample=0.25))
        file.change(lambda values: values.update(alerts={"webhook": "http://127.0.0.1:1/new"}))
        for _ in range(2):
            await service.reload.look()
        other = ConfigurationHistory(await service.logs.generated_steps(), load(file.path))
        assert await other.take(load(file.path)) == 2
        for _ in range(40):
            await service.reload.look()
        assert value(service, "evalstream_configuration_number") == 2
        assert value(service, "evalstream_configuration_refused") == 0
        assert service.reload.exchange.process.config.settings.alerts.webhook == "http://127.0.0.1:1/new"
        assert "configuration refused" not in caplog.text


async def test_an_old_file_counts_where_no_other_process_evaluates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """All processes were stopped to go back: the file is meant, and the log says which one it replaces."""
    monkeypatch.setattr(SqliteLog, "shared", property(lambda _log: True))
    file = ConfigFile(tmp_path, "http://127.0.0.1:1")
    old = file.path.read_text()
    for changed in (False, True, False):
        file.path.write_text(old)
        if changed:
            file.change(lambda values: values["monitors"]["all"].update(sample=0.5))
        async with running(load(file.path), {"evaluate"}, path=file.path):
            pass
    assert "replaces configuration 2 for all processes, and goes back to configuration 1" in caplog.text
    caplog.clear()
    newest = load(file.path)
    file.change(lambda values: values["monitors"]["all"].update(sample=0.25))
    async with running(load(file.path), {"watch"}, path=file.path) as service:
        await service.reload.follow_log()
        assert value(service, "evalstream_configuration_number") == 3
        assert "for all processes" not in caplog.text, "each start said again what had happened long before"
        other = ConfigurationHistory(await service.logs.generated_steps(), newest)
        for _ in range(2):
            file.change(lambda values: values["monitors"]["all"].update(sample=0.5))
            await other.take(load(file.path))
            await service.reload.follow_log()
    [warning] = [message for message in caplog.messages if "for all processes" in message]
    assert "replaces configuration 3 for all processes, and goes back to configuration 2" in warning


async def test_a_change_replaces_the_newest_configuration_before_it_whatever_this_process_ran(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Restarted first, with a file that no process had yet, it said that configuration 0 was replaced."""
    caplog.set_level(logging.INFO)
    file = ConfigFile(tmp_path, "http://127.0.0.1:1")
    async with running(load(file.path), {"watch"}, path=file.path) as service:
        other = ConfigurationHistory(await service.logs.generated_steps(), load(file.path))
        for sample in (None, 0.5, 0.25):
            if sample is not None:
                file.change(lambda values, sample=sample: values["monitors"]["all"].update(sample=sample))
            await other.take(load(file.path))
            if sample != 0.5:
                await service.reload.look()
                await service.reload.look()
    assert value(service, "evalstream_configuration_number") == 3
    replaced = [message.partition(" replaces ")[2] for message in caplog.messages if " replaces " in message]
    assert replaced == ["configuration 2 for all processes"]


async def test_only_a_file_that_was_replaced_is_an_earlier_one(tmp_path: Path) -> None:
    file, log = ConfigFile(tmp_path, "http://127.0.0.1:1"), MemoryLog("definitions", partitions=1)
    first = load(file.path)
    file.change(lambda values: values["monitors"]["all"].update(sample=0.5))
    taken = ConfigurationHistory(await GeneratedStepsStore.open(log), first)
    assert await taken.take(first) == 1
    assert await taken.take(load(file.path)) == 2
    earlier = taken.earlier(first)
    assert earlier is not None
    assert earlier.number == 1
    assert taken.earlier(load(file.path)) is None, "the newest"
    file.change(lambda values: values["monitors"]["all"].update(sample=0.25))
    assert taken.earlier(load(file.path)) is None, "a new one"


async def test_two_that_read_at_the_same_time_number_alike(tmp_path: Path) -> None:
    """A partition that opened while the file was looked at counted an entry twice. What this process took then had no
    place behind the others' newest: no other process, and no `audit`, ever saw it.
    """
    file, log = ConfigFile(tmp_path, "http://127.0.0.1:1"), SlowLog(MemoryLog("definitions", partitions=1))
    mine, other = [
        ConfigurationHistory(await GeneratedStepsStore.open(log), load(file.path))  # type: ignore[arg-type]
        for _ in range(2)
    ]
    assert await other.take(load(file.path)) == 1
    for sample in (0.5, 0.25):
        file.change(lambda values, sample=sample: values["monitors"]["all"].update(sample=sample))
        number = await other.take(load(file.path))
        found = await asyncio.gather(mine.refresh(), mine.plan_of(number), mine.refresh())
        assert found[0] is not None
        assert found[0].number == number
    file.change(lambda values: values["monitors"]["all"].update(sample=0.125))
    numbers = await asyncio.gather(mine.take(load(file.path)), mine.take(load(file.path)), mine.refresh())
    assert numbers[:2] == [4, 4]
    newest = await other.refresh()
    assert newest is not None
    assert newest.number == 4


class SlowLog:
    """A log whose reads let others go first."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def read(self, partition: int, start: int) -> AsyncIterator[Any]:
        for _ in range(3):
            await asyncio.sleep(0)
        async for batch in self._log.read(partition, start):
            await asyncio.sleep(0)
            yield batch


async def test_a_restart_with_other_settings_of_a_start_shows_in_the_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In the middle of a rolling restart both processes showed the same number, and no alert could see it."""
    file = ConfigFile(tmp_path, "http://127.0.0.1:1")
    async with running(load(file.path), {"evaluate"}, path=file.path) as service:
        file.change(lambda values: values.update(assemble={"idle_timeout": "5s"}))
        restarted = ConfigurationHistory(await GeneratedStepsStore.open(service.logs.definitions), load(file.path))
        assert await restarted.take(load(file.path)) == 2
        for _ in range(2):  # a file counts when it has settled
            await service.reload.look()
        assert value(service, "evalstream_configuration_number") == 1
        assert value(service, "evalstream_configuration_refused") == 1
        assert "configuration 2 (of " in caplog.text
        assert "has another assemble.idle_timeout, which only a start reads; to take configuration 2, " in caplog.text
        assert (
            "; to keep configuration 1, write the file of configuration 1 to a process that evaluates by configuration 1, "
            "and send that process SIGHUP" in caplog.text
        )
    async with running(load(file.path), {"evaluate"}, path=file.path) as service:
        await service.reload.look()
        assert value(service, "evalstream_configuration_number") == 2
        assert value(service, "evalstream_configuration_refused") == 0
    monkeypatch.setattr(SqliteLog, "shared", property(lambda _log: True))
    monkeypatch.setattr(app, "others_evaluate", AsyncMock(return_value=True))
    file.change(lambda values: values.pop("assemble"))
    async with running(load(file.path), {"evaluate"}, path=file.path) as service:
        await service.reload.look()
        assert value(service, "evalstream_configuration_number") == 3, "no process can take assemble of the newest live"
        assert value(service, "evalstream_configuration_refused") == 0


async def test_a_rolling_restart_with_the_earlier_file_takes_back_what_only_a_start_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every process ran the earlier file, and refused for ever the configuration that was taken back."""
    monkeypatch.setattr(SqliteLog, "shared", property(lambda _log: True))
    monkeypatch.setattr(app, "others_evaluate", AsyncMock(return_value=True))
    file = ConfigFile(tmp_path, "http://127.0.0.1:1")
    file.change(lambda values: values.update(assemble={"idle_timeout": "5s"}))
    async with running(load(file.path), {"evaluate"}, path=file.path):
        pass
    file.change(lambda values: values.update(assemble={"idle_timeout": "6s"}))
    async with running(load(file.path), {"evaluate"}, path=file.path) as service:
        assert value(service, "evalstream_configuration_number") == 2
        file.change(lambda values: values.update(assemble={"idle_timeout": "5s"}))
        restarted = ConfigurationHistory(await GeneratedStepsStore.open(service.logs.definitions), load(file.path))
        await restarted.refresh()
        assert restarted.earlier(load(file.path)) is None
        assert await restarted.take(load(file.path)) == 3
        for _ in range(2):  # a file counts when it has settled
            await service.reload.look()
        assert value(service, "evalstream_configuration_number") == 2, "it is not restarted yet"
        assert value(service, "evalstream_configuration_refused") == 1
    for _ in range(2):  # a second restart with it adds nothing
        async with running(load(file.path), {"evaluate"}, path=file.path) as service:
            for _ in range(3):
                await service.reload.look()
            assert value(service, "evalstream_configuration_number") == 3
            assert value(service, "evalstream_configuration_refused") == 0


async def test_a_reader_that_restarts_first_in_a_roll_out_names_what_is_left_to_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It asked to write the newest file everywhere and to restart, which was done."""
    file = ConfigFile(tmp_path, "http://127.0.0.1:1")
    async with running(load(file.path), {"evaluate"}):
        pass
    file.change(lambda values: values.update(assemble={"idle_timeout": "5s"}))
    async with running(load(file.path), {"watch"}, path=file.path) as service:
        await service.reload.look()
        assert value(service, "evalstream_configuration_refused") == 1
        assert "this process's file, restart a process that evaluates with that file" in caplog.messages[-1]
        other = ConfigurationHistory(await service.logs.generated_steps(), load(file.path))
        assert await other.take(load(file.path)) == 2
        await service.reload.look()
        assert value(service, "evalstream_configuration_refused") == 0


async def test_evaluators_begin_and_cease_to_ask_together(tmp_path: Path) -> None:
    """What waits while the judge is out is asked as the newest configuration has it: together, each once."""
    judge = FaultyJudge()
    async with serve_judge(judge) as url:
        file = ConfigFile(tmp_path, "http://127.0.0.1:9/v1")
        file.change(lambda values: values["evaluators"].update(also=dict(values["evaluators"]["answers"])))
        file.change(lambda values: values["monitors"]["all"].update(evaluators=["answers", "also"]))
        file.change(lambda values: values.update(evaluate={"shutdown_grace": 0}))
        async with running(load(file.path), {"evaluate"}, path=file.path) as service:
            await put(service, range(10))
            async with asyncio.timeout(60):
                while value(service, "evalstream_evaluations_started_total") < 20:
                    await asyncio.sleep(0.05)
            assert value(service, "evalstream_evaluations_waiting_weight") == 20
            file.change(lambda values: values["judges"]["main"].update(base_url=url))
            file.change(lambda values: values["monitors"]["all"].update(pack="auto"))
            await look(service)
            made = await until(service, answers=10, also=10)
            assert len(set(versions(made))) == len(set(versions(made, "also"))) == 1
            assert judge.calls == 10, "two questions in one request"
            assert value(service, "evalstream_evaluations_waiting_weight") == 0
            file.change(lambda values: values["monitors"]["all"].pop("pack"))
            await look(service)
            await put(service, range(10, 20))
            made = await until(service, answers=20, also=20)
            assert len(set(versions(made))) == len(set(versions(made, "also"))) == 2
            assert judge.calls == 30
        await clean(file)


async def test_a_rate_that_is_planned_from_now_on_and_fixed_again_adds_up(tmp_path: Path) -> None:
    """Of the turns between, those are judged whose draw is below the first rate, and a later audit finds them all."""
    async with serve_judge() as url:
        file = ConfigFile(tmp_path, url)
        file.change(
            lambda each: each["monitors"]["all"].update(evaluators=["answers", {"name": "short", "sample": 1.0}])
        )
        async with running(load(file.path), {"evaluate"}, path=file.path) as service:
            await put(service, range(20))
            await until(service, answers=20, short=20)
            file.change(lambda each: each["monitors"]["all"].update(sample="auto", standard_error=0.2))
            await look(service)
            drawn = sum(draw(keyed_salt(service.plan.key, "evalstream"), f"c{n}") < 0.1 for n in range(100, 300))
            await put(service, range(100, 300))
            made = await until(service, answers=20 + drawn, short=220)
            assert {each.sampling.probability for each in made if each.evaluator == "answers"} == {1.0, 0.1}
            file.change(lambda each: each["monitors"]["all"].update(sample=1.0))
            await look(service)
            await put(service, range(400, 420))
            await until(service, answers=40 + drawn, short=240)
    await clean(file)
