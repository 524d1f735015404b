import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from configurations import checked
from evaluation_samples import scored
from prometheus_client import generate_latest

from collector.commands.check.check import usd_per_1000
from collector.commands.check.kafka_plan import _needed, _retention_notes, retention_lines
from collector.commands.check.summary import basis
from collector.commands.check.traffic import (
    arrival_lines,
    boost_lines,
    count_lines,
    parse_counts,
    running_metrics,
    running_sections,
    spent_at_present,
    spent_so_far,
    tokens_so_far,
    traffic,
)
from collector.config.configured import Config
from collector.config.loading import check, load
from collector.config.section_hashes import section_hashes
from collector.evaluate.outcomes import PrometheusOutcomes
from collector.evaluate.plan import Plan
from collector.export.prometheus import count_judge_use
from collector.service.gauges import show_build
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import (
    DEAD_LETTERS,
    EVALUATIONS,
    EVALUATIONS_DUE,
    JUDGE_CALLS,
    JUDGE_COST,
    JUDGE_UNPRICED_CALLS,
    OPEN_TRACES,
    RECEIVE_ITEMS,
    RECEIVE_REQUESTS,
    RECORDS_LOST,
    SAMPLING_PROBABILITY,
    SPANS_READ,
    TURNS,
    TURNS_ASSEMBLED,
    UNREAD_TEXT,
)
from evaluators.results import Usage


def config(**changes: Any) -> Config:
    return check(
        {
            "log": {"kind": "memory"},
            "evaluators": {"exact": {"kind": "exact_match"}, "other": {"kind": "exact_match"}},
            "monitors": {
                "busy": {"evaluators": ["exact"]},
                "quiet": {"match": {"service": "x"}, "evaluators": ["other"]},
            },
            "export": {"prometheus": {"port": 1}},
        }
        | changes,
        "test",
    )


def test_says_what_each_monitor_matched_where_it_went_and_why_an_evaluator_never_ran() -> None:
    telemetry = Telemetry()
    tally = PrometheusOutcomes(telemetry, Plan(()))
    tally.count_turn("", "unmatched")
    for outcome in ("sampled", "sampled", "sampled_out"):
        tally.count_turn("busy", outcome)
    for what, reason in (
        ("matched", ""),
        ("matched", ""),
        ("matched", ""),
        ("retried", ""),
        ("resumed", ""),  # after a change of the configuration: it was counted as matched, too
        ("reassigned", ""),
        ("scored", ""),
        ("skipped", "missing_field"),
        ("sampled_out", ""),
    ):
        tally.count_evaluation("busy", "exact", what, reason)
    lines = list(count_lines(config(), parse_counts(generate_latest(telemetry.registry).decode())))
    assert lines == [
        "traffic    1 turn matched no monitor",
        "traffic    busy: turns 2 sampled, 1 sampled_out",
        "           - exact: 4 in all (3 matched, 1 retried): 1 scored, 1 skipped (missing_field), 1 sampled_out, 1 not ended yet",
        "traffic    quiet: turns none matched",
        "           - other: not run since this start: no turn matched its monitor",
    ]  # fmt: skip


def test_says_what_came_and_what_of_it_nobody_reads() -> None:
    telemetry = Telemetry()
    telemetry.counter(RECEIVE_ITEMS, "otlp_http", "traces", "accepted").inc(9)
    telemetry.counter(RECEIVE_REQUESTS, "otlp_http", "traces", "200").inc(3)
    telemetry.counter(RECEIVE_REQUESTS, "otlp_http", "traces", "400").inc(2)
    telemetry.counter(SPANS_READ, "none").inc(6)
    telemetry.counter(SPANS_READ, "genai").inc(1)
    telemetry.counter(TURNS_ASSEMBLED, "genai", "incomplete", "no_content").inc()
    telemetry.counter(UNREAD_TEXT, "acme.sdk").inc(2)
    assert list(arrival_lines(generate_latest(telemetry.registry).decode(), has_turns=False)) == [
        "traffic    received by this process since its start: 9 spans accepted; requests refused: 2 with 400",
        "           spans read: 1 genai, 6 others are no model calls of a known library",
        "           turns made: 1 incomplete no_content",
        "           no dialect reads text of acme.sdk: evalstream explain TRACE_ID shows what helps",
    ]


