"""What a declared traffic needs, as `evalstream check` says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from collector.cli import app
from collector.commands.check.capacity import (
    AT_REST,
    COMPILED,
    PURE,
    ROUND,
    ROUNDS,
    TURNS_OF_A_ROUND,
    UTILISATION,
    Capacity,
    CpuCosts,
    capacity_lines,
    capacity_of,
)
from collector.config.loading import load

FILE = """
traffic: {spans_per_second: %s, spans_per_turn: 5, bytes_per_span: 1000, bytes_per_turn: 3400, turns_per_conversation: 10}
judges: {main: {model: m, api_key: k%s}}
evaluators:
  good: {kind: g_eval, criteria: "Is it good?", evaluation_params: [input, actual_output], judge: main}
  reached: {kind: goal_accuracy, judge: main}
  short: {kind: length, maximum: 100}
monitors:
  all: {sample: 0.1, evaluators: [good, reached, {name: short, sample: 1.0}]}
%s
"""
PRICED = ", usd_per_million_input_tokens: 1.0, usd_per_million_output_tokens: 5.0"


def file(folder: Path, spans: float = 1000, judge: str = PRICED, more: str = "") -> Path:
    path = folder / "evalstream.yaml"
    path.write_text(FILE % (spans, judge, more))
    return path


def needed(path: Path, costs: CpuCosts = PURE) -> Capacity:
    found = capacity_of(load(path, {}), costs)
    assert found is not None
    return found


def beside(stage: str, processes: int) -> float:
    """Cores that processes take whatever comes, where much does."""
    return processes * (AT_REST[stage] + ROUNDS * ROUND[stage])


def test_rates_follow_from_scopes_and_samples(tmp_path: Path) -> None:
    found = needed(file(tmp_path))
    assert found.turns_per_second == 200
    assert found.evaluations_per_second == pytest.approx(200 * 0.1 + 20 * 0.1 + 200)
    (judge,) = found.judges
    assert judge.requests_per_second == pytest.approx(22)
    assert judge.in_flight == 44
    assert (judge.input_tokens_per_second, judge.output_tokens_per_second) == pytest.approx((33_000, 4_400))
    assert judge.usd_per_day == pytest.approx(86_400 * (33_000 * 1.0 + 4_400 * 5.0) / 1e6)
    assert found.usd_per_day == judge.usd_per_day


def test_requests_that_wait_for_batches_cost_what_they_cost_and_are_not_in_flight(tmp_path: Path) -> None:
    now, hours = needed(file(tmp_path, 100_000)), tmp_path / "hours"
    hours.mkdir()
    path = file(hours, 100_000)
    path.write_text(path.read_text().replace("sample: 0.1,", "sample: 0.1, urgency: hours,"))
    later = needed(path)
    work = {each.stage: each.cores - each.processes * AT_REST[each.stage] for each in now.stages}
    waiting = {each.stage: each.cores - each.processes * AT_REST[each.stage] for each in later.stages}
    more = later.judges[0].deferred_per_second * (PURE.deferred_request - PURE.judge_request)
    assert more > 0
    assert waiting["evaluate"] - work["evaluate"] == pytest.approx(more)
    assert later.judges[0].in_flight == 0


def test_a_judge_is_asked_once_for_monitors_that_watch_the_same_turns(tmp_path: Path) -> None:
    """Two monitors with one evaluator showed twice the requests and the cost, and were told to raise the concurrency."""
    second = "  some: {sample: 0.05, evaluators: [good]%s}"
    alone, both = needed(file(tmp_path)), needed(file(tmp_path, more=second % ""))
    assert both.judges == alone.judges
    assert both.evaluations_per_second > alone.evaluations_per_second, "each monitor has a record"
    counted = "alerts: {turns_per_hour: 36000}, match: {service: %s}"
    monitors = "  b: {sample: 0.1, evaluators: [good], %s}\n  c: {sample: 0.1, evaluators: [good], %s}"
    same, apart = (needed(file(tmp_path, more=monitors % (counted % "x", counted % other))) for other in "xy")
    assert same.judges[0].requests_per_second == pytest.approx(alone.judges[0].requests_per_second + 1)
    assert apart.judges[0].requests_per_second == pytest.approx(alone.judges[0].requests_per_second + 2)


def test_processes_and_partitions_follow_from_the_costs(tmp_path: Path) -> None:
    found = needed(file(tmp_path, 100_000))
    stages = {each.stage: each for each in found.stages}
    work = 100_000 * PURE.receive_span + 20_000 * PURE.receive_trace
    assert stages["receive"].cores == pytest.approx(work + beside("receive", stages["receive"].processes))
    for each in found.stages:
        assert each.processes - 1 < each.cores / UTILISATION <= each.processes
    largest = max(each.processes for each in found.stages if each.stage != "receive")
    assert found.partitions >= 2 * largest
    assert found.partitions.bit_count() == 1
    assert found.broker_in_mb_per_second == pytest.approx(100 + 20_000 * 4e-3 + found.evaluations_per_second * 1.5e-3)


def test_little_traffic_comes_in_few_rounds(tmp_path: Path) -> None:
    stages = {each.stage: each for each in needed(file(tmp_path, 500)).stages}
    work = 500 * PURE.receive_span + 100 * PURE.receive_trace
    rounds = 100 / TURNS_OF_A_ROUND * ROUND["receive"]
    assert stages["receive"].cores == pytest.approx(work + AT_REST["receive"] + rounds)


def test_turns_that_nobody_can_want_take_less(tmp_path: Path) -> None:
    path = file(tmp_path, 100_000)
    wanted, whole = needed(path), needed(file(tmp_path, 100_000, more="assemble: {keep: all}"))
    assert [each.cores for each in wanted.stages] == [each.cores for each in whole.stages], "an evaluator wants all"
    path.write_text((FILE % (100_000, PRICED, "")).replace("{name: short, sample: 1.0}", "short"))
    found = needed(path)
    work = {each.stage: each.cores - beside(each.stage, each.processes) for each in found.stages}
    spans, turns = 100_000, 20_000
    assert work["receive"] == pytest.approx(
        spans * PURE.receive_span + turns * (0.1 * PURE.receive_trace + 0.9 * PURE.unwanted_trace)
    )
    assert work["assemble"] == pytest.approx(
        0.1 * (spans * PURE.assemble_span + turns * PURE.assemble_turn) + 0.9 * turns * PURE.unwanted_assemble_turn
    )
    assert found.broker_in_mb_per_second < whole.broker_in_mb_per_second - 60
    assert "this supposes traces that come whole in one request" in "\n".join(capacity_lines(load(path, {})))


def test_what_is_known_of_a_monitor_goes_before_the_whole_traffic(tmp_path: Path) -> None:
    path = file(tmp_path)
    path.write_text(path.read_text().replace("sample: 0.1, ", "sample: 0.1, alerts: {turns_per_hour: 3600}, "))
    assert needed(path).evaluations_per_second == pytest.approx(0.1 + 0.01 + 1.0)


def test_without_a_price_there_is_no_sum(tmp_path: Path) -> None:
    found = needed(file(tmp_path, judge=""))
    assert found.usd_per_day is None
    assert "no price set" in "\n".join(capacity_lines(load(file(tmp_path, judge=""), {})))


def test_every_member_of_a_jury_is_asked(tmp_path: Path) -> None:
    path = file(tmp_path)
    text = path.read_text().replace("judges: {main:", "judges: {other: {model: o, api_key: k}, main:")
    text = text.replace("evaluators:\n  good", "juries: {both: {judges: [main, other]}}\nevaluators:\n  good")
    path.write_text(text.replace("output], judge: main", "output], judge: both"))
    rates = {each.judge: each.requests_per_second for each in needed(path).judges}
    assert rates == pytest.approx({"main": 22, "other": 20})


@pytest.mark.parametrize(
    ("spans", "more", "said"),
    [
        (100_000, "", "write log: {kind: kafka"),
        (100_000, "", "judges.main.concurrency is 32"),
        (100_000, "log: {kind: kafka, kafka: {bootstrap_servers: [b:1], partitions: 2}}", "log.kafka.partitions is 2"),
        (1000, "evaluate: {budget: {usd_per_day: 100}}", "covers 2"),
    ],
)
def test_limits_below_the_need_are_named(tmp_path: Path, spans: float, more: str, said: str) -> None:
    assert said in "\n".join(capacity_lines(load(file(tmp_path, spans, more=more), {})))


def test_turns_per_hour_and_the_budget_of_a_monitor_are_named(tmp_path: Path) -> None:
    """It said 8 evaluations a second of 50 turns, and a cost that the monitor's budget does not allow."""
    path = file(tmp_path, 250)
    more = "alerts: {turns_per_hour: 14400}, budget: {usd_per_hour: 0.1}, sample: 0.1"
    path.write_text(path.read_text().replace("sample: 0.1", more))
    lines = "\n".join(capacity_lines(load(path, {})))
    assert "monitors.all counts with 4 turns/s here, by its alerts.turns_per_hour" in lines
    assert "the budget of 2.40 USD per day covers " in lines


