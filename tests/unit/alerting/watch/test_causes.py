"""The texts of the watcher's alerts name the part of the traffic that explains a drop, from the first one on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from configurations import checked
from evaluation_samples import scored

from collector.alerting.diagnosis.recent_scores import RecentScores, explanation_of, worst_of
from collector.alerting.diagnosis.slices import ScoredItem
from collector.alerting.rules.formats import prometheus
from collector.alerting.rules.generate import rules_of
from collector.alerting.rules.targets import detector, targets
from collector.alerting.watch.stage import JudgeTrust, WatchRules, WatchStage
from collector.config.configured import Config
from collector.logs.log import StoredRecord
from collector.records.json import evaluation_to_json
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import DROP_EXPLAINED
from collector.wording import minute_in_utc

NOW = 1_795_000_000.0
LABELS = {"evaluator": "exact", "monitor": "all", "slice": "model=m-2"}


def configured() -> Config:
    return checked({"exact": {"kind": "exact_match", "threshold": 0.8}})


def record(number: int, seconds: float, score: float, model: str) -> StoredRecord:
    ended = datetime.fromtimestamp(NOW + seconds, UTC)
    subject = replace(scored().subject, conversation_id=str(number))
    made = scored(
        number,
        evaluator="exact",
        monitor="all",
        subject=subject,
        score=score,
        attributes={"model": model, "user": "not declared"},
        started_at=ended,
        ended_at=ended,
    )
    return StoredRecord(0, number, NOW + seconds, b"k", evaluation_to_json(made))


def bad_since(minute: int, until: int, model: str = "m-2") -> list[StoredRecord]:
    """Six scores a minute, a third of them of a model that is bad from a minute on."""
    return [
        record(minute_ * 6 + number, minute_ * 60.0 + number, float(not is_bad), of)
        for minute_ in range(until)
        for number, of in enumerate(("m-1", "m-1", "m-2", "m-1", "m-1", "m-2"))
        for is_bad in [of == model and minute_ >= minute]
    ]


def watcher(telemetry: Telemetry) -> WatchStage:
    config = configured()
    held = targets(config)
    of = detector(held[0], held, config.settings.alerts, 1)
    recent = RecentScores({"model"})
    return WatchStage(WatchRules({("all", "exact"): of}, config.settings.alerts), telemetry, recent=recent)


async def test_a_fall_of_all_after_an_incident_of_one_part_names_no_part() -> None:
    """m-2 was bad for half an hour. Then all fell, and the text named m-1: before, m-2 was bad on average."""
    stage = watcher(Telemetry())
    levels = {"m-1": [1.0] * 160 + [0.5] * 40, "m-2": [1.0] * 60 + [0.2] * 30 + [1.0] * 70 + [0.5] * 40}
    async with stage.open_fold(0, None) as fold:
        texts: list[list[str]] = []
        for minute in range(200):
            at, models = minute * 60.0, ("m-1", "m-2") * 4
            rows = [record(minute * 8 + n, at + n, levels[model][minute], model) for n, model in enumerate(models)]
            await fold.deliver(rows)
            texts.append([each.annotations["description"] for each in await stage.look(NOW + at + 60.0)])
        [(begin, end)] = stage.incidents(("all", "exact", stage.firing[0].alert.labels["evaluator_version"]))
    assert any("The fall is explained by model=m-2" in text for [text] in filter(None, texts[60:90]))
    assert not texts[159], "the incident is over"
    [last] = texts[199]
    assert "explained by" not in last
    assert "None of model (2 values and pairs" in last
    assert abs(begin - NOW - 3600.0) <= 60.0
    assert end < NOW + 130 * 60.0


async def test_a_model_that_is_bad_is_named_in_the_text_and_as_a_metric_until_it_is_over() -> None:
    telemetry = Telemetry()
    stage = watcher(telemetry)
    records = bad_since(60, 240)
    async with stage.open_fold(0, None) as fold:
        first: list[str] = []
        for minute in range(200):
            await fold.deliver(records[minute * 6 : minute * 6 + 6])
            active = await stage.look(NOW + minute * 60.0 + 60.0)
            assert not active or minute >= 60
            first = first or [each.annotations["description"] for each in active]
        assert first
        assert all("The fall is explained by model=m-2 (" in each for each in first)
        [cause] = stage.firing[0].alert.causes
        assert (cause.part, cause.mean, len(cause.read)) == ("model=m-2", 0.0, 3)
        assert cause.share > 0.9
        assert telemetry.registry.get_sample_value(DROP_EXPLAINED.name, LABELS) == cause.share
        good = [record(5000 + number, 12_000.0 + number * 10.0, 1.0, "m-2") for number in range(900)]
        for number in range(0, 900, 6):
            await fold.deliver(good[number : number + 6])
            await stage.look(NOW + 12_000.0 + number * 10.0 + 60.0)
        assert stage.firing == ()
        assert telemetry.registry.get_sample_value(DROP_EXPLAINED.name, LABELS) == 0.0


async def test_a_value_that_calls_somebody_calls_nobody_as_a_label_of_which_rules_speak() -> None:
    telemetry = Telemetry()
    stage = watcher(telemetry)
    async with stage.open_fold(0, None) as fold:
        for record in bad_since(60, 90, "m-2"):
            value = record.value.replace(b'"m-2"', b'"<!channel> see http://evil.example"')
            await fold.deliver([replace(record, value=value)])
            await stage.look(record.timestamp + 60.0)
    [label] = [
        sample.labels["slice"]
        for family in telemetry.registry.collect()
        for sample in family.samples
        if sample.name == DROP_EXPLAINED.name
    ]
    assert label.startswith("model=")
    assert not set("<>") & set(label)
    assert "://" not in label


@pytest.mark.parametrize("grafana", [None, "https://grafana.example/"])
async def test_what_the_watcher_posts_links_to_the_dashboard_as_the_rules_do(grafana: str | None) -> None:
    config = configured()
    held = targets(config)
    of = detector(held[0], held, config.settings.alerts, 1)
    settings = config.settings.alerts.model_copy(update={"dashboards": grafana})
    stage = WatchStage(WatchRules({("all", "exact"): of}, settings), Telemetry())
    async with stage.open_fold(0, None) as fold:
        await fold.deliver([record(number, number * 5.0, float(number % 3 == 0), "m-1") for number in range(240)])
        active = await stage.look(NOW + 1260.0)
    assert [each.labels["alertname"] for each in active] == ["EvalstreamScoreDropped"], "one fall is one alert"
    board = "https://grafana.example/d/evalstream-quality?from=now-24h&to=now&var-monitor=all&var-evaluator=exact"
    expected = None if grafana is None else board
    assert {each.annotations.get("dashboard_url") for each in active} == {expected}


async def test_where_all_fell_alike_the_text_says_that_nothing_explains_it() -> None:
    stage = watcher(Telemetry())
    async with stage.open_fold(0, None) as fold:
        for number in range(600):
            is_bad = number >= 400 and number % 2
            await fold.deliver([record(number, number * 10.0, float(not is_bad), f"m-{number // 2 % 2}")])
        active = await stage.look(NOW + 6060.0)
    assert active
    none = "None of model (2 values and pairs, "
    unseen = "Only declared attributes, and parts of at least 20 conversations, can be compared."
    assert all(none in each.annotations["description"] for each in active)
    assert all(unseen in each.annotations["description"] for each in active)


async def test_where_nothing_could_be_looked_at_the_text_says_that() -> None:
    """ "No part of the traffic explains it" was said of 15 conversations."""
    stage = watcher(Telemetry())
    async with stage.open_fold(0, None) as fold:
        for number in range(60):
            await fold.deliver([record(number, number * 10.0, float(number < 5), "m-1")])
        active = await stage.look(NOW + 660.0)
    assert active
    for alert in active:
        assert "There are too few conversations (" in alert.annotations["description"]
        assert "20 each are needed." in alert.annotations["description"]


async def test_a_mean_that_is_below_its_target_from_its_first_minute_began_to_be_then() -> None:
    """The text of a new version's first alert said "0 before 1970-01-01 00:00 UTC, 60 since"."""
    asked: list[float] = []

    def judge_since(_evaluator: str, _version: str, since: float, **_: object) -> None:
        asked.append(since)

    stage = watcher(Telemetry())
    stage.trust = JudgeTrust(judge_since=judge_since)
    async with stage.open_fold(0, None) as fold:
        for number in range(60):
            await fold.deliver([record(number, number * 0.2, 0.0, "m-1")])
        active = await stage.look(NOW + 15.0)  # within the minute of the first score
    minute = NOW // 60.0 * 60.0
    assert active
    assert all(f"(0 before {minute_in_utc(minute)}, 60 since)" in each.annotations["description"] for each in active)
    assert all(each.since == minute for each in active)
    assert set(asked) == {minute}, "the judge is compared since then"


