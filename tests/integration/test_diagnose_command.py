"""`evalstream diagnose` over a real log: the part that fell, with evaluations to read; or that none did."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from configurations import checked
from evaluation_samples import scored

from collector.commands.diagnose.diagnose import DiagnoseOptions, diagnose
from collector.config.configured import Config
from collector.errors import ConfigError, EvalstreamError
from collector.logs.log import Record
from collector.records.json import evaluation_to_json
from collector.service.open_logs import open_logs
from collector.service.plan_builder import evaluator_version_in
from evaluators.results import Evaluation, Sampling, Subject

NOW = datetime(2026, 11, 1, tzinfo=UTC)
BEGAN = NOW - timedelta(hours=6)


def configured(folder: Path, **log: Any) -> Config:
    return checked(
        {"exact": {"kind": "exact_match"}, "other": {"kind": "exact_match"}},
        log=log or {"kind": "sqlite", "path": str(folder / "logs.db")},
        assemble={"attributes": ["tier"]},
    )


def incident(worse: str, count: int = 1600) -> Iterator[Evaluation]:
    """Scores of a day; since `BEGAN` those of one model are lower. An undeclared attribute tells all, and is not looked at."""
    chance = random.Random(16)
    for number in range(count):
        ended = BEGAN + timedelta(hours=-18 + 24 * number / count)
        model = chance.choices(("m-1", "m-2", "m-3"), (5, 3, 2))[0]
        fell = ended >= BEGAN and model == worse
        score = min(1.0, max(0.0, chance.gauss(0.4 if fell else 0.8, 0.2)))
        yield scored(
            number,
            evaluation_id=f"{number:032x}",
            evaluator="exact",
            monitor="all",
            subject=Subject(conversation_id=f"c{number}", turn_id=f"t{number}"),
            score=score,
            sampling=Sampling(probability=chance.choice((0.1, 0.2))),
            ended_at=ended,
            attributes={
                "model": model,
                "tier": chance.choice(("gold", "free")),
                "tools": [chance.choice(("search", "look"))],
                "language": chance.choice(("en", "de")),
                "undeclared": str(fell),
            },
        )


async def stored(config: Config, evaluations: list[Evaluation]) -> None:
    async with open_logs(config.settings.log) as logs:
        records = [Record(each.evaluation_id.encode(), evaluation_to_json(each)) for each in evaluations]
        await logs.evaluations.append(records + records[:50])


def options(**changes: Any) -> DiagnoseOptions:
    return DiagnoseOptions(
        **{"monitor": "all", "since": BEGAN, "until": NOW, "against": NOW - timedelta(days=1), **changes}
    )


async def test_the_part_that_fell_is_named_with_the_worst_to_read(tmp_path: Path) -> None:
    config = configured(tmp_path)
    evaluations = list(incident("m-3"))
    await stored(config, evaluations)
    lines: list[str] = []
    assert await diagnose(config, options(), lines.append, as_json=False) == 0
    text = "\n".join(lines)
    assert "\n  model=m-3: 0.78" in text
    assert "of the change; 19.5% of the traffic" in text
    assert "If no part fell more than the rest, the chance that any is named is 2% in all" in text
    assert "undeclared" not in text
    document: list[str] = []
    assert await diagnose(config, options(), document.append, as_json=True) == 0
    (part,) = json.loads(document[0])["evaluators"]["exact"]["slices"]
    assert part["slice"] == {"model": "m-3"}
    assert part["after"] == pytest.approx(0.4, abs=0.1)
    by_id = {each.evaluation_id: each for each in evaluations}
    members = [each for each in evaluations if each.ended_at >= BEGAN and each.attributes["model"] == "m-3"]
    assert [by_id[each].score for each in part["read"]] == sorted(each.score or 0.0 for each in members)[:3]


async def test_of_two_parts_both_shares_are_of_all_the_traffic(tmp_path: Path) -> None:
    """The second one's were of the traffic without the first."""
    config = configured(tmp_path)
    tiers, falls = ("gold", "free", "team", "free", "test"), {"gold": 0.5, "free": 0.3}
    evaluations = [
        replace(
            each, score=0.85 + number % 2 / 10 - fall, attributes={"tier": tier}, sampling=Sampling(probability=1.0)
        )
        for number, each in enumerate(incident("none"))
        for tier in [tiers[number % 5]]
        for fall in [falls.get(tier, 0.0) * (each.ended_at >= BEGAN)]
    ]
    await stored(config, evaluations)
    lines: list[str] = []
    assert await diagnose(config, options(), lines.append, as_json=False) == 0
    rest = "    if it had changed like the rest, which is in no named part, the mean would be"
    explained = [line for line in lines if line.startswith(rest)]
    assert explained == [
        f"{rest} 0.100 higher now, 45% of the change; 20.0% of the traffic, 20.0% before",
        f"{rest} 0.120 higher now, 55% of the change; 40.0% of the traffic, 40.0% before",
    ]