def test_a_sqlite_file_has_a_size_and_no_partitions(tmp_path: Path) -> None:
    lines = "\n".join(capacity_lines(load(file(tmp_path, 250), {})))
    assert "SQLite: up to 323 GB" in lines
    assert "Kafka" not in lines


def test_each_judge_has_places_of_its_own(tmp_path: Path) -> None:
    """44 evaluations are under way: too many for one judge's 42 places, and not for those of two."""
    path = file(tmp_path, more="evaluate: {concurrency: 42}")
    assert "about 44 evaluations by main will be in flight" in "\n".join(capacity_lines(load(path, {})))
    text = path.read_text().replace("judges: {main:", "judges: {other: {model: o, api_key: k}, main:")
    path.write_text(text.replace("output], judge: main", "output], judge: other"))
    assert "evaluate.concurrency" not in "\n".join(capacity_lines(load(path, {})))


def test_a_small_traffic_asks_for_nothing(tmp_path: Path) -> None:
    lines = "\n".join(capacity_lines(load(file(tmp_path, 50), {})))
    assert "note" not in lines
    assert "receive 1 (" in lines


def test_without_declared_traffic_nothing_is_said(tmp_path: Path) -> None:
    path = file(tmp_path)
    path.write_text("\n".join(line for line in path.read_text().splitlines() if not line.startswith("traffic")))
    assert list(capacity_lines(load(path, {}))) == []
    assert checked_json(path)["capacity"] is None