def test_a_trace_that_is_still_open_is_no_turn_that_no_monitor_matched() -> None:
    telemetry = Telemetry()
    PrometheusOutcomes(telemetry, Plan(()))
    telemetry.counter(RECEIVE_ITEMS, "otlp_http", "traces", "accepted").inc(1)
    telemetry.gauge(OPEN_TRACES).set(1)
    metrics = generate_latest(telemetry.registry).decode()
    assert list(arrival_lines(metrics, has_turns=False)) == [
        "traffic    received by this process since its start: 1 span accepted",
        "           1 trace open: turns come a while after a trace's last span",
    ]
    assert list(count_lines(config(), parse_counts(metrics)))[-2:] == [
        "traffic    quiet: turns none yet",
        "           - other: not run since this start: no turn is complete yet",
    ]


def test_says_that_nothing_came_to_a_service_that_just_started() -> None:
    def started(port: int) -> str:
        telemetry = Telemetry()
        show_build(telemetry, at(port), ["evaluate"])
        telemetry.counter(TURNS, "busy", "sampled")
        telemetry.counter(EVALUATIONS_DUE, "busy", "exact", "backfilled").inc(2)
        return generate_latest(telemetry.registry).decode()

    with answering(started) as port:
        lines = list(traffic(at(port)))
    assert lines[0] == "traffic    received by this process since its start: nothing", "though a backfill ran"


def test_says_that_nothing_came_unless_another_process_receives() -> None:
    assert list(arrival_lines("", has_turns=False)) == ["traffic    received by this process since its start: nothing"]
    assert list(arrival_lines("", has_turns=True)) == []


def test_a_service_that_does_not_run_is_said_to() -> None:
    assert "unknown" in next(traffic(config()))


