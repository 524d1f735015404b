"""What a configuration would change, as `evalstream check --diff` says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from collector.cli import app
from collector.commands.check.changes import Changes, Compared, EvaluatorChange, NumberChange, change_lines, changes_of
from collector.config.configured import Config
from collector.config.loading import load
from collector.errors import ConfigError
from collector.service.plan_builder import evaluator_version_in, known_usd
from collector.wording import usd
from evaluators.results import Usage

FILE = """
log: {kind: memory}
judges: {main: {model: m, api_key: k, usd_per_million_input_tokens: 1.0, usd_per_million_output_tokens: 5.0}}
evaluators:
  good: {kind: g_eval, criteria: "Is it good?", evaluation_params: [input, actual_output], judge: main}
  short: {kind: length, maximum: 100}
monitors:
  all: {sample: 0.1, evaluators: [good, short]}
"""
KIND = '  kind: {kind: g_eval, criteria: "Is it kind?", evaluation_params: [input], judge: main}\n  short:'
TOKENS = {"good": Usage(input_tokens=300_000, output_tokens=40_000, calls=1000)}
OTHERS = {"cheap": "0.1", "dear": "9.0"}
TRAFFIC = "traffic: {spans_per_second: 100, spans_per_turn: 5}\n"


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def compared(folder: Path, before: str, after: str) -> Changes:
    old, new = (load(written(folder, name, text), {}) for name, text in (("old", before), ("new", after)))
    return changes_of(old, new, {})


def test_the_same_changes_nothing(tmp_path: Path) -> None:
    changes = compared(tmp_path, FILE, FILE)
    assert (changes.live, changes.restart, changes.evaluators, changes.sampling) == ((), (), (), ())
    assert (changes.budgets, changes.targets) == ((), ())
    assert (changes.new_rules, changes.removed_rules, changes.changed_rules) == ((), (), ())
    result = CliRunner().invoke(
        app, ["check", "-c", str(tmp_path / "new"), "--against", str(tmp_path / "old"), "--diff"]
    )
    assert result.exit_code == 0
    assert "changes    nothing" in result.stdout.splitlines()


def test_versions_rates_budgets_targets_cost_and_rules(tmp_path: Path) -> None:
    after = FILE.replace("Is it good?", "Is it true?").replace(
        "0.1, evaluators: [good, short]", "0.2, evaluators: [good]"
    )
    after = after.replace("[good]}", "[good], budget: {usd_per_day: 5}, alerts: {targets: {good: 0.8}}}")
    changes = compared(tmp_path, FILE, after)
    old, new = load(tmp_path / "old", {}), load(tmp_path / "new", {})
    assert "evaluators.good.criteria" in changes.live
    assert changes.restart == ()
    assert changes.evaluators == (
        EvaluatorChange("all", "good", evaluator_version_in(old, "good"), evaluator_version_in(new, "good")),
        EvaluatorChange("all", "short", evaluator_version_in(old, "short"), None),
    )
    assert changes.sampling == (NumberChange("all", 0.1, 0.2),)
    assert changes.budgets == (NumberChange("all a day", None, 5.0),)
    assert changes.targets == (NumberChange("good of all", None, 0.8),)
    before_usd, after_usd = changes.cost.before, changes.cost.after
    assert isinstance(before_usd, float)
    assert after_usd == 2 * before_usd
    assert "EvalstreamScoreDropped" in changes.new_rules
    assert "EvalstreamOverBudget" in changes.new_rules


def test_a_budget_with_another_amount_keeps_what_it_spent(tmp_path: Path) -> None:
    """From 12 to 1 USD an hour, after 4.20 USD: every turn was over the budget at once, and nothing had said so."""
    one = FILE.replace("[good, short]}", "[good, short], budget: {usd_per_hour: 12}}")
    lines = [
        *said_of(tmp_path, one, one.replace("usd_per_hour: 12", "usd_per_hour: 1")),
        *said_of(tmp_path, FILE, one),
        *said_of(tmp_path, one, FILE),
    ]
    assert [line for line in lines if line.startswith("budget")] == [
        "budget     all an hour: 12 → 1, in USD; what was spent in the last hour or day still counts",
        "budget     all an hour: no limit → 12, in USD",
        "budget     all an hour: 12 → no limit, in USD",
    ]


def test_a_new_budget_says_which_share_of_the_cost_it_pays_for(tmp_path: Path) -> None:
    """A budget of a twentieth of the cost said only "cost … for 1,000 matching turns, as before"."""
    busy = FILE.replace("[good, short]}", "[good, short], alerts: {turns_per_hour: 14000}}")
    cost = 14000 * 0.1 * (known_usd(load(written(tmp_path, "busy", busy), {}), "good") or 0.0)
    limited = busy.replace("14000}}", f"14000}}, budget: {{usd_per_hour: {cost / 20}}}}}")
    pays = f"           all: at alerts.turns_per_hour, all would cost {usd(cost)} an hour; the budget pays for 5.0%"
    lines = said_of(tmp_path, busy, limited)
    assert lines[lines.index(pays) - 1].startswith("budget     all an hour: no limit → ")
    assert not any("pays for" in line for line in said_of(tmp_path, limited, limited.replace("0.1, e", "0.05, e")))
    assert not any("pays for" in line for line in said_of(tmp_path, limited, busy))
    old, new = (load(written(tmp_path, name, text), {}) for name, text in (("old", busy), ("new", limited)))
    dear = Compared(old, "what runs", spent={"good": (10 * cost, 1400.0)})
    assert any(f"cost {usd(10 * cost)} an hour; the budget pays for 0.5%" in line for line in change_lines(new, dear))
    by_traffic = said_of(tmp_path, TRAFFIC + busy, TRAFFIC + limited)
    assert any(re.match(r" {11}the budget of .+ per day covers .+ of the cost", line) for line in by_traffic), (
        by_traffic
    )


def said_of(folder: Path, before: str, after: str) -> list[str]:
    old, new = written(folder, "old", before), written(folder, "new", after)
    return CliRunner().invoke(app, ["check", "-c", str(new), "--against", str(old), "--diff"]).stdout.splitlines()


def test_what_only_a_start_reads_is_said(tmp_path: Path) -> None:
    changes = compared(tmp_path, FILE, FILE.replace("{kind: memory}", "{kind: memory, retention: 3d}"))
    assert changes.restart == ("log.retention",)
    result = CliRunner().invoke(app, ["check", "-c", str(tmp_path / "new"), "--against", str(tmp_path / "old")])
    assert "a running service refuses the changed file" in " ".join(result.stdout.split())


@pytest.mark.parametrize("way", ["--diff", "--against"])
def test_a_preview_refuses_what_the_brokers_refuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """It said `valid` of a file with a source topic that is missing, with which no process starts."""
    monkeypatch.chdir(tmp_path)
    source = "receive: {kafka: [{bootstrap_servers: ['127.0.0.1:1'], traces: [spanz], group: g}]}\n"
    new, old = written(tmp_path, "new", FILE + source), written(tmp_path, "old", FILE)

    async def running(_: Config) -> Compared:
        return Compared(load(old, {}), "what runs")

    monkeypatch.setattr("collector.commands.check.changes.running_configuration", running)
    words = ["check", "-c", str(new), *(["--diff"] if way == "--diff" else ["--against", str(old)])]
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, ConfigError), result.output
    assert "receive.kafka[0]" in str(result.exception)
    assert "valid" not in result.stdout
    assert "restart    receive.kafka" in CliRunner().invoke(app, [*words, "--offline"]).stdout


def test_a_file_to_compare_with_that_is_missing_is_named_by_its_option(tmp_path: Path) -> None:
    new, missing = written(tmp_path, "new", FILE), str(tmp_path / "nowhere.yaml")
    commands = ["check --against", "compare evaluators --with", "log copy --to", "erase --user u --to"]
    for words in ([*command.split(), missing] for command in commands):
        result = CliRunner().invoke(app, [*words, "-c", str(new)])
        assert isinstance(result.exception, ConfigError), result.output
        assert str(result.exception) == f"{words[-2]}: {missing}: no such file; name a configuration"


def test_a_new_exporter_is_said_to_send_the_past(tmp_path: Path) -> None:
    compared(tmp_path, FILE, f"{FILE}\nexport: {{jsonl: {{path: out.jsonl}}}}\n")
    result = CliRunner().invoke(app, ["check", "-c", str(tmp_path / "new"), "--against", str(tmp_path / "old")])
    assert "first sends all evaluations that the log still has" in " ".join(result.stdout.split()), result.stdout


def test_the_cost_is_that_of_calls_so_far_while_the_judge_stays(tmp_path: Path) -> None:
    """It was a guess, four times what was spent, although the service had counted what it paid."""
    texts = (FILE, FILE.replace("Is it good?", "Is it true?"), FILE.replace("model: m", "model: n"))
    old, same, other = (load(written(tmp_path, str(number), text), {}) for number, text in enumerate(texts))
    cost = changes_of(old, same, {"good": (0.5, 1000)}).cost
    assert (cost.before, cost.after) == (0.05, 0.05)
    assert cost.where == "for 1,000 matching turns (by calls since the start, with the same share skipped)"
    more = FILE.replace("[good, short]", "[good, short, kind]").replace("  short:", KIND)
    added = changes_of(old, load(written(tmp_path, "more", more), {}), {"good": (0.5, 1000)}).cost
    assert (
        "(by calls since the start, with the same share skipped; evaluators without calls: assuming 1,500 tokens in and"
        in added.where
    )
    cost = changes_of(old, other, {"good": (0.5, 1000)}).cost
    assert cost.before == cost.after
    assert cost.where == "for 1,000 matching turns (assuming 1,500 tokens in and 200 out per evaluation)"


def test_a_rate_that_another_monitor_exceeds_changes_the_cost_of_its_own(tmp_path: Path) -> None:
    """It said `as before`, as if each turn matched both."""
    two = FILE.replace("monitors:", "monitors:\n  other: {match: {service: t}, evaluators: [good], sample: 0.05}")
    assert two != FILE
    changes = compared(tmp_path, two, two.replace("sample: 0.05", "sample: 0.01"))
    [cost] = changes.monitor_costs
    assert cost.where.startswith("for 1,000 matching turns")
    assert cost.where.endswith(" of other")
    assert (cost.before, cost.after) == (pytest.approx(5 * (cost.after or 0)), cost.after)
    assert changes.cost.before == changes.cost.after, "of a turn that matches both"
    assert changes.cost.where.startswith("for 1,000 turns, if all monitors match them")
    result = CliRunner().invoke(app, ["check", "-c", str(tmp_path / "new"), "--against", str(tmp_path / "old")])
    assert " of other" in result.stdout
    assert not compared(tmp_path, FILE, FILE.replace("tokens: 1.0", "tokens: 2.0")).monitor_costs


def test_the_cost_of_another_judge_is_that_of_the_tokens_so_far_at_its_prices(tmp_path: Path) -> None:
    """It was a guess of 1,500 tokens, although the service had counted them."""
    spent = {"good": (0.5, 1000.0)}
    old = load(written(tmp_path, "old", FILE), {})
    for changed, expected, half in (("model: n", 0.05, 0.025), ("model: n, concurrency: 7", 0.05, 0.025)):
        new = load(written(tmp_path, "new", FILE.replace("model: m", changed)), {})
        assert changes_of(old, new, spent, tokens=TOKENS).cost.after == expected
        batched = changes_of(old, new, {"good": (0.25, 1000.0)}, tokens=TOKENS).cost
        assert batched.after == half, "at the discount of batches, as before"
    new = load(written(tmp_path, "new", FILE.replace("model: m", "model: n").replace("tokens: 1.0", "tokens: 2.0")), {})
    cost = changes_of(old, new, spent, tokens=TOKENS).cost
    assert (cost.before, cost.after) == (0.05, pytest.approx(0.08))
    assert (
        cost.where == "for 1,000 matching turns (by the tokens of calls since the start, with the same share skipped)"
    )
    unpriced = load(written(tmp_path, "unpriced", re.sub(", usd_per[^}]*", "", FILE)), {})
    cost = changes_of(unpriced, new, {}, tokens=TOKENS).cost
    assert (cost.before, cost.after) == (None, pytest.approx(0.08))
    cost = changes_of(old, unpriced, spent, tokens=TOKENS).cost
    assert (cost.before, cost.after) == (0.05, None), "as it was paid, and no guess"


def test_another_jury_costs_not_what_the_jury_before_did(tmp_path: Path) -> None:
    """Its judges were in the file before, so that the cost so far of the other ones was taken for its own."""
    main = FILE.splitlines()[2].removeprefix("judges: {").removesuffix("}")
    judges = ", ".join([main, *(main.replace("main", name).replace("1.0", price) for name, price in OTHERS.items())])
    jury = (
        FILE.replace(main, judges).replace("judge: main", "judge: jury") + "juries: {jury: {judges: [main, cheap]}}\n"
    )
    old, new = (load(written(tmp_path, name, jury.replace("cheap]", f"{name}]")), {}) for name in OTHERS)
    cost = changes_of(old, new, {"good": (0.5, 1000)}, tokens=TOKENS).cost
    assert isinstance(cost.before, float)
    assert isinstance(cost.after, float)
    assert cost.after > cost.before
    assert "(assuming " in cost.where


def test_the_cost_is_that_of_the_traffic_which_the_new_one_expects(tmp_path: Path) -> None:
    changes = compared(tmp_path, FILE, TRAFFIC + FILE.replace("0.1", "0.05"))
    assert changes.cost.where == "a day"
    assert isinstance(changes.cost.before, float)
    assert changes.cost.after == changes.cost.before / 2
    assert changes.sampling == (NumberChange("all", 0.1, 0.05),)


def test_a_judge_without_a_price_costs_something_unknown(tmp_path: Path) -> None:
    unpriced = FILE.replace(", usd_per_million_input_tokens: 1.0, usd_per_million_output_tokens: 5.0", "")
    written(tmp_path, "old", TRAFFIC + FILE)
    written(tmp_path, "new", TRAFFIC + unpriced)
    result = CliRunner().invoke(app, ["check", "-c", str(tmp_path / "new"), "--against", str(tmp_path / "old")])
    assert "→ unknown (a judge has no price) a day" in " ".join(result.stdout.split())
    written(tmp_path, "new", unpriced.replace("0.1", "0.2"))
    written(tmp_path, "old", unpriced)
    result = CliRunner().invoke(app, ["check", "-c", str(tmp_path / "new"), "--against", str(tmp_path / "old")])
    said = " ".join(result.stdout.split())
    assert "cost unknown (a judge has no price) for 1,000 matching turns calls" in said, "nothing is as before"
    assert "calls for 1,000 matching turns: 100 judge calls → 200 judge calls" in said


def test_a_rate_that_is_written_out_and_was_the_monitors_changes_nothing(tmp_path: Path) -> None:
    """`sampling good of all: none → 1` was printed."""
    before = FILE.replace("sample: 0.1, ", "")
    changes = compared(tmp_path, before, before.replace("[good, short]", "[{name: good, sample: 1}, short]"))
    assert changes.sampling == ()
    changes = compared(tmp_path, before, before.replace("[good, short]", "[{name: good, sample: 0.5}, short]"))
    assert changes.sampling == (NumberChange("good of all", 1.0, 0.5),)


def test_a_sample_of_its_own_that_ends_is_followed_by_the_rate_that_counts(tmp_path: Path) -> None:
    """`good of all: 0.5 → none` read as if it was no longer judged, where all are."""
    own = FILE.replace("sample: 0.1, evaluators: [good, short]", "evaluators: [{name: good, sample: 0.5}, short]")
    lines = [
        *said_of(tmp_path, own, own.replace("0.5", "1.0")),
        *said_of(tmp_path, own, own.replace("evaluators: [{", "sample: 0.25, evaluators: [{").replace("0.5}", "0.25}")),
        *said_of(tmp_path, own, own.replace("{name: good, sample: 0.5}, ", "")),
        *said_of(tmp_path, FILE, FILE.replace("sample: 0.1", "sample: auto")),
    ]
    assert [line for line in lines if line.startswith("sampling")] == [
        "sampling   good of all: 0.5 → 1",
        "sampling   all: 1 → 0.25",
        "sampling   good of all: 0.5 → 0.25",
        "sampling   good of all: 0.5 → not judged",
        "sampling   all: 0.1 → auto (standard error 0.02)",
    ]


def test_the_golden_set_of_a_new_evaluator_has_its_cost(tmp_path: Path) -> None:
    """Eleven evaluators added made 660 calls for the golden set, of which the preview said nothing."""
    case = '{"turn_id": "%s", "input": "a", "actual_output": "b"}\n'
    golden = written(tmp_path, "golden.jsonl", "".join(case % number for number in range(60)))
    before = FILE + f"golden: {{path: {golden}}}\n"
    after = before.replace("\n  short:", f"\n{KIND}").replace("[good, short]", "[good, short, kind]")

    def golden_lines(before: str, after: str) -> list[str]:
        return [line for line in said_of(tmp_path, before, after) if line.startswith("golden")]

    dollars = known_usd(load(written(tmp_path, "new", after), {}), "kind")
    assert dollars is not None
    costs = f"golden     ≈ 60 judge calls once, ≈ {usd(60 * dollars)}: the golden set, by kind"
    assert golden_lines(before, after) == [costs]
    assert golden_lines(before, before.replace("maximum: 100", "maximum: 50")) == [], "it asks no judge"
    assert [line.rpartition(", by ")[2] for line in golden_lines(FILE, before)] == ["good"], "a new set"
    assert golden_lines(before, before.replace(".jsonl}", ".jsonl, share: 0.01}")) == [], "the set stays"
    unpriced = after.replace(
        "usd_per_million_input_tokens: 1.0, usd_per_million_output_tokens: 5.0", "base_url: 'http://x'"
    )
    assert "60 judge calls once, a judge has no price" in golden_lines(unpriced.replace(", kind]", "]"), unpriced)[0]


def test_as_json(tmp_path: Path) -> None:
    written(tmp_path, "old", FILE)
    written(tmp_path, "new", FILE.replace("0.1", "0.5"))
    result = CliRunner().invoke(
        app, ["check", "-c", str(tmp_path / "new"), "--against", str(tmp_path / "old"), "--json"]
    )
    document = json.loads(result.stdout)
    assert document["sampling"] == [{"where": "all", "before": 0.1, "after": 0.5}]
    assert document["compared_with"] == str(tmp_path / "old")


def test_without_logs_there_is_nothing_that_runs(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["check", "-c", str(written(tmp_path, "new", FILE)), "--diff"])
    assert isinstance(result.exception, ConfigError)
    assert "log.kind is memory" in str(result.exception)


def test_the_cost_of_an_audit_is_by_the_tokens_so_far(tmp_path: Path) -> None:
    """1,500 and 200 tokens were assumed of an evaluator that had run with 300 and 40."""
    dear = FILE.replace(
        "judges: {main:",
        'judges: {dear: {model: d, api_key: k, usd_per_million_input_tokens: 10, "usd_per_million_output_tokens": 50}, main:',
    )
    audits = [
        dear.replace("judge: main}", f"judge: main, audit: {{judge: dear, share: {share}}}}}") for share in (0.2, 0.5)
    ]
    plain, some, more = (load(written(tmp_path, str(number), text), {}) for number, text in enumerate((dear, *audits)))
    spent = 300_000 * 1e-6 + 40_000 * 5e-6
    added = changes_of(plain, some, {"good": (spent, 1000)}, tokens=TOKENS).cost
    assert added.before == pytest.approx(0.1 * spent)
    assert added.after == pytest.approx(0.1 * spent * (1 + 0.2 * 10))
    tokens = {"good": Usage(input_tokens=360_000, output_tokens=48_000, calls=1200)}
    raised = changes_of(some, more, {"good": (spent * 3, 1200)}, tokens=tokens).cost
    assert (raised.before, raised.after) == (pytest.approx(0.1 * spent * 3), pytest.approx(0.1 * spent * 6))
    ended = changes_of(some, plain, {"good": (spent * 3, 1200)}, tokens=tokens).cost
    assert ended.after == pytest.approx(0.1 * spent), "without the tokens of audits"


def test_a_threshold_is_said_to_hold_for_earlier_scores_too(tmp_path: Path) -> None:
    before = FILE.replace("kind: g_eval", "kind: g_eval, threshold: 0.3")
    lines = said_of(tmp_path, before, before.replace("threshold: 0.3", "threshold: 0.2"))
    assert "threshold  good of all: 0.3 → 0.2 (of each score, earlier ones too)" in lines
