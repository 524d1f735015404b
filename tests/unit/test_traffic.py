from collector.config.loading import Config, check
from collector.evaluate.counted import Counted
from collector.evaluate.plan import Plan
from collector.telemetry import Telemetry
from collector.traffic import counted, explained, traffic


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
    tally = Counted(telemetry, Plan(()))
    tally.turn("", "unmatched")
    for outcome in ("sampled", "sampled", "sampled_out"):
        tally.turn("busy", outcome)
    for what, reason in (
        ("matched", ""),
        ("matched", ""),
        ("matched", ""),
        ("scored", ""),
        ("skipped", "missing_field"),
        ("sampled_out", ""),
    ):
        tally.evaluation("busy", "exact", what, reason)
    lines = list(explained(config(), counted(generate_latest(telemetry.registry).decode())))
    assert lines == [
        "traffic    1 turns match no monitor",
        "traffic    busy: turns 2 sampled, 1 sampled_out",
        "           - exact: 3 matched, 1 scored, 1 skipped (missing_field), 1 sampled_out",
        "traffic    quiet: turns none: nothing matched",
        "           - other: never ran: no turn matched its monitor",
    ]  # fmt: skip


def test_a_service_that_does_not_run_is_said_to() -> None:
    assert "not known" in next(traffic(config()))