def checked_json(path: Path) -> Any:
    ran = CliRunner().invoke(app, ["check", "--json", "-c", str(path)])
    assert ran.exit_code == 0, ran.output
    return json.loads(ran.stdout)


def test_the_same_as_json(tmp_path: Path) -> None:
    path = file(tmp_path)
    said = checked_json(path)["capacity"]
    assert said["turns_per_second"] == 200
    assert [each["stage"] for each in said["stages"]] == ["receive", "assemble", "evaluate", "export"]
    assert said["judges"][0]["in_flight"] == 44


def test_the_page_on_scale_says_what_the_calculator_says(tmp_path: Path) -> None:
    page = (Path(__file__).parents[4] / "deploy" / "docs" / "sizing.md").read_text()
    example = page.partition("```yaml\n")[2].partition("```")[0]
    path = tmp_path / "evalstream.yaml"
    for spans in (1_000, 100_000, 1_000_000):
        path.write_text(example.replace("spans_per_second: 1000,", f"spans_per_second: {spans},"))
        assert row(needed(path)) in page
    for costs, keep in ((PURE, "wanted"), (PURE, "all"), (COMPILED, "wanted"), (COMPILED, "all")):
        keys = f"assemble: {{keep: {keep}}}\n"
        path.write_text(example.replace("spans_per_second: 1000,", "spans_per_second: 1000000,") + keys)
        assert processes(needed(path, costs)) in page


def test_the_image_needs_fewer_processes_and_pure_python_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file(tmp_path, 100_000)
    pure = "\n".join(capacity_lines(load(path, {})))
    assert "this is for pure Python, as installed here" in pure
    assert "in pure Python" not in "\n".join(capacity_lines(load(file(tmp_path), {}))), (
        "one process a stage, either way"
    )
    path = file(tmp_path, 100_000)
    monkeypatch.setattr("collector.commands.check.capacity.is_compiled", lambda: True)
    compiled = "\n".join(capacity_lines(load(path, {})))
    assert "in pure Python" not in compiled
    assert f"assemble {needed(path, COMPILED).stages[1].processes} (" in compiled
    assert needed(path, COMPILED).stages[1].processes < needed(path, PURE).stages[1].processes


def processes(found: Capacity) -> str:
    return " + ".join(str(each.processes) for each in found.stages)


def row(found: Capacity) -> str:
    """A column of the page's table, as a row."""
    (judge,) = found.judges
    tokens = judge.input_tokens_per_second + judge.output_tokens_per_second
    return (
        f"| {found.spans_per_second:,.0f} | {found.turns_per_second:,.0f} | {found.evaluations_per_second:,.1f} | {processes(found)} "
        f"| {found.partitions} | {found.broker_in_mb_per_second:,.1f} | {judge.requests_per_second:,.1f} | {judge.in_flight:,} "
        f"| {tokens:,.0f} | {found.usd_per_day:,.0f} |"
    )