async def test_what_was_rejudged_is_read_at_its_own_time(tmp_path: Path) -> None:
    """All scores of the version before are of the minute in which the past was sent; those of now are of each hour."""
    config = configured(tmp_path)
    version = evaluator_version_in(config, "exact")
    of_now = [
        replace(one, evaluator_version=version, happened_at=one.ended_at, ended_at=NOW, attributes={
            **one.attributes, "replay_of": f"{n + 9000:032x}"})
        for n, one in enumerate(incident("m-3"))
    ]  # fmt: skip
    before = [replace(one, evaluation_id=f"{n + 9000:032x}", happened_at=None, ended_at=NOW - timedelta(seconds=9),
                      evaluator_version="before") for n, one in enumerate(of_now)]  # fmt: skip
    await stored(config, [*before, *of_now])
    lines: list[str] = []
    assert await diagnose(config, options(), lines.append, as_json=False) == 0
    assert any(line.startswith("  model=m-3: 0.78") for line in lines)


@pytest.mark.parametrize("compared", [False, True])
async def test_the_time_before_is_without_an_incident_that_is_over(tmp_path: Path, compared: bool) -> None:
    """One model was bad and was repaired; then all fell, and the model that had been good all along was named."""
    log = {"kind": "sqlite", "path": str(tmp_path / "logs.db")}
    config = checked({"exact": {"kind": "exact_match", "threshold": 0.8}}, log=log)
    chance, began = random.Random(3), NOW - timedelta(minutes=20)
    bad = began - timedelta(minutes=60), began - timedelta(minutes=40)
    evaluations = [
        scored(
            number, evaluation_id=f"{number:032x}", evaluator="exact", monitor="all", ended_at=ended,
            subject=Subject(conversation_id=f"c{number}", turn_id=f"t{number}"), attributes={"model": model},
            evaluator_version=evaluator_version_in(config, "exact"),
            score=0.7 if ended >= began else 0.4 if model == "m-2" and bad[0] <= ended < bad[1] else 0.9,
        )
        for number in range(1800)
        for ended in [NOW - timedelta(seconds=(1800 - number) * 5)]
        for model in [chance.choice(("m-1", "m-2"))]
    ]  # fmt: skip
    await stored(config, evaluations)
    lines: list[str] = []
    against = began - timedelta(minutes=100) if compared else None
    wanted = options(since=began, until=NOW, against=against)
    assert await diagnose(config, wanted, lines.append, as_json=False) == 0
    named = [line for line in lines if line.startswith("  model=")]
    left_out = [line for line in lines if line.startswith("  the incident from ")]
    if compared:
        assert (len(named), left_out) == (1, []), "who says what to compare with gets that"
    else:
        assert (named, len(left_out)) == ([], 1)
        assert "from 2026-10-31T22:4" in left_out[0]
        document: list[str] = []
        await diagnose(config, wanted, document.append, as_json=True)
        [(_, ended)] = json.loads(document[0])["evaluators"]["exact"]["incidents"]
        lines.clear()
        await diagnose(
            config,
            replace(wanted, since=datetime.fromisoformat(ended) - timedelta(seconds=5)),
            lines.append,
            as_json=False,
        )
        found = [line for line in lines if line.startswith(("exact: 0.900 before", *left_out))]
        assert len(found) == 2, "the incident ended after the window began"
        lines.clear()
        await diagnose(
            config, replace(wanted, since=bad[0] + timedelta(minutes=3), until=began), lines.append, as_json=False
        )
        assert any(line.startswith("  model=m-2: 0.8") for line in lines), "this incident is what the window is about"


