"""System or judge: the first alert on a planted fall names the judge where it has changed, and only there."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from configurations import checked
from evaluation_samples import scored

from collector.alerting.rules.targets import detector, targets
from collector.alerting.watch.stage import JudgeTrust, WatchRules, WatchStage
from collector.logs.log import StoredRecord
from collector.records.json import evaluation_to_json
from collector.statistics.judge_change import GoldenRun, JudgeVerdict, Suspicion, judge_since
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import JUDGE_MOVED

NOW, DAY = 1_795_000_000.0, 86_400.0
PLANTED, UNTIL, PER_MINUTE = 120, 1200, 3
CASES, NOISE = 60, 0.1


class GoldenSet:
    """Sixty cases whose scores fall by `fall` from a minute on; a run takes no time, and ten in a day are made."""

    def __init__(self, chance: np.random.Generator, fall: float) -> None:
        self.now, self._chance, self._fall = NOW, chance, fall
        self._true = chance.choice([0.5, 0.75, 1.0], CASES)
        self.runs: list[GoldenRun] = []
        self._alert: float | None = None
        for day in (-3, -2, -1):
            self._run(NOW + day * DAY)

    def _run(self, at: float) -> None:
        moved = self._true - self._fall * (at >= NOW + PLANTED * 60.0)
        scores = np.clip(moved + NOISE * self._chance.standard_normal(CASES), 0.0, 1.0)
        self.runs.append(GoldenRun(at, {str(case): float(score) for case, score in enumerate(scores)}))

    def judge_since(
        self, _evaluator: str, _version: str, since: float, /, *, alerting: bool, detected_at: float = math.inf
    ) -> JudgeVerdict | None:
        self._alert = (self._alert or self.now) if alerting else None
        if len(self.runs) < 13 and Suspicion(since, self._alert).asks(self.runs, self.now):
            self._run(self.now)
        return judge_since(self.runs, since, detected_at=detected_at)


def record(number: int, at: float, score: float) -> StoredRecord:
    ended, subject = datetime.fromtimestamp(at, UTC), replace(scored().subject, conversation_id=str(number))
    made = scored(
        number, evaluator="exact", monitor="all", subject=subject, score=score, started_at=ended, ended_at=ended
    )
    return StoredRecord(0, number, at, b"k", evaluation_to_json(made))


async def first_alert(seed: int, fall: float, by_judge: float) -> tuple[str, str]:
    """The text of the first alert after a fall of the mean, and the verdict on the judge as Prometheus has it."""
    chance = np.random.default_rng(seed)
    config = checked({"exact": {"kind": "exact_match", "threshold": 0.8}})
    of = detector(targets(config)[0], targets(config), config.settings.alerts, 1)
    golden = GoldenSet(chance, by_judge)
    rules = WatchRules({("all", "exact"): of}, config.settings.alerts)
    telemetry = Telemetry()
    stage = WatchStage(rules, telemetry, trust=JudgeTrust(judge_since=golden.judge_since))
    async with stage.open_fold(0, None) as fold:
        for minute in range(UNTIL):
            mean = 0.83 - fall * (minute >= PLANTED)
            scores = np.clip(mean + 0.2 * chance.standard_normal(PER_MINUTE), 0.0, 1.0)
            at = NOW + minute * 60.0
            await fold.deliver(
                [record(minute * PER_MINUTE + n, at + n, float(score)) for n, score in enumerate(scores)]
            )
            golden.now = at + 60.0
            if active := await stage.look(golden.now):
                return active[0].annotations["description"], verdict_of(telemetry)
    return "", ""


def verdict_of(telemetry: Telemetry) -> str:
    families = telemetry.registry.collect()
    [verdict] = [
        sample.labels["verdict"] for family in families for sample in family.samples if sample.name == JUDGE_MOVED.name
    ]
    return verdict


async def test_a_shift_that_explains_a_fall_is_said_in_its_place() -> None:
    """The fall was silent, as the judge explains it, and nothing told of the judge where there is no Prometheus."""
    config = checked({"exact": {"kind": "exact_match", "threshold": 0.8}})
    of = detector(targets(config)[0], targets(config), config.settings.alerts, 1)
    trust = JudgeTrust(
        explained=lambda _evaluator, _lower, _length, _end: 0.4,
        shifted=lambda _evaluator: ("It has left its references.", NOW - 3600.0),
    )
    stage = WatchStage(WatchRules({("all", "exact"): of}, config.settings.alerts), Telemetry(), trust=trust)
    async with stage.open_fold(0, None) as fold:
        await fold.deliver([record(number, NOW, 0.6) for number in range(100)])
        [alert] = stage.update(NOW + 60.0)
    assert (alert.labels["alertname"], alert.labels["severity"]) == ("EvalstreamJudgeShift", "warning")
    assert alert.annotations["description"].startswith("It has left its references. Only the judge")
    assert stage.firing[0].since == NOW - 3600.0


@pytest.mark.parametrize(("shift", "is_quiet"), [(0.4, True), (0.3, False)])
async def test_a_fall_no_larger_than_the_shift_of_its_judge_does_not_page_as_the_judge_is_repaired(
    shift: float, is_quiet: bool
) -> None:
    """Other bad scores, of before, were in the windows: as the shift ended, the alert began, of scores that were good.

    The judge was stricter in minutes 24 to 26, and nothing but the largest shift since the fall (0.35 below its target)
    explains it after them.
    """
    config = checked({"exact": {"kind": "exact_match", "threshold": 0.8}})
    of = detector(targets(config)[0], targets(config), config.settings.alerts, 1)
    began, ended = NOW + 24 * 60.0, NOW + 26 * 60.0

    def largest(_evaluator: str, _lower: bool, since: float, until: float) -> float:
        return shift * (began <= until and ended > since)

    trust = JudgeTrust(largest=largest)
    stage = WatchStage(WatchRules({("all", "exact"): of}, config.settings.alerts), Telemetry(), trust=trust)
    fired: list[int] = []
    async with stage.open_fold(0, None) as fold:
        for minute in range(40):
            score, at = (0.45 if 24 <= minute < 26 else 0.9), NOW + minute * 60.0
            await fold.deliver([record(100 * minute + number, at, score) for number in range(100)])
            fired += [minute for _ in stage.update(at + 60.0)]
    assert (fired == []) == is_quiet, fired


async def test_a_fall_just_after_one_that_the_judge_made_pages_though_all_windows_hold_the_doubt_of_before() -> None:
    """No window was of the present, so none was beyond the doubt of before, and the new fall waited for a window."""
    config = checked({"exact": {"kind": "exact_match", "threshold": 0.8}})
    of = detector(targets(config)[0], targets(config), config.settings.alerts, 1)
    now = {"minute": 0}

    def largest(_evaluator: str, _lower: bool, since: float, until: float) -> float:
        return 0.4 * (until >= NOW + 24 * 60.0 and since < NOW + 30 * 60.0)

    def explained(_evaluator: str, _lower: bool, _length: float, _end: float) -> float:
        return 0.0 if now["minute"] < 24 else 0.4 if now["minute"] < 30 else 0.1

    trust = JudgeTrust(largest=largest, explained=explained)
    stage = WatchStage(WatchRules({("all", "exact"): of}, config.settings.alerts), Telemetry(), trust=trust)
    fired: set[int] = set()
    async with stage.open_fold(0, None) as fold:
        for minute in range(50):
            now["minute"] = minute
            score, at = (0.45 if 24 <= minute < 30 or minute >= 42 else 0.9), NOW + minute * 60.0
            await fold.deliver([record(100 * minute + number, at, score) for number in range(100)])
            fired.update(
                minute for each in stage.update(at + 60.0) if each.labels["alertname"] == "EvalstreamScoreDropped"
            )
    assert fired
    assert min(fired) in range(42, 46)


@pytest.mark.parametrize("warned", [40, 20])
@pytest.mark.parametrize("further", [False, True])
async def test_a_restart_while_the_judge_is_shifted_ends_no_alert_that_began_before(
    warned: int, *, further: bool
) -> None:
    """The new process met the shift, took it to explain the fall, and nobody learned that the alert was over.

    Scores fall in minute 24, and a second time in minute 60. The judge is known to have shifted from minute `warned` on.
    """
    config = checked({"exact": {"kind": "exact_match", "threshold": 0.8}})
    of = detector(targets(config)[0], targets(config), config.settings.alerts, 1)

    def explained(_evaluator: str, _lower: bool, _length: float, end: float) -> float:
        return 0.7 * (end >= NOW + warned * 60.0)

    rules, trust = WatchRules({("all", "exact"): of}, config.settings.alerts), JudgeTrust(explained=explained)

    async def dropped(minutes: range, looks: range) -> list[bool]:
        """Whether the alert is on at each look of a process that has read what came until then."""
        stage, seen = WatchStage(rules, Telemetry(), trust=trust), list[bool]()
        async with stage.open_fold(0, None) as fold:
            for minute in minutes:
                score = 0.9 if minute < 24 else 0.2 if further and minute >= 60 else 0.45
                at = NOW + minute * 60.0
                await fold.deliver([record(100 * minute + number, at, score) for number in range(100)])
                if minute in looks:
                    names = {alert.labels["alertname"] for alert in stage.update(at + 60.0)}
                    seen.append("EvalstreamScoreDropped" in names)
        return seen

    began_before = warned == 40
    assert (await dropped(range(90), range(90)))[-1] == began_before
    assert await dropped(range(90), range(89, 90)) == [began_before], "after a restart"


async def test_a_run_that_the_look_asks_for_as_it_finds_the_fall_explains_it() -> None:
    """The look evaluates once more after the run, and its first, of which nobody was notified, kept the alert."""
    config = checked({"exact": {"kind": "exact_match", "threshold": 0.8}})
    of = detector(targets(config)[0], targets(config), config.settings.alerts, 1)
    state = {"is_asked": False, "is_known": False}

    def judge_since(
        _evaluator: str, _version: str, _since: float, /, *, alerting: bool, detected_at: float = math.inf
    ) -> None:
        del alerting, detected_at
        state["is_asked"] = True

    async def wait() -> bool:
        was_known, state["is_known"] = state["is_known"], state["is_asked"]
        return state["is_known"] and not was_known

    trust = JudgeTrust(
        explained=lambda _evaluator, _lower, _length, _end: 0.4 * state["is_known"],
        largest=lambda _evaluator, _lower, _since, _until: 0.4 * state["is_known"],
        judge_since=judge_since,
        wait_for_answer=wait,
    )
    stage = WatchStage(WatchRules({("all", "exact"): of}, config.settings.alerts), Telemetry(), trust=trust)
    async with stage.open_fold(0, None) as fold:
        for minute in range(30):
            score, at = (0.45 if minute >= 24 else 0.9), NOW + minute * 60.0
            await fold.deliver([record(100 * minute + number, at, score) for number in range(100)])
            assert not await stage.look(at + 60.0)
    assert state["is_known"]


async def test_a_judge_that_changes_after_the_fall_is_not_said_to_be_its_cause_also_after_a_restart() -> None:
    """The runbook then said that the application was not the cause. Scores fall in minute 24, the judge's in 40."""
    config = checked({"exact": {"kind": "exact_match", "threshold": 0.8}})
    of = detector(targets(config)[0], targets(config), config.settings.alerts, 1)
    minutes = {-1440: 0.9, 30: 0.9, 40: 0.6}
    runs = [
        GoldenRun(NOW + minute * 60.0, {str(case): score for case in range(60)}) for minute, score in minutes.items()
    ]

    def verdict(*of: object, alerting: bool, detected_at: float) -> JudgeVerdict | None:
        del alerting
        return judge_since(runs, float(str(of[2])), detected_at=detected_at)

    for looks in (range(50), range(49, 50)):
        telemetry, text = Telemetry(), ""
        rules = WatchRules({("all", "exact"): of}, config.settings.alerts)
        stage = WatchStage(rules, telemetry, trust=JudgeTrust(judge_since=verdict))
        async with stage.open_fold(0, None) as fold:
            for minute in range(50):
                at = NOW + minute * 60.0
                score = 0.9 if minute < 24 else 0.45
                await fold.deliver([record(100 * minute + number, at, score) for number in range(100)])
                if minute in looks and (active := stage.update(at + 60.0)):
                    text = active[0].annotations["description"]
        assert "The judge had not changed when the scores fell: 60 golden cases" in text
        assert verdict_of(telemetry) == "later"


