from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from configurations import checked
from evaluation_samples import scored

from collector.commands.check.check import report
from collector.errors import ConfigError
from collector.evaluate.plan import Assignment
from collector.evaluate.recovery.generated_steps import GeneratedStepsStore
from collector.golden.runner import (
    MOST_CHANGES,
    MOST_RUNS,
    GoldenRules,
    GoldenRuns,
    GoldenTarget,
    ReportedJudges,
    case_notes,
    read_cases,
)
from collector.logs.log import Record
from collector.logs.memory import MemoryLog
from collector.records.json import evaluation_to_json
from collector.statistics.judge_change import score_shift
from collector.telemetry.registry import Telemetry
from evaluators.results import JudgeStamp, Usage
from evaluators.testing import ScriptedJudge
from evaluators.turn.g_eval import GEval

DAY = 86400.0


def golden_file(folder: Path, count: int = 20, **scores: float) -> Path:
    path = folder / "golden.jsonl"
    cases = [
        {"turn_id": f"t{n}", "input": f"What is {n}?", "actual_output": f"It is {n}.", "scores": scores}
        for n in range(count)
    ]
    path.write_bytes(b"\n".join(map(orjson.dumps, cases)) + b"\n")
    return path


class Bench:
    """Runs over a log of definitions that outlives them, by a clock that is set."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = MemoryLog("definitions", partitions=1)
        self.evaluations = MemoryLog("evaluations", partitions=2)
        self.time = 1000 * DAY
        self.share, self.score = 0.0, 0
        self.others: list[GEval] = []
        """Further versions that are checked."""
        self.judge: ScriptedJudge
        self.telemetry: Telemetry
        self.charged: list[tuple[str, Usage | None]] = []

    async def look(self, score: int, earlier: GoldenRuns | None = None, **fields: Any) -> GoldenRuns:
        """A service that starts, and looks once; its judge says `score` of ten."""
        evaluator = GEval(
            name="helpful",
            evaluation_steps=("Does it help?",),
            evaluation_params=("input", "actual_output"),
            mode="single",
            **fields,
        )
        self.score = score
        self.judge = ScriptedJudge(lambda _prompt, _reply: {"reason": "so", "score": self.score})
        self.telemetry = Telemetry()
        runs = GoldenRuns(
            read_cases(self.path),
            [
                GoldenTarget(Assignment(each, self.judge, each.version), "main", "all")
                for each in (evaluator, *self.others)
            ],
            await GeneratedStepsStore.open(self.log),
            self.telemetry,
            ReportedJudges(self.evaluations),
            GoldenRules(DAY, tolerance=0.02, share=self.share),
            lambda target, made: self.charged.append((target.monitor, made.usage)),
            clock=lambda: self.time,
        )
        runs.continue_falls(earlier)
        await runs.run_due()
        return runs

    async def answer(self, model: str, fingerprint: str | None = None) -> None:
        """A live evaluation, whose judge calls itself so."""
        version = GEval(
            name="helpful",
            evaluation_steps=("Does it help?",),
            evaluation_params=("input", "actual_output"),
            mode="single",
        ).version
        judge = JudgeStamp(model=model, fingerprint=fingerprint)
        live = scored(evaluator="helpful", evaluator_version=version, judge=judge)
        await self.evaluations.append([Record(b"c", evaluation_to_json(live))])

    def metric(self, name: str) -> float | None:
        for family in self.telemetry.registry.collect():
            for sample in family.samples:
                if sample.name == name and sample.labels.get("outcome", "scored") == "scored":
                    return sample.value
        return None


async def test_a_judge_that_stays_has_not_moved_and_one_that_moves_has(tmp_path: Path):
    bench = Bench(golden_file(tmp_path, helpful=0.8))
    assert (await bench.look(8)).shifted("helpful")[0] == ""
    assert bench.metric("evalstream_golden_shift") == pytest.approx(0.0)
    bench.time += DAY
    assert (await bench.look(6)).shifted("helpful")[0] != ""
    assert bench.metric("evalstream_golden_shift") == pytest.approx(-0.2)
    assert bench.metric("evalstream_golden_shift_stderr") > 0
    assert bench.metric("evalstream_golden_cases") == 20
    assert len(bench.charged) == 40
    assert {(monitor, usage and usage.calls) for monitor, usage in bench.charged} == {("all", 1)}


async def test_without_references_the_first_run_gives_them(tmp_path: Path):
    bench = Bench(golden_file(tmp_path))
    await bench.look(5)
    assert bench.metric("evalstream_golden_shift") == pytest.approx(0.0)
    bench.time += DAY
    await bench.look(8)
    assert bench.metric("evalstream_golden_shift") == pytest.approx(0.3)


async def test_a_restart_judges_nothing_again_and_knows_the_shift(tmp_path: Path):
    bench = Bench(golden_file(tmp_path, helpful=0.8))
    await bench.look(5)
    assert len(bench.judge.questions) == 20
    runs = await bench.look(9)
    assert bench.judge.questions == []
    assert runs.shifted("helpful")[0] != ""


async def test_a_new_version_of_the_evaluator_is_judged_at_once(tmp_path: Path):
    bench = Bench(golden_file(tmp_path, helpful=0.8))
    await bench.look(8)
    await bench.look(8, scale=(0, 20))
    assert len(bench.judge.questions) == 20


async def test_a_judge_that_is_down_has_not_moved_and_is_asked_again(tmp_path: Path):
    bench = Bench(golden_file(tmp_path, helpful=0.8))
    runs = await bench.look(99)  # not on the scale: no score
    assert runs.shifted("helpful")[0] == ""
    assert bench.metric("evalstream_golden_shift") is None
    await bench.look(8)
    assert len(bench.judge.questions) == 20


async def test_a_provider_that_changes_the_judge_silently_starts_a_run(tmp_path: Path):
    """The configured model stays; what answers reports another name. There was no run before the next day."""
    bench = Bench(golden_file(tmp_path, helpful=0.8))
    runs = await bench.look(8)
    await bench.answer("scripted")
    await runs.run_due()
    assert len(bench.judge.questions) == 20, "the judge of the first run"
    for fingerprint in ("fp_1", "fp_2", None):  # the last one goes back
        asked = len(bench.judge.questions)
        bench.judge.fingerprint = fingerprint
        await bench.answer("scripted", fingerprint)
        await runs.run_due()
        await runs.run_due()
        assert len(bench.judge.questions) == asked + 20
    again = await bench.look(3)
    await bench.answer("scripted")
    await again.run_due()
    assert bench.judge.questions == [], "a restart knows the newest run and its judge"
    assert again.shifted("helpful")[0] == ""
    await bench.answer("scripted-3")
    await again.run_due()
    assert again.shifted("helpful")[0] != ""


async def test_an_endpoint_with_ever_another_fingerprint_costs_a_few_runs_a_period(tmp_path: Path):
    bench = Bench(golden_file(tmp_path, helpful=0.8))
    runs = await bench.look(8)
    for number in range(20):
        await bench.answer("scripted", f"fp_{number}")
        await runs.run_due()
    assert len(bench.judge.questions) == 20 * (1 + MOST_CHANGES)


async def test_what_another_configuration_replaces_takes_its_series_along(tmp_path: Path):
    """The alert on a shift of a judge that is not asked any more went on until the restart."""
    bench = Bench(golden_file(tmp_path, helpful=0.8))
    runs = await bench.look(5)
    assert bench.metric("evalstream_golden_shift") is not None
    runs.withdraw()
    names = ("evalstream_golden_shift", "evalstream_golden_shift_stderr", "evalstream_golden_cases")
    assert [bench.metric(name) for name in names] == [None, None, None]


def test_few_cases_say_nothing():
    assert score_shift({str(n): 0.1 for n in range(9)}, {str(n): 0.9 for n in range(9)}) is None


def test_a_shift_is_mean_and_error_of_the_paired_differences():
    references = {str(n): 0.5 for n in range(100)}
    scores = {str(n): 0.5 + (0.1 if n % 2 else -0.06) for n in range(100)}
    found = score_shift(scores, references)
    assert found.mean == pytest.approx(0.02)
    assert found.stderr == pytest.approx(0.00804, abs=1e-4)
    assert not found.exceeds(0.02)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"{", "line 1: is not JSON"),
        (b"[]", "should be an object"),
        (b'{"input": "a"}', "turn_id"),
        (b'{"turn_id": "a", "scores": {"x": 2}}', "scores.x: should be a number from 0 to 1"),
        (b"", "has no cases"),
    ],
)
def test_what_is_wrong_with_the_file_is_said(tmp_path: Path, line: bytes, told: str):
    path = tmp_path / "golden.jsonl"
    path.write_bytes(line)
    with pytest.raises(ConfigError, match=told):
        read_cases(path)


def mixed_file(folder: Path, *, answered: int, unanswered: int) -> Path:
    path = golden_file(folder, answered, helpful=0.8)
    lacking = [orjson.dumps({"turn_id": f"u{n}", "input": f"And {n}?"}) for n in range(unanswered)]
    path.write_bytes(path.read_bytes() + b"\n".join(lacking) + b"\n")
    return path


async def test_cases_that_can_never_be_scored_are_named_once_and_cost_nothing_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """Most of these were asked about every minute, with a warning that did not say why."""
    bench = Bench(mixed_file(tmp_path, answered=12, unanswered=20))
    runs = await bench.look(6)
    for _ in range(3):
        bench.time += 60.0
        await runs.run_due()
    assert len(bench.judge.questions) == 12
    assert bench.metric("evalstream_golden_shift") == pytest.approx(-0.2)
    [record] = caplog.records
    assert record.getMessage() == (
        "20 cases of the golden set cannot be scored with helpful (20 missing_field: actual_output): give them what it "
        "needs, in the file golden.path, and start again"
    )


async def test_a_judge_that_fails_is_named_and_asked_ever_more_seldom(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    bench = Bench(golden_file(tmp_path, helpful=0.8))
    runs = await bench.look(99)  # not on the scale: no score
    asked = [len(bench.judge.questions)]
    for _ in range(10):
        bench.time += 60.0
        await runs.run_due()
        asked.append(len(bench.judge.questions))
    assert [each // asked[0] for each in asked] == [1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4]
    [record] = caplog.records
    assert "helpful failed (20 of 20 cases have no score: 20 judge_reply_invalid); retrying" in record.getMessage()


def test_check_says_what_of_a_set_cannot_be_scored(tmp_path: Path):
    path = mixed_file(tmp_path, answered=5, unanswered=2)
    path.write_bytes(
        path.read_bytes() + orjson.dumps({"turn_id": "x", "input": "a", "scores": {"helpfull": 1, "no_links": 1}})
    )
    helpful = GEval(name="helpful", evaluation_steps=("Look.",), evaluation_params=("input", "actual_output"))
    known = ("helpful", "no_links")  # `dataset` also writes the scores of evaluators that ask no judge
    assert list(case_notes(read_cases(path), {"helpful": helpful}, known)) == [
        "golden.path: helpful can score 5 of 8 cases (3 lack actual_output) and needs 10: its alerts score past cases",
        "golden.path: scores names an unknown evaluator 'helpfull'; did you mean 'helpful'?",
    ]
    assert list(case_notes(read_cases(golden_file(tmp_path)), {"helpful": helpful}, known)) == []


def test_check_says_how_many_evaluations_a_run_asks_for(tmp_path: Path):
    """The set is asked with every evaluator that has a judge, also with those that it has no scores of."""
    steps = {"kind": "g_eval", "evaluation_steps": ["Look."], "evaluation_params": ["input"]}
    golden = {"path": str(golden_file(tmp_path))}
    config = checked(
        {"helpful": steps, "polite": steps, "exact": {"kind": "exact_match"}},
        judges={"main": {"model": "m"}},
        golden=golden,
    )
    [line] = [line for line in report(config) if line.startswith("golden  ")]
    assert line.startswith("golden     20 frozen cases: 40 evaluations by judges every 1 day, whenever")


async def test_a_fall_of_scores_has_the_judge_asked_and_the_verdict_outlives_a_restart(tmp_path: Path) -> None:
    bench = Bench(golden_file(tmp_path, helpful=0.3))
    await bench.look(8)
    bench.time += DAY
    runs = await bench.look(8)
    version = GEval(
        name="helpful", evaluation_steps=("Does it help?",), evaluation_params=("input", "actual_output"), mode="single"
    ).version
    began = bench.time + 60.0
    bench.time += 120.0
    assert runs.judge_since("helpful", version, began, alerting=False) is None
    asked = len(bench.judge.questions)
    await runs.run_due()
    assert len(bench.judge.questions) == asked + 20
    verdict = runs.judge_since("helpful", version, began, alerting=False)
    assert verdict is not None
    assert re.fullmatch(
        r"The judge has not changed: 20 golden cases, scored again at .*, moved by at most .*", verdict.sentence
    )
    await runs.run_due()
    assert len(bench.judge.questions) == asked + 20, "once"
    bench.time += 3600.0
    again = await bench.look(5)
    again.judge_since("helpful", version, began, alerting=False)
    await again.run_due()
    changed = again.judge_since("helpful", version, began, alerting=False)
    assert changed is not None
    assert changed.sentence.startswith("The judge has changed: 20 golden")
    assert again.judge_since("helpful", "other", began, alerting=False) is None, "of a version that is not checked"


async def test_a_shift_that_was_mended_before_a_fall_is_not_named_as_its_cause_also_after_a_restart(
    tmp_path: Path,
) -> None:
    """The runs by the stricter judge were averaged in: the judge that stayed "moved by +0.12", a rise, in a fall."""
    bench = Bench(golden_file(tmp_path, helpful=0.8))
    runs = await bench.look(8)
    version = runs.targets[0].assignment.version
    for model, score in (("a", 8), ("b", 8), ("c", 5), ("d", 5), ("e", 8)):  # reported changes: a run each
        bench.score = score
        bench.time += 60.0
        await bench.answer(model)
        await runs.run_due()
    began = bench.time + 60.0
    bench.time += 120.0
    runs.judge_since("helpful", version, began, alerting=True)
    await runs.run_due()
    said = runs.judge_since("helpful", version, began, alerting=True)
    again = await bench.look(8)
    assert bench.judge.questions == []
    assert again.checked[f"helpful/{version}/scripted"].runs == runs.checked[f"helpful/{version}/scripted"].runs
    assert bench.metric("evalstream_golden_last_run_timestamp_seconds") == bench.time
    assert again.judge_since("helpful", version, began, alerting=False) == said
    assert said is not None
    assert not said.has_changed


async def test_a_judge_that_shifted_in_the_day_is_shifted_after_a_restart_on_the_next(tmp_path: Path) -> None:
    """A restart read the first run of each day alone."""
    bench = Bench(golden_file(tmp_path, helpful=0.8))
    runs = await bench.look(8)
    await bench.answer("another")
    bench.score = 5
    await runs.run_due()
    again = await bench.look(5)
    assert again.shifted("helpful")[0] != "", "on the same day"
    bench.time += DAY
    [known] = (await bench.look(5)).checked.values()
    assert [run.scores[next(iter(run.scores))] for run in known.runs] == [0.8, 0.5, 0.5]


async def test_a_shift_is_since_its_first_run_also_after_restarts_and_one_that_comes_again_since_then(
    tmp_path: Path,
) -> None:
    """The page said that it began when the process did."""
    bench = Bench(golden_file(tmp_path, helpful=0.8))
    assert (await bench.look(8)).shifted("helpful") == ("", None)
    bench.time += DAY
    began = bench.time
    assert (await bench.look(5)).shifted("helpful")[1] == began
    for _ in range(3):
        bench.time += DAY
        assert (await bench.look(5)).shifted("helpful")[1] == began
    bench.time += 60.0
    assert (await bench.look(5)).shifted("helpful")[1] == began
    bench.time += DAY
    assert (await bench.look(8)).shifted("helpful") == ("", None)
    bench.time += DAY
    assert (await bench.look(5)).shifted("helpful")[1] == bench.time


async def test_an_older_run_of_another_version_does_not_make_a_shift_begin_again(tmp_path: Path) -> None:
    """It was read after the newest run of the first version, and the shift was since the restart."""
    bench = Bench(golden_file(tmp_path, helpful=0.8))
    other = GEval(
        name="helpful", evaluation_steps=("Is it kind?",), evaluation_params=("input", "actual_output"), mode="single"
    )
    bench.others = [other]
    await bench.look(8)
    bench.others, bench.time = [], bench.time + DAY
    began = bench.time
    for _ in range(3):
        assert (await bench.look(5)).shifted("helpful")[1] == began
        bench.time += DAY
    bench.others = [other]
    assert (await bench.look(5)).shifted("helpful")[1] == began


async def test_another_configuration_asks_nothing_again_for_an_alert_that_lasts(tmp_path: Path) -> None:
    bench = Bench(golden_file(tmp_path, helpful=0.8))
    await bench.look(8)
    bench.time += DAY
    runs = await bench.look(8)
    version, began = runs.targets[0].assignment.version, bench.time + 60.0
    bench.time += 120.0
    runs.judge_since("helpful", version, began, alerting=True)
    bench.score = 5
    await runs.run_due()
    said = runs.judge_since("helpful", version, began, alerting=True)
    assert said is not None
    assert said.has_changed
    bench.time += 60.0
    again = await bench.look(8, earlier=runs)
    for _ in range(2):
        assert again.judge_since("helpful", version, began, alerting=True) == said
        await again.run_due()
    assert bench.judge.questions == []


async def test_a_share_of_the_live_calls_is_asked_of_single_cases_and_a_judge_that_moved_gets_a_run(tmp_path: Path):
    """Nothing says so: neither its name, nor falling scores, nor the day's run, which is hours away."""
    bench = Bench(golden_file(tmp_path, helpful=0.8))
    bench.share = 0.1
    runs = await bench.look(8)
    asked = len(bench.judge.questions)
    for _ in range(100):
        await bench.answer("scripted")
    await runs.run_due()
    assert len(bench.judge.questions) == asked + 10, "the judge is as it was"
    bench.score = 5
    for _ in range(100):
        await bench.answer("scripted")
    bench.time += 60.0
    await runs.run_due()
    assert len(bench.judge.questions) == asked + 10 + 10 + 20, "ten cases, then all"
    assert runs.shifted("helpful") == (
        "On the golden set the scores of helpful by main differ by -0.30 (95 %: ± 0.00) from their references.",
        bench.time,
    )
    for _ in range(200):
        await bench.answer("scripted")
    await runs.run_due()
    assert len(bench.judge.questions) == asked + 40 + 20, "compared with the new run from then on"