@contextmanager
def answering(text: Callable[[int], str]) -> Iterator[int]:
    """A server of /metrics with the text for its port; the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text(self.server.server_address[1]).encode())  # type: ignore[misc]

        def log_message(self, format: str, *args: object) -> None: ...

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def at(port: int, **changes: Any) -> Config:
    return config(export={"prometheus": {"port": port}}, **changes)


def metrics_of(running: Config) -> str:
    telemetry = Telemetry()
    show_build(telemetry, running, ["evaluate"])
    PrometheusOutcomes(telemetry, Plan(())).count_turn("busy", "sampled")
    telemetry.counter(RECORDS_LOST, "evaluate", "turns", "retention").inc(3)
    telemetry.counter(DEAD_LETTERS, "receive", "BadInput").inc(2)
    telemetry.counter(DEAD_LETTERS, "receive", "TooLarge").inc()
    return generate_latest(telemetry.registry).decode()


def test_the_service_with_this_configuration_is_known() -> None:
    with answering(lambda port: metrics_of(at(port))) as port:
        lines = list(traffic(at(port)))
        assert "traffic    busy: turns 1 sampled" in lines
        assert lines[-1] == (
            "           dead-lettered, as they could not be processed: 3 by receive; why: evalstream dead-letters list"
        )
        assert any("lost" in line for line in retention_lines(at(port)))
        assert "busy: turns 1 sampled" in "\n".join(traffic(at(port, traffic={"spans_per_second": 1})))


def test_the_cost_of_calls_is_that_of_all_monitors() -> None:
    """A second monitor that repeats a verdict pays nothing, and has no call."""
    telemetry = Telemetry()
    telemetry.counter(JUDGE_CALLS, "exact", "busy").inc(1000)
    telemetry.counter(JUDGE_COST, "exact", "busy").inc(0.25)
    telemetry.counter(JUDGE_COST, "exact", "quiet").inc(0)
    telemetry.counter(JUDGE_CALLS, "other", "quiet").inc(5)
    assert spent_so_far(generate_latest(telemetry.registry).decode()) == {"exact": (0.25, 1000)}


def test_the_cost_is_that_of_turns_of_which_as_many_are_skipped() -> None:
    """An evaluator of 30 % of turns cost three times what it does; the budget was set by that."""
    telemetry, g_eval = Telemetry(), {"kind": "g_eval", "criteria": "?", "evaluation_params": ["input"]}
    judge = {"model": "m", "usd_per_million_input_tokens": 1.0, "usd_per_million_output_tokens": 5.0}
    ended = {("scored", ""): 29, ("failed", "judge_timeout"): 1, ("skipped", "missing_field"): 70}
    refused = {("skipped", "over_budget"): 50, ("skipped", "shed"): 50}  # they would have asked
    for (outcome, reason), number in (ended | refused).items():
        telemetry.counter(EVALUATIONS, "e", "v", "m", "all", outcome, reason).inc(number)
    for _ in range(30):
        count_judge_use(telemetry, ("e", "m"), scored(usage=Usage(input_tokens=1000, calls=1), cost_usd=0.001))
    metrics = generate_latest(telemetry.registry).decode()
    config = checked({"e": {**g_eval, "judge": "main"}}, judges={"main": judge}, monitors={"m": {"evaluators": ["e"]}})
    for spent in (spent_so_far(metrics), spent_at_present(config, metrics)):
        assert usd_per_1000(config, spent) == pytest.approx(0.3)


def test_tokens_are_those_of_all_monitors() -> None:
    telemetry = Telemetry()
    for monitor, tokens in (("busy", 300), ("quiet", 100)):
        usage = Usage(input_tokens=tokens, output_tokens=40, calls=2, cached_input_tokens=50)
        count_judge_use(telemetry, ("exact", monitor), scored(usage=usage))
    assert tokens_so_far(generate_latest(telemetry.registry).decode()) == {
        "exact": Usage(input_tokens=400, output_tokens=80, calls=4, cached_input_tokens=100, cache_write_tokens=0)
    }


@pytest.mark.parametrize(("urgency", "usd"), [("now", 0.5), ("hours", 0.25)])
def test_calls_that_another_judge_answered_have_the_price_of_the_present_one(urgency: str, usd: float) -> None:
    """After a day of a dear judge and a rejudge, the cost of 1,000 turns was the mean of both."""
    telemetry, g_eval = Telemetry(), {"kind": "g_eval", "criteria": "?", "evaluation_params": ["input"]}
    judge = {"model": "m", "usd_per_million_input_tokens": 1.0, "usd_per_million_output_tokens": 5.0}
    for cost in (0.5, 5.0):
        usage = Usage(input_tokens=150_000, output_tokens=20_000, calls=500)
        count_judge_use(telemetry, ("e", "m"), scored(usage=usage, cost_usd=cost))
    config = checked(
        {"e": {**g_eval, "judge": "main"}, "both": {**g_eval, "judge": "jury"}},
        judges={"main": judge, "other": judge}, juries={"jury": {"judges": ["main", "other"]}},
        monitors={"m": {"evaluators": ["e", "both"], "urgency": urgency}},
    )  # fmt: skip
    count_judge_use(telemetry, ("both", "m"), scored(usage=usage, cost_usd=9.0))
    spent = spent_at_present(config, generate_latest(telemetry.registry).decode())
    assert spent == {"e": (pytest.approx(usd), 1000), "both": (9.0, 500)}
    assert basis(config, {"e": spent["e"]}).startswith("by calls since the start, with the same share skipped; ")
    assert basis(config, spent) == "by calls since the start, with the same share skipped, whichever judges answered", (
        "it is a mean that mixes judges"
    )


@pytest.mark.parametrize(("kept", "noted"), [("604800000", True), ("777600000", False), ("-1", False), (None, False)])
def test_a_history_that_ends_before_what_the_page_shows_has_a_note(kept: str | None, noted: bool) -> None:
    """A topic made by hand with 7 days was fine to `check`, and the page's week lacked its end."""
    topics = {"p.history": {"retention.ms": kept}} if kept else {}
    notes = list(_retention_notes("p.", topics, _needed(config())))
    note = "note       p.history: its retention.ms 604800000 is less than the page shows; raise it to 777600000"
    assert notes == [note] * noted