@pytest.mark.parametrize("fall", [0.3, pytest.param(0.1, marks=pytest.mark.long)])
async def test_a_judge_that_changed_is_named_with_the_page_and_a_system_that_changed_is_not_its_fault(
    fall: float,
) -> None:
    judged = [await first_alert(seed, fall, fall) for seed in range(12)]
    assert sum("The judge has changed" in text and verdict == "changed" for text, verdict in judged) >= 11
    system = [await first_alert(seed, fall, 0.0) for seed in range(12)]
    assert all("60 golden cases" in text and "The judge has not changed" in text for text, _ in system)
    assert {verdict for _, verdict in system} == {"unchanged"}
    milder = [await first_alert(seed, fall, -fall) for seed in range(12)]
    assert sum("Better scores explain no fall." in text and verdict == "better" for text, verdict in milder) >= 11


async def test_a_monitor_that_is_only_suspicious_does_not_end_the_alert_of_another_on_the_same_judge() -> None:
    """It said that no alert was on the evaluator: the next look at the other one was an alert that began, and asked."""
    config = checked({"exact": {"kind": "exact_match", "threshold": 0.8}})
    of = detector(targets(config)[0], targets(config), config.settings.alerts, 1)
    said: list[bool] = []

    def judge_since(
        _evaluator: str, _version: str, _since: float, /, *, alerting: bool, detected_at: float = math.inf
    ) -> None:
        del detected_at
        said.append(alerting)

    rules = WatchRules({(name, "exact"): of for name in ("all", "before", "then")}, config.settings.alerts)
    stage = WatchStage(rules, Telemetry(), trust=JudgeTrust(judge_since=judge_since))
    async with stage.open_fold(0, None) as fold:
        for place, (monitor, number) in enumerate((("before", 40), ("all", 200), ("then", 40))):
            scores = [0.5 if monitor == "all" else (0.45, 0.95)[count % 2] for count in range(number)]
            records = [record(1000 * place + count, NOW, score) for count, score in enumerate(scores)]
            await fold.deliver(
                [replace(one, value=one.value.replace(b'"all"', f'"{monitor}"'.encode())) for one in records]
            )
        [alert] = stage.update(NOW + 60.0)
        assert alert.labels["monitor"] == "all"
        said.clear()
        stage.update(NOW + 120.0)
    assert said == [True, True, True]