@pytest.mark.parametrize("after", [7, 0])
async def test_a_changed_target_has_one_moment_in_the_text_and_as_its_begin(after: int) -> None:
    """The page said "since 04:12", when the mean began to miss the target before, and "44 before, 7 since" 04:39."""
    config, clock = configured(), [NOW]
    held = targets(config)
    lower = detector(replace(held[0], mean=0.6), held, config.settings.alerts, 1)
    higher = detector(replace(held[0], mean=0.75), held, config.settings.alerts, 1)
    rules = WatchRules({("all", "exact"): lower}, config.settings.alerts)
    stage = WatchStage(rules, Telemetry(), recent=RecentScores({"model"}), clock=lambda: clock[0])
    async with stage.open_fold(0, None) as fold:
        await fold.deliver([record(number, number * 20.0, 0.4 + number % 3 / 10, "m-1") for number in range(73)])
        await stage.look(NOW + 1500.0)
        [before] = stage.firing
        clock[0] = NOW + 1505.0
        stage.reconfigure(replace(rules, targets={("all", "exact"): higher}))
        await fold.deliver([record(100 + number, 1510.0 + number, 0.5, "m-1") for number in range(after)])
        await stage.look(NOW + 1620.0)
        [alert] = stage.firing
    began = (NOW + 1505.0) // 60.0 * 60.0
    assert before.since < NOW + 60.0
    assert (alert.alert.key, alert.since) == (before.alert.key, began)
    moment = f"{datetime.fromtimestamp(began, UTC):%Y-%m-%d %H:%M} UTC"
    assert f"(73 before {moment}, {after} since)" in alert.alert.annotations["description"]