async def test_a_judge_that_has_changed_during_an_outage_is_noticed_within_seconds_of_the_start(tmp_path: Path):
    """The calls of the first minute had no single cases before the minute was over: 0 for 2,162 calls of a backlog."""
    bench = Bench(golden_file(tmp_path, helpful=0.8))
    bench.share = 0.1
    await bench.look(8)
    bench.time += 3600.0
    runs = await bench.look(5)
    task = asyncio.create_task(runs.run_forever())
    await asyncio.sleep(0.1)
    assert bench.judge.questions == []
    for _ in range(100):
        await bench.answer("scripted")
    async with asyncio.timeout(10):
        while not runs.shifted("helpful")[0]:
            await asyncio.sleep(0.05)
    assert len(bench.judge.questions) == 10 + 20, "ten cases, then all"
    task.cancel()


async def test_a_shift_that_is_over_explains_its_share_of_a_window(tmp_path: Path) -> None:
    bench = Bench(golden_file(tmp_path, helpful=0.8))
    runs = await bench.look(8)
    for score in (5, 8):
        bench.time, bench.score = bench.time + 300.0, score
        await bench.answer(f"another, {score}")
        await runs.run_due()
    bench.time += 300.0
    shift = 0.3 + 2.0 * 0.01 / 20**0.5
    shares = {300.0: 0.0, 600.0: shift / 2, 900.0: shift / 3, 3600.0: shift / 12}
    assert {length: runs.explained_miss("helpful", False, length, bench.time) for length in shares} == pytest.approx(
        shares
    )
    assert runs.explained_miss("helpful", True, 900.0, bench.time) == 0.0, "a stricter judge explains no rise"
    began = bench.time - 600.0
    assert runs.explained_miss("helpful", False, 900.0, began - 1.0) == 0.0, "as it was before the shift"
    assert runs.explained_miss("helpful", False, 900.0, began + 1.0) == pytest.approx(shift), "as it was then"
    assert runs.largest_miss("helpful", False, began - 300.0, began - 1.0) == 0.0, "before the shift"
    assert runs.largest_miss("helpful", False, began - 300.0, began + 100.0) == pytest.approx(shift)
    assert runs.largest_miss("helpful", False, began + 300.0, bench.time) == 0.0, "after it"
    again = await bench.look(8)
    assert again.explained_miss("helpful", False, 600.0, bench.time) == pytest.approx(shift / 2), "after a restart"