@pytest.mark.parametrize("topic", ["turns", "unlinked"])
def test_a_retention_shorter_than_what_is_still_open_has_a_note(topic: str) -> None:
    """A minute was fine to `check`: records were deleted while conversations or links waited for more."""
    link = {"link": {"services": ["*"]}}
    assert _needed(config(assemble=link))["turns"][0] == 0, "evaluators of turns wait for none"
    whole = {"kind": "conversational_g_eval", "criteria": "x", "evaluation_params": ["input"], "judge": "main"}
    changes = {
        "judges": {"main": {"model": "m"}},
        "evaluators": {"whole": whole},
        "monitors": {"all": {"evaluators": ["whole"]}},
    }
    needed = _needed(config(assemble=link, **changes))
    least = {"turns": 86_400_000, "unlinked": 21_600_000}[topic]
    what = {"turns": "a conversation's max_age", "unlinked": "assemble.link.max_age"}[topic]

    def notes(kept: int) -> list[str]:
        topics = {f"p.{topic}": {"retention.ms": str(kept)}, "p.evaluations": {"retention.ms": "-1"}}
        return list(_retention_notes("p.", topics, needed))

    short = f"note       p.{topic}: its retention.ms 60000 is less than {what}; raise it to {least}"
    assert (notes(60_000), notes(least), notes(-1)) == ([short], [], [])


def test_calls_before_a_price_was_set_make_the_others_no_cheaper() -> None:
    """The cost of 91 calls was divided by 262: a third of what 1,000 turns cost."""
    telemetry = Telemetry()
    telemetry.counter(JUDGE_CALLS, "exact", "busy").inc(262)
    telemetry.counter(JUDGE_UNPRICED_CALLS, "exact", "busy").inc(171)
    telemetry.counter(JUDGE_COST, "exact", "busy").inc(0.04368)
    assert spent_so_far(generate_latest(telemetry.registry).decode()) == {"exact": (0.04368, 91)}


def test_a_boost_that_no_judged_turn_has_met_is_said() -> None:
    """A limit in characters where words are counted: the boost never fired, and nobody said so."""
    boosted = config(monitors={"busy": {"evaluators": ["exact"], "sample": 0.1, "boost": {"error": 3, "slow": 2}}})
    telemetry = Telemetry()
    assert list(boost_lines(boosted, generate_latest(telemetry.registry).decode())) == []
    telemetry.gauge(SAMPLING_PROBABILITY, "busy", "exact", "all").set(0.1)
    telemetry.gauge(SAMPLING_PROBABILITY, "busy", "exact", "error").set(0.3)
    [line] = boost_lines(boosted, generate_latest(telemetry.registry).decode())
    assert line == "traffic    busy: no judged turn has met the boost slow"


def test_a_service_with_another_configuration_is_not_taken_for_this_one() -> None:
    changes: dict[str, Any] = {
        "evaluators": {"exact": {"kind": "exact_match", "case_sensitive": False}, "other": {"kind": "exact_match"}},
        "monitors": {"busy": {"evaluators": ["exact"]}, "new": {"evaluators": ["other"]}},
    }
    with answering(lambda port: metrics_of(at(port))) as port:
        ours = at(port, **changes)
        [line] = traffic(ours)
        assert line == (
            f"traffic    unknown (the service on port {port} has another configuration: evaluators.exact, monitors.new "
            "and monitors.quiet differ; it takes changes of its file within seconds; to run beside that service, this file needs other ports)"
        )
        assert list(retention_lines(ours)) == []