@pytest.mark.parametrize("moved", [0.95, 0.97, 1.0])
async def test_where_all_of_the_traffic_moved_the_new_value_is_the_first_candidate(moved: float) -> None:
    """The fall was denied where no rest was left: all went from one model to another, and the mean from 1 to 0.3."""
    stage, chance = watcher(Telemetry()), random.Random(3)
    async with stage.open_fold(0, None) as fold:
        for number in range(700):
            is_new = number >= 400 and chance.random() < moved
            score = float(chance.random() < 0.3) if is_new else 1.0
            await fold.deliver([record(number, number * 10.0, score, "m-2" if is_new else "m-1")])
        active = await stage.look(NOW + 7060.0)
    assert active
    when = datetime.fromtimestamp(NOW + 4000.0, UTC).strftime("%Y-%m-%d %H:%M UTC")
    sentence = f"The first candidate: model changed from m-1 to m-2, first seen {when}; the fall began then."
    for alert in active:
        assert sentence in alert.annotations["description"]
        assert alert.causes[0].before == 1.0


def test_a_value_near_the_limit_stays_named_within_an_alert() -> None:
    """It came and went each minute: of the traffic since the fall the new model had between 87 and 93 %."""

    def named(shares: Sequence[float]) -> list[bool]:
        shown, moved = list[bool](), ()
        for share in shares:
            chance = random.Random(11)
            scores = [
                (
                    n * 10.0,
                    ScoredItem(str(n), str(n), score, 1.0, frozenset({("model", "m-2" if new else "m-1")}), n * 10.0),
                )
                for n in range(600)
                for new in [n >= 400 and n % 100 < 100.0 * share]
                for score in [float(chance.random() < (0.3 if new else 0.9))]
            ]
            explanation = explanation_of(scores, 4000.0, lower_is_better=False, evaluators=1, moved=moved)
            moved = explanation.moved
            shown.append(any(cause.part == "model changed from m-1 to m-2" for cause in explanation.causes))
        return shown

    assert named([0.87, 0.93, 0.87, 0.91, 0.8, 0.93]) == [False, True, True, True, True, True]
    assert named([0.93, 0.7, 0.87]) == [True, False, False], "it is over below the lower limit"