async def test_single_cases_see_a_repair_after_a_run_that_a_fall_asked_for(tmp_path: Path) -> None:
    """They were compared with the runs from before the shift, too, and the alert on it went on until the next day."""
    bench = Bench(golden_file(tmp_path, helpful=0.8))
    runs = await bench.look(8)
    bench.time, bench.score = bench.time + 300.0, 5
    [key] = runs.checked
    runs.judge_since("helpful", key.split("/")[1], bench.time - 60.0, alerting=True)
    await runs.run_due()
    assert runs.shifted("helpful")[0] != ""
    bench.share, bench.score = 0.1, 8
    again = await bench.look(8)
    for _ in range(100):
        await bench.answer("scripted")
    bench.time += 60.0
    await again.run_due()
    assert again.shifted("helpful")[0] == ""


async def test_single_cases_that_move_once_more_get_a_run_or_a_line_says_why_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A judge that became stricter for the second time in a day was looked at no more, and nothing said so."""
    bench = Bench(golden_file(tmp_path, helpful=0.8))
    bench.share = 0.1
    runs = await bench.look(8)
    for number in range(MOST_RUNS + 3):
        bench.score = (5, 8)[number % 2]
        for _ in range(100):
            await bench.answer("scripted")
        bench.time += 60.0
        await runs.run_due()
    assert runs.checked[next(iter(runs.checked))].published.number == MOST_RUNS  # type: ignore[union-attr]
    [line] = [record.getMessage() for record in caplog.records if "which is the most" in record.getMessage()]
    assert line.startswith(
        f"the judge of helpful may have changed, but the golden set was scored {MOST_RUNS + 1} times"
    )


async def test_a_set_without_a_score_gets_no_run_for_a_fall_and_no_line_says_that_it_had_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log said that the set was scored 11 times, and not one case had been."""
    path = tmp_path / "golden.jsonl"
    path.write_bytes(b"\n".join(orjson.dumps({"turn_id": f"t{n}", "input": "a"}) for n in range(20)))
    bench = Bench(path)
    runs = await bench.look(8)
    version = runs.targets[0].assignment.version
    for _ in range(MOST_RUNS + 3):
        bench.time += 600.0
        runs.judge_since("helpful", version, bench.time - 60.0, alerting=True)
        await runs.run_due()
    assert not [record for record in caplog.records if "which is the most" in record.getMessage()]


