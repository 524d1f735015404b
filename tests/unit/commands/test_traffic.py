from collector.commands.traffic import count_lines, parse_counts, traffic
from collector.config.loading import Config, check
from collector.evaluate.outcomes import PrometheusOutcomes
from collector.evaluate.plan import Plan
from collector.telemetry.registry import Telemetry


def config() -> Config:
    return check(
        {
            "log": {"kind": "memory"},
            "evaluators": {"exact": {"kind": "exact_match"}, "other": {"kind": "exact_match"}},
            "monitors": {
                "busy": {"evaluators": ["exact"]},
                "quiet": {"match": {"service": "x"}, "evaluators": ["other"]},
            },
            "export": {"prometheus": {"port": 1}},
        },
        "test",
    )


def test_says_what_each_monitor_matched_where_it_went_and_why_an_evaluator_never_ran() -> None:
    from prometheus_client import generate_latest

    telemetry = Telemetry()
    tally = PrometheusOutcomes(telemetry, Plan(()))
    tally.count_turn("", "unmatched")
    for outcome in ("sampled", "sampled", "sampled_out"):
        tally.count_turn("busy", outcome)
    for what, reason in (
        ("matched", ""),
        ("matched", ""),
        ("matched", ""),
        ("scored", ""),
        ("skipped", "missing_field"),
        ("sampled_out", ""),
    ):
        tally.count_evaluation("busy", "exact", what, reason)
    lines = list(count_lines(config(), parse_counts(generate_latest(telemetry.registry).decode())))
    assert lines == [
        "traffic    1 turn matched no monitor",
        "traffic    busy: turns 2 sampled, 1 sampled_out",
        "           - exact: 3 matched, 1 scored, 1 skipped (missing_field), 1 sampled_out",
        "traffic    quiet: turns none matched",
        "           - other: never ran: no turn matched its monitor",
    ]  # fmt: skip


def test_a_service_that_does_not_run_is_said_to() -> None:
    assert "unknown" in next(traffic(config()))