async def test_where_none_fell_it_says_so(tmp_path: Path) -> None:
    config = configured(tmp_path)
    await stored(config, list(incident("nobody's")))
    lines: list[str] = []
    assert await diagnose(config, options(), lines.append, as_json=False) == 0
    assert (
        "  no part fell more than the rest: the change itself is within 3 standard errors, so it may be chance" in lines
    )


async def test_a_change_beyond_its_interval_is_not_denied(tmp_path: Path) -> None:
    """Beside "-0.026 (95 %: ± 0.020)" it said "nor is the change itself beyond chance"."""
    config, lines, drop = configured(tmp_path), list[str](), 0.015
    fallen = [
        replace(each, score=max(0.0, (each.score or 0.0) - drop * (each.ended_at >= BEGAN)))
        for each in incident("none")
    ]
    await stored(config, fallen)
    assert await diagnose(config, options(), lines.append, as_json=False) == 0
    change, half = map(float, re.findall(r"a change of (\S+) \(95 %: ± (\S+)\)", "\n".join(lines))[0])
    assert 2.0 < -change / (half / 1.96) < 3.0
    assert (
        "  no part fell more than the rest: the change itself is within 3 standard errors, so it may be chance" in lines
    )


@pytest.mark.parametrize("level", [0.0, 0.7])
async def test_equal_scores_have_an_interval_too_and_no_change(tmp_path: Path, level: float) -> None:
    """Of scores that are all 0 it said "+0.000 (95 %: ± 0.000)" and that the change may be chance."""
    config, lines = configured(tmp_path), list[str]()
    await stored(config, [replace(each, score=level) for each in incident("none")])
    assert await diagnose(config, options(), lines.append, as_json=False) == 0
    [half] = re.findall(r"a change of \+0\.000 \(95 %: ± (\S+)\)", "\n".join(lines))
    assert 0.001 < float(half) < 0.02
    assert "  no part fell more than the rest: all scores are equal, before and now" in lines


@pytest.mark.parametrize(
    "judge", ["", " or of the judge; if it is known whether the judge has changed, the alert says so"]
)
async def test_a_change_of_all_may_be_one_of_the_judge(tmp_path: Path, judge: str) -> None:
    """While the judge was another one, it said that the change was of the traffic, and did not name the judge."""
    g_eval = {"kind": "g_eval", "evaluation_steps": ["Look."], "evaluation_params": ["input"]}
    log = {"kind": "sqlite", "path": str(tmp_path / "logs.db")}
    config = checked({"exact": g_eval if judge else {"kind": "exact_match"}}, judges={"main": {"model": "m"}}, log=log)
    await stored(config, [
        replace(each, score=0.5 - 0.2 * (each.ended_at >= BEGAN) + 0.01 * (number % 3))
        for number, each in enumerate(incident("none"))
    ])  # fmt: skip
    lines: list[str] = []
    assert await diagnose(config, options(), lines.append, as_json=False) == 0
    assert f"  no part fell more than the rest: the change is of all traffic{judge}" in lines


@pytest.mark.parametrize(("kind", "better"), [("exact_match", 1.0), ("refusal", -1.0)])
async def test_of_a_mean_that_got_better_it_says_so(tmp_path: Path, kind: str, better: float) -> None:
    """After a recovery of one part it said that the change was of all traffic."""
    config = checked(
        {"exact": {"kind": kind}}, judges={"main": {"model": "m"}},
        log={"kind": "sqlite", "path": str(tmp_path / "logs.db")}, assemble={"attributes": ["tier"]},
    )  # fmt: skip
    recovered = [
        replace(each, score=min(1.0, max(0.0, 0.5 + better * (0.3 if each.ended_at >= BEGAN else -0.3))))
        if each.attributes["tier"] == "gold" else each for each in incident("none")
    ]  # fmt: skip
    await stored(config, recovered)
    lines: list[str] = []
    assert await diagnose(config, options(), lines.append, as_json=False) == 0
    assert lines[-3].startswith("  the mean got better by 0.3")
    assert lines[-3].endswith("; no part surely fell")
    assert not any("explained" in line or "read:" in line or "all traffic" in line for line in lines)
    document: list[str] = []
    assert await diagnose(config, options(), document.append, as_json=True) == 0
    assert json.loads(document[0])["evaluators"]["exact"]["slices"] == []