@pytest.mark.parametrize("log", ["memory", "kafka"])
def test_counts_of_one_of_several_processes_are_named_so(log: str) -> None:
    """Two processes showed more spans read than accepted, and nothing told the reader that others have the rest."""
    kafka = {"kind": "kafka", "kafka": {"bootstrap_servers": ["127.0.0.1:1"]}}
    changes: dict[str, Any] = {"log": kafka} if log == "kafka" else {}
    with answering(lambda port: metrics_of(at(port, **changes))) as port:
        lines = list(traffic(at(port, **changes)))
    assert ("           evalstream audit adds up those of all processes" in lines) == (log == "kafka")


def test_a_key_of_a_start_that_differs_is_named() -> None:
    with answering(lambda port: metrics_of(at(port, log={"kind": "memory", "retention": "1d"}))) as port:
        assert running_metrics(at(port))[1].startswith(
            f"the service on port {port} has another configuration: log.retention differs; to take this file, "
        )


_WITH_KEYS = """
judges: {main: {model: m, api_key: "${env:A_KEY:-none}", headers: {X-Team: "${env:A_TEAM:-}"}}}
evaluators: {exact: {kind: exact_match}}
monitors: {all: {evaluators: [exact]}}
export:
  prometheus: {host: 127.0.0.1, port: PORT}
  otlp: {endpoint: "http://127.0.0.1:1", headers: {Authorization: "${env:A_TOKEN:-}"}}
log: {kind: memory}
"""


def test_a_secret_that_is_not_set_in_this_terminal_is_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`check` in a terminal without the key's variable said that judges.main differs from what runs."""
    keys = {"A_KEY": "sk-1", "A_TEAM": "red", "A_TOKEN": "Bearer x"}
    file = tmp_path / "evalstream.yaml"
    running: list[str] = []
    with answering(lambda _: running[0]) as port:
        file.write_text(_WITH_KEYS.replace("PORT", str(port)))
        running.append(metrics_of(load(file, keys)))
        for name in keys:
            monkeypatch.delenv(name, raising=False)
        assert running_sections(load(file))[1] == section_hashes(load(file)), "as --diff compares them"
        of_exporter, of_judge, *rest = traffic(load(file))
        assert of_judge == "traffic    judges.main is compared without its secrets; not set here: A_KEY and A_TEAM"
        assert of_exporter == "traffic    export.otlp is compared without its secrets; not set here: A_TOKEN"
        assert rest[0] == "traffic    all: turns none matched"
        file.write_text(_WITH_KEYS.replace("PORT", str(port)).replace('"${env:A_KEY:-none}"', "none"))
        monkeypatch.setenv("A_TEAM", "blue")
        assert "judges.main differs" in running_metrics(load(file))[1], "a key that the file has not is a difference"


def test_a_secret_changes_nothing_that_is_shown() -> None:
    judges = [{"main": {"model": "m", "api_key": key}} for key in ("sk-one", "sk-two")]
    one, other = (section_hashes(config(judges=each)) for each in judges)
    assert one == other


def test_the_name_of_a_process_changes_nothing_that_is_shown() -> None:
    """Whoever looked from another machine had to know the name of the process that runs here."""

    def named(name: str) -> dict[str, str]:
        kafka = {"bootstrap_servers": ["b:9092"], "group_instance_id": name}
        source = {"kafka": [{**kafka, "traces": ["spans"]}]}
        return section_hashes(config(log={"kind": "kafka", "kafka": kafka}, receive=source))

    assert named("a") == named("b")


@pytest.mark.parametrize("text", ["<!DOCTYPE HTML>\n<title>hello</title>\n", "other_metric 1\n", ""])
def test_what_is_no_service_is_not_taken_for_one(text: str) -> None:
    with answering(lambda _: text) as port:
        [line] = traffic(at(port))
        assert line.startswith(f"traffic    unknown (what answers on port {port} is no service of this version;")