def test_a_new_value_without_a_fall_and_one_that_was_good_for_long_are_no_candidates() -> None:
    chance = random.Random(7)

    def items(first: int, count: int, mean: float, model: str) -> list[tuple[float, ScoredItem]]:
        labels = frozenset({("model", model)})
        return [
            (n * 10.0, ScoredItem(str(n), str(n), float(chance.random() < mean), 1.0, labels, n * 10.0))
            for n in range(first, first + count)
        ]

    def named(*parts: list[tuple[float, ScoredItem]]) -> bool:
        scores = [item for part in parts for item in part]
        return bool(explanation_of(scores, 4000.0, lower_is_better=False, evaluators=1).causes)

    assert sum(named(items(0, 400, 0.8, "m-1"), items(400, 200, 0.8, "m-2")) for _ in range(100)) <= 4
    good_for_long = [
        named(items(0, 370, 0.9, "m-1"), items(370, 30, 0.9, "m-2"), items(400, 200, 0.4, "m-2")) for _ in range(50)
    ]
    assert sum(good_for_long) <= 5


def test_of_equally_bad_evaluations_the_newest_are_to_be_read() -> None:
    """The oldest were named, which the page no longer listed: its links led nowhere."""
    items = [
        ScoredItem(str(n), str(n // 2), float(n % 3 == 0), 1.0, frozenset({("model", "m-2")}), float(n))
        for n in range(90)
    ]
    assert worst_of(items, lower_is_better=False) == ("89", "86", "85")
    assert worst_of(items, lower_is_better=True) == ("87", "84", "81")


def test_the_rules_ask_prometheus_for_it() -> None:
    written = [rule for group in prometheus(rules_of(configured()))["groups"] for rule in group["rules"]]
    texts = [
        rule["annotations"]["description"] for rule in written if rule.get("alert", "").startswith("EvalstreamScore")
    ]
    assert len(texts) == 2
    for text in texts:
        asked = 'printf "evalstream:drop_cause{evaluator=%q,monitor=%q} < Inf" "exact" "all" | query'
        assert "{{ with " + asked + " }}The fall is explained by {{ $comma := `` }}{{ range . }}" in text
        assert "{{ else }}No part of the traffic is known to explain it{{ end }}. " in text
        assert 'the mean of {{ $all := . }}{{ $comma := `` }}{{ range $place := args "15m" "1h" "6h" "24h" }}' in text


async def test_targets_that_go_while_a_drop_is_explained_take_their_causes_along() -> None:
    telemetry = Telemetry()
    stage = watcher(telemetry)
    settings, held = configured().settings.alerts, stage.rules.targets
    async with stage.open_fold(0, None) as fold:
        await fold.deliver(bad_since(60, 200))
        await stage.look(NOW + 12_000.0)
        assert telemetry.registry.get_sample_value(DROP_EXPLAINED.name, LABELS)
        stage.reconfigure(WatchRules({}, settings))
        assert telemetry.registry.get_sample_value(DROP_EXPLAINED.name, LABELS) == 0.0
        assert await stage.look(NOW + 12_120.0) == []
        stage.reconfigure(WatchRules(held, settings))
        looking = asyncio.create_task(stage.look(NOW + 12_180.0))
        while not looking.done() and not stage.firing:
            await asyncio.sleep(0)
        stage.reconfigure(WatchRules({}, settings))
        await looking
        assert await stage.look(NOW + 12_300.0) == []
        assert telemetry.registry.get_sample_value(DROP_EXPLAINED.name, LABELS) == 0.0


def test_a_mean_that_rose_is_explained_by_no_part_that_fell() -> None:
    """An incident that is over was told as a fall, explained by the release that had caused it."""
    scores = [
        (float(n), ScoredItem(str(n), str(n), score, 1.0, frozenset({("release", name)}), float(n)))
        for n in range(400)
        for name, score in (("b" if n % 2 else "a", 0.4 if n < 200 else 0.6 if n % 2 else 0.9),)
    ]
    found = explanation_of(scores, 200.0, lower_is_better=False, evaluators=1)
    assert (found.causes, "no better" in found.otherwise) == ((), True)
    assert explanation_of(scores, 200.0, lower_is_better=True, evaluators=1).causes