async def test_where_all_of_the_traffic_moved_the_new_value_is_the_first_candidate(tmp_path: Path) -> None:
    """From one model to another, and the mean from 0.8 to 0.4: `diagnose` denied that a part explains it."""
    config = configured(tmp_path)
    moved = [
        replace(each, attributes={**each.attributes, "model": "m-3" if each.ended_at >= BEGAN else "m-1"},
                score=(each.score or 0.0) / (2 if each.ended_at >= BEGAN else 1))
        for each in incident("none")
    ]  # fmt: skip
    await stored(config, moved)
    lines: list[str] = []
    assert await diagnose(config, options(), lines.append, as_json=False) == 0
    when = BEGAN.isoformat().replace("+00:00", "Z")
    expected = (
        f"  first candidate: model changed from m-1 to m-3, first seen {when}, in nearly all of the traffic since"
    )
    assert expected in lines


async def test_a_change_of_the_criterion_is_no_fall(tmp_path: Path) -> None:
    """Until half-way into the time before another version scored, far higher."""
    config = configured(tmp_path)
    changed = BEGAN - timedelta(hours=9)
    earlier = {"evaluator_version": "older", "score": 1.0}
    await stored(config, [replace(each, **earlier) if each.ended_at < changed else each for each in incident("none")])
    lines: list[str] = []
    assert await diagnose(config, options(), lines.append, as_json=False) == 0
    assert "  600 scores of another version or judge left out: a mean is of one version and judge" in lines
    assert any(
        line.startswith("  the mean got better by 0.0") and line.endswith("; no part surely fell") for line in lines
    )


@pytest.mark.parametrize(("kind", "better"), [("exact_match", 1.0), ("refusal", -1.0)])
@pytest.mark.parametrize("fall", [0.0, 0.25])
async def test_of_a_mean_that_did_not_fall_only_a_part_that_surely_fell_is_named(
    tmp_path: Path, kind: str, better: float, fall: float
) -> None:
    """Scores of one model rose, and diagnose named another as fallen, which had stayed as it was."""
    config = checked(
        {"exact": {"kind": kind}}, judges={"main": {"model": "m"}},
        log={"kind": "sqlite", "path": str(tmp_path / "logs.db")}, assemble={"attributes": ["tier"]},
    )  # fmt: skip
    changes = {"gold": 0.1 + fall, "free": -fall}

    def moved(each: Evaluation, number: int) -> Evaluation:
        change = changes[str(each.attributes["tier"])] if each.ended_at >= BEGAN else 0.0
        return replace(each, score=0.5 + better * change + (0.1 if number % 2 else -0.1))

    await stored(config, [moved(each, number) for number, each in enumerate(incident("none"))])
    lines: list[str] = []
    assert await diagnose(config, options(), lines.append, as_json=False) == 0
    named = [line for line in lines if line.startswith("  tier=free")]
    assert bool(named) is (fall > 0.0)


async def test_wrong_names_and_times_and_too_few_scores(tmp_path: Path) -> None:
    config = configured(tmp_path)
    with pytest.raises(ConfigError, match=r"logs\.db: no such file"):
        await diagnose(config, options(), print, as_json=False)
    await stored(config, list(incident("m-3", 30)))
    with pytest.raises(ConfigError, match=r"--monitor: unknown monitor 'alll'; did you mean 'all'"):
        await diagnose(config, options(monitor="alll"), print, as_json=False)
    with pytest.raises(ConfigError, match="--evaluator: unknown evaluator"):
        await diagnose(config, options(evaluators=["exakt"]), print, as_json=False)
    with pytest.raises(ConfigError, match="the window must begin before it ends"):
        await diagnose(config, options(until=BEGAN), print, as_json=False)
    with pytest.raises(
        EvalstreamError, match="needs 20 scored conversations in the window and as many before it"
    ) as raised:
        await diagnose(config, options(), print, as_json=False)
    assert not isinstance(raised.value, ConfigError)
    with pytest.raises(ConfigError, match=r"log\.kind is memory"):
        await diagnose(configured(tmp_path, kind="memory"), options(), print, as_json=False)