async def test_a_run_from_before_an_incident_ended_says_nothing_of_the_next_fall(tmp_path: Path) -> None:
    """The second fall was the judge's, and an alert said of it that the judge had not changed, by an earlier run."""
    bench = Bench(golden_file(tmp_path, helpful=0.8))
    await bench.look(8)
    bench.time += DAY
    runs = await bench.look(8)
    version, first = runs.targets[0].assignment.version, bench.time + 60.0
    bench.time += 120.0
    runs.judge_since("helpful", version, first, alerting=True)
    await runs.run_due()
    runs.incidents["helpful", version] = [(first, bench.time + 60.0)]
    bench.time += 600.0
    bench.score = 5
    assert runs.judge_since("helpful", version, bench.time - 60.0, alerting=True) is None
    await runs.run_due()
    said = runs.judge_since("helpful", version, bench.time - 60.0, alerting=True)
    assert said is not None
    assert said.has_changed


async def test_an_incident_of_one_monitor_asks_no_run_a_minute_for_an_alert_of_another(tmp_path: Path) -> None:
    """The fall is known by the evaluator, the incidents by the monitor that was looked at last: they took turns."""
    bench = Bench(golden_file(tmp_path, helpful=0.8))
    await bench.look(8)
    bench.time += DAY
    runs = await bench.look(8)
    asked, begin = len(bench.judge.questions), bench.time
    version = runs.targets[0].assignment.version
    for _ in range(30):
        bench.time += 60.0
        for over, since in (([(begin - 9000.0, begin - 60.0)], begin), ([], begin - 9000.0)):
            runs.incidents["helpful", version] = over
            runs.judge_since("helpful", version, since, alerting=True)
        await runs.run_due()
    assert len(bench.judge.questions) <= asked + 2 * 20


async def test_while_the_begin_of_a_fall_moves_it_is_one_fall_and_few_runs(tmp_path: Path) -> None:
    """A window still holds the fall, and scores have recovered: each minute asked anew, and the day's runs were used up."""
    bench = Bench(golden_file(tmp_path, helpful=0.8))
    await bench.look(8)
    bench.time += DAY
    runs = await bench.look(8)
    asked = len(bench.judge.questions)
    version = runs.targets[0].assignment.version
    for _ in range(120):
        bench.time += 60.0
        runs.judge_since("helpful", version, bench.time - 60.0, alerting=True)
        await runs.run_due()
    assert len(bench.judge.questions) <= asked + 4 * 20
    verdict = runs.judge_since("helpful", version, bench.time, alerting=True)
    assert verdict is not None
    assert not verdict.has_changed
